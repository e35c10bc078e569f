# SPDX-License-Identifier: Apache-2.0

"""A reply is lost, or a request: it happens once, and all ends well."""

import dataclasses
from typing import Any

import pytest

from ironic_virt.driver.deploy.rebuild_info import MARK
from ironic_virt.testing.fake_ironic import FakeIronic
from tests.unit.driver.conftest import DURATIONS
from tests.unit.driver.stage import Stage

WAYS = ["lose_reply", "reset", "truncate"]


def life(stage: Stage, node: str) -> list[dict[str, Any]]:
    """Spawn, reboot, rebuild, destroy; what the node looks like after each."""
    instance = stage.instance(node)
    stage.spawn(instance)
    seen = [stage.trace(node)]
    stage.driver.reboot(instance, "HARD")
    seen.append(stage.trace(node))
    stage.fake.advance(60)
    stage.rebuild(instance)
    rebuilt = stage.trace(node)
    # It says when it was made ready.
    assert rebuilt["instance_info"].pop(MARK)["wish"] == "req-1"
    seen.append(rebuilt)
    stage.destroy(instance)
    return [*seen, stage.trace(node)]


@pytest.mark.parametrize("way", WAYS)
def test_whichever_reply_is_lost_the_life_of_an_instance_is_the_same(
    set_stage: Any, stage: Stage, node: str, fake: FakeIronic, way: str
) -> None:
    usual = life(stage, node)
    requests = len(fake.requests)
    assert requests > 15
    for nth in range(1, requests + 1):
        other = FakeIronic(durations=DURATIONS)
        again = other.add_node(ports=1, resource_class="gold")
        fault = getattr(other.faults, way)(nth=nth)
        staged = set_stage(other)
        assert life(staged, again) == usual, f"request {nth}"
        assert fault.hits == 1
        assert staged.provision_requests("active") == 1, f"request {nth}"
        assert staged.provision_requests("rebuild") == 1, f"request {nth}"
        assert staged.provision_requests("deleted") == 1, f"request {nth}"


@pytest.mark.parametrize("status", [409, 503])
def test_whichever_request_meets_a_passing_trouble_the_life_is_the_same(
    set_stage: Any, stage: Stage, node: str, fake: FakeIronic, status: int
) -> None:
    usual = life(stage, node)
    for nth in range(1, len(fake.requests) + 1):
        other = FakeIronic(durations=DURATIONS)
        again = other.add_node(ports=1, resource_class="gold")
        body = f"Node {again} is locked by host x, please retry" if status == 409 else None
        fault = other.faults.status(status, nth=nth, count=2, body=body)
        staged = set_stage(other)
        assert life(staged, again) == usual, f"request {nth}"
        assert fault.hits == 2


@pytest.mark.parametrize("way", WAYS)
def test_whichever_reply_is_lost_ironic_reserves_once(set_stage: Any, way: str) -> None:
    def set_pools(fake: FakeIronic) -> Stage:
        for _ in range(2):
            fake.add_node(ports=1, resource_class="gold")
        staged: Stage = set_stage(fake, node_selection="ironic")
        return staged

    def live(stage: Stage) -> list[Any]:
        """Spawn and destroy: how many nodes carry the instance, and the allocations' states."""
        instance, seen = stage.instance("gold~compute1"), []
        for act in (stage.spawn, stage.destroy):
            act(instance)
            stage.fake.settle()
            nodes = stage.fake.nodes()
            seen.append(sum(node["instance_uuid"] == instance.uuid for node in nodes))
            seen.append([one["state"] for one in stage.fake.allocations()])
        return seen

    durations = dataclasses.replace(DURATIONS, allocate=0.3)
    usual = FakeIronic(durations=durations)
    assert live(set_pools(usual)) == [1, ["active"], 0, []]
    for nth in range(1, len(usual.requests) + 1):
        fake = FakeIronic(durations=durations)
        fault = getattr(fake.faults, way)(nth=nth)
        staged = set_pools(fake)
        assert live(staged) == [1, ["active"], 0, []], f"request {nth}"
        assert fault.hits == 1
        assert staged.provision_requests("active") == 1, f"request {nth}"
