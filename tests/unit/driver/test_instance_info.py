# SPDX-License-Identifier: Apache-2.0

"""What an operator has put into a node's ``instance_info`` stays there."""

from typing import Any

import pytest

from ironic_virt import exceptions
from ironic_virt.driver.deploy import instance_info
from ironic_virt.testing.fake_ironic import FakeIronic
from tests.unit.driver.stage import IMAGE, INSTANCE, OTHER_IMAGE, Stage, meanwhile

OPERATORS = {
    "kernel_append_params": "console=ttyS1",
    "capabilities": '{"secure_boot": "true"}',
    "site": {"rack": 7},
    "deploy_password": "a secret that is shown masked",
}


@pytest.fixture
def noted(fake: FakeIronic, node: str) -> str:
    """A free node for which an operator has noted something."""
    fake.set_node(node, instance_info=dict(OPERATORS))
    return node


def info(fake: FakeIronic, node: str) -> dict[str, Any]:
    """What the node has, and the API masks in part."""
    with fake.lock:
        found: dict[str, Any] = dict(fake._find(node).instance_info)
    return found


def test_a_deployment_adds_to_it_and_a_rebuild_leaves_it(stage, fake, noted) -> None:
    for act, image in ((Stage.spawn, IMAGE), (Stage.rebuild, OTHER_IMAGE)):
        act(stage, stage.instance(noted))
        told = info(fake, noted)
        assert {key: told[key] for key in OPERATORS} == OPERATORS
        assert told["image_source"] == image.id
        assert set(told[instance_info.KEYS]) <= told.keys() - OPERATORS.keys()


def test_text_that_looks_hidden_is_written_and_hidden_text_stays() -> None:
    former = {"deploy_password": "******", "display_name": "web"}
    wanted = former | {"display_name": "******web", "image_url": "******"}
    assert instance_info.make_patch(former, wanted) == [
        {"op": "add", "path": "/instance_info/display_name", "value": "******web"},
        {"op": "add", "path": "/instance_info/image_url", "value": "******"},
    ]
    assert instance_info.make_patch(former, {}) == [
        {"op": "remove", "path": "/instance_info/display_name"}
    ]


def test_what_is_taken_off_before_a_deployment_is_ours_only(stage, fake, noted) -> None:
    untouched = stage.trace(noted)
    written: list[Any] = []
    look = meanwhile(lambda: written.append(info(fake, noted)), hits=True)
    fake.faults.status(400, "PUT", "/states/provision$", body="not now", when=look)
    with pytest.raises(exceptions.DeployFailed, match="not now"):
        stage.spawn(stage.instance(noted))
    assert written[0]["image_source"]
    assert info(fake, noted) == OPERATORS
    assert stage.trace(noted) == untouched
    stage.reserve(stage.instance(noted))
    stage.destroy(stage.instance(noted))
    assert stage.trace(noted) == untouched
    assert info(fake, noted) == OPERATORS


def test_leftovers_of_an_earlier_instance_go_with_a_deployment(stage, fake, node) -> None:
    named = {"boot_iso": "http://images.example.test/old.iso", "ephemeral_gb": "9", "swap_mb": "7"}
    stale = {"configdrive": "H4sIAAAA", "traits": []}
    fake.set_node(node, instance_info={**instance_info.name_keys(named), **stale, "site": "mine"})
    stage.service.has_drive = False
    stage.spawn(stage.instance(node))
    told = info(fake, node)
    assert not {"boot_iso", "ephemeral_gb", "configdrive", "traits"} & told.keys()
    assert told["site"] == "mine"


def test_what_a_former_version_wrote_is_taken_off_whole(stage, fake, node) -> None:
    stage.reserve(stage.instance(node))
    fake.set_node(node, instance_info={"flavor_name": "bm", "user.name": "ada"})
    stage.destroy(stage.instance(node))
    assert info(fake, node) == {}


def test_what_ironic_has_noted_of_the_image_goes_with_ours() -> None:
    # Of an image in Glance that Anaconda installs; the next image would get its kernel.
    noted = {"kernel": "glance://k", "image_type": "whole-disk"}
    written = instance_info.name_keys({"image_source": IMAGE.id})
    patch = instance_info.release_patch({**OPERATORS, **written, **noted}, INSTANCE)
    assert {change["path"] for change in patch} == {
        f"/instance_info/{key}" for key in (*written, *noted)
    }
