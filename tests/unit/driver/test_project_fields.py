# SPDX-License-Identifier: Apache-2.0

"""The project of an instance as lessee of its node."""

from typing import Any

import pytest

from ironic_virt import exceptions
from ironic_virt.driver.deploy import project_fields
from ironic_virt.testing.fake_ironic import FakeIronic
from tests.unit.driver.stage import SetStage, Stage

PROJECT, OTHER = "project-one", "project-two"
NOBODY = {"lessee": None, "extra": {}}


def told(fake: FakeIronic, node: str) -> dict[str, Any]:
    """What a node says of projects."""
    seen = fake.node(node)
    return {name: seen[name] for name in NOBODY}


def leased(project: str) -> dict[str, Any]:
    lessee = {"lessee": project}
    return {**lessee, "extra": {project_fields.MARK: lessee}}


@pytest.fixture
def stage(fake: FakeIronic, set_stage: SetStage) -> Stage:
    """A stage with the option."""
    return set_stage(fake, project_fields="lessee")


def test_by_default_none_is_written(set_stage: SetStage, fake: FakeIronic, node: str) -> None:
    stage = set_stage(fake)
    stage.spawn(stage.instance(node, project_id=PROJECT))
    for request in fake.requests.matching("PATCH", "/nodes/"):
        assert "/lessee" not in {change["path"] for change in request.body}


@pytest.mark.parametrize("since", [{}, {"lessee": OTHER}], ids=["it", "but what was changed"])
def test_it_comes_with_the_instance_and_goes_with_it(stage, fake, node, since) -> None:
    stage.driver.init_host("compute1")
    instance = stage.instance(node, project_id=PROJECT)
    stage.spawn(instance)
    assert told(fake, node) == leased(PROJECT)
    fake.set_node(node, **since)
    fake.requests.clear()
    stage.destroy(instance)
    assert told(fake, node) == NOBODY | since
    # The tear down ends all writing.  The other patch takes the protection off.
    changing = [entry.method for entry in fake.requests if entry.method != "GET"]
    assert changing == ["PATCH", "PATCH", "PUT"]


def test_what_an_operator_has_set_is_left_alone(stage, fake, node, caplog) -> None:
    fake.set_node(node, lessee=OTHER, extra={"rack": "7"})
    before = told(fake, node)
    instance = stage.instance(node, project_id=PROJECT)
    stage.spawn(instance)
    assert told(fake, node) == before
    assert "its lessee is not instance" in caplog.text
    stage.destroy(instance)
    assert told(fake, node) == before


@pytest.mark.parametrize("refused", [False, True])
def test_a_build_that_fails_leaves_nothing(stage, fake, node, refused) -> None:
    if refused:
        fake.invalidate(node, "deploy", "no ramdisk")
    else:
        fake.fail_next("deploy", "the disk is broken", node)
    error = exceptions.NodeValidationFailed if refused else exceptions.DeployFailed
    with pytest.raises(error):
        stage.spawn(stage.instance(node, project_id=PROJECT))
    assert told(fake, node) == NOBODY


def test_what_could_not_be_taken_back_is_the_next_project_s(stage, fake, node, caplog) -> None:
    instance = stage.instance(node, project_id=PROJECT)
    stage.spawn(instance)
    fake.faults.status(
        409, "PATCH", "/nodes/", "Node can not be updated while a state transition is in progress."
    )
    stage.destroy(instance)
    assert told(fake, node) == leased(PROJECT)
    assert "keeps the project of its instance" in caplog.text
    fake.advance(60)
    stage.spawn(stage.instance(node, project_id=OTHER))
    assert told(fake, node) == leased(OTHER)


def test_or_nobody_s_where_there_is_none(set_stage: SetStage, fake: FakeIronic, node: str) -> None:
    stage = set_stage(fake)
    fake.set_node(node, **leased(PROJECT))
    stage.spawn(stage.instance(node, project_id=None))
    assert told(fake, node)["lessee"] is None
