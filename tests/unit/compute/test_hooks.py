# SPDX-License-Identifier: Apache-2.0

"""What the reference service makes of a hook's word."""

import pytest

from ironic_virt.driver import hooks
from ironic_virt.testing.fake_ironic import FakeIronic
from tests import entry_points
from tests.unit.compute.service_stage import GOLD, ServiceStage


class Choosy(hooks.Hook):
    """Wants nodes as the instance's user says."""

    def before_deploy(self, deployment: hooks.Deployment) -> None:
        wish = deployment.metadata.get("rack")
        if wish == "none":
            raise hooks.Refused("there is no such rack")
        if wish and deployment.node.extra.get("rack") != wish:
            raise hooks.Refused(f"it is not in rack {wish}", another_node=True)


@pytest.fixture
def nodes(fake: FakeIronic) -> list[str]:
    found = fake.add_nodes(2, **GOLD)
    for number, node in enumerate(found, 1):
        fake.set_node(node, extra={"rack": f"r{number}"})
    return found


@pytest.fixture
def stage(set_stage, nodes, tmp_path, monkeypatch) -> ServiceStage:
    points = {"choosy": f"{__name__}:Choosy"}
    entry_points.install(tmp_path / "hooks", monkeypatch, hooks.NAMESPACE, points)
    return set_stage(ironic={"hooks": "choosy"}).begin()


def test_another_node_is_tried_only_if_the_hook_says_so(stage, nodes) -> None:
    uuid = stage.create(properties={"rack": "r2"})
    stage.look(3)
    assert stage.state(uuid) == ("active", None)
    assert stage.instance(uuid).node == nodes[1]
    stage.nobody_has(nodes[:1])


def test_an_instance_that_is_refused_is_in_error_and_says_why(stage, nodes) -> None:
    uuid = stage.create(properties={"rack": "none"})
    stage.look(3)
    assert stage.state(uuid) == ("error", None)
    assert stage.instance(uuid).attempts == 1
    assert "hook 'choosy' refused the deployment: there is no such rack" in stage.fault(uuid)
    stage.nobody_has(nodes)
