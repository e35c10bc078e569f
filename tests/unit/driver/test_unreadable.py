# SPDX-License-Identifier: Apache-2.0

"""Looks that lack what was asked for: nothing is decided by them."""

from typing import Any

import pytest

from ironic_virt import exceptions
from tests.unit.driver.stage import INSTANCE, Edit, Stage

FIELDS = ("instance_uuid", "provision_state", "power_state", "maintenance", "retired")


def spoilt(field: str, how: str, *, path: str = "/nodes", times: int | None = None) -> Edit:
    """Leave a field out of what GETs show, or make nonsense of it, so many times."""
    left = [times]

    def edit(method: str, where: str, node: dict[str, Any]) -> None:
        if method != "GET" or path not in where or field not in node or left[0] == 0:
            return
        if left[0] is not None:
            left[0] -= 1
        if how == "missing":
            del node[field]
        else:
            node[field] = {"not": "expected"}

    return edit


def torn_down(stage: Stage) -> int:
    return stage.provision_requests("deleted")


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("how", ["missing", "malformed"])
def test_destroy_never_says_done_by_a_look_that_lacks_something(fake, set_stage, node, field, how):
    stage = set_stage(fake, api_max_retries=2, unprovision_timeout=60)
    stage.spawn(stage.instance(node))
    stage.edits.append(spoilt(field, how))
    with pytest.raises(exceptions.NodeUnreadable, match=node) as caught:
        stage.destroy(stage.instance(node))
    assert caught.value.fields == (field,)
    assert fake.node(node)["instance_uuid"] == INSTANCE
    assert torn_down(stage) == 0
    stage.edits.clear()
    stage.destroy(stage.instance(node))
    assert fake.node(node)["instance_uuid"] is None


@pytest.mark.parametrize("how", ["missing", "malformed"])
@pytest.mark.parametrize("times", [1, 3])
def test_destroy_waits_past_looks_that_lack_the_instance(stage, fake, node, how, times) -> None:
    stage.spawn(stage.instance(node))
    # The watcher's looks go to the node itself.
    stage.edits.append(spoilt("instance_uuid", how, path=f"/nodes/{node}", times=times))
    ends: list[Any] = []
    stage.edits.append(lambda *_: ends.append(fake.node(node)["provision_state"]))
    stage.destroy(stage.instance(node))
    assert "deleting" in ends
    assert fake.node(node)["instance_uuid"] is None
    assert torn_down(stage) == 1


@pytest.mark.parametrize("field", ["instance_uuid", "provision_state"])
@pytest.mark.parametrize("how", ["missing", "malformed"])
def test_a_deployment_that_runs_is_not_undone_by_such_a_look(stage, fake, node, field, how):
    def while_deploying(method: str, path: str, shown: dict[str, Any]) -> None:
        if fake.node(node)["provision_state"] == "deploying":
            spoil(method, path, shown)

    spoil = spoilt(field, how, times=2)
    stage.edits.append(while_deploying)
    stage.spawn(stage.instance(node))
    assert fake.node(node)["provision_state"] == "active"
    assert torn_down(stage) == 0


def test_an_incomplete_answer_to_a_change_is_looked_up(stage, fake, node) -> None:
    def once(method: str, path: str, shown: dict[str, Any]) -> None:
        if method == "PATCH":
            shown.pop("instance_uuid", None)
            stage.edits.clear()

    stage.edits.append(once)
    stage.spawn(stage.instance(node))
    assert fake.node(node)["provision_state"] == "active"
    patches = list(fake.requests.matching("PATCH", f"/nodes/{node}$"))
    assert len(patches) == 3, "claim, configuration and protection, none of them twice"


@pytest.mark.parametrize("field", [name for name in FIELDS if name != "retired"])
@pytest.mark.parametrize("how", ["missing", "malformed"])
def test_an_unreadable_node_in_a_list_keeps_its_instance(stage, fake, node, field, how, caplog):
    free = fake.add_node(ports=1, resource_class="gold")
    stage.spawn(stage.instance(node))
    assert stage.refresh() == [node, free]
    unknown = fake.add_node(ports=1, resource_class="gold")
    spoil = spoilt(field, how)

    def both(method: str, path: str, shown: dict[str, Any]) -> None:
        if shown.get("uuid") in (node, unknown):
            spoil(method, path, shown)

    stage.edits.append(both)
    fake.advance(3600)
    assert sorted(stage.refresh()) == sorted([node, free, unknown])
    assert stage.driver.list_instance_uuids() == [INSTANCE]
    reserved = {one: stage.driver.get_inventory(one).reserved for one in (node, free, unknown)}
    assert reserved == {node: 1, free: 0, unknown: 1}
    assert not stage.driver.get_available_resource(unknown).available
    for one in (node, unknown):
        assert f"Node {one}: " in caplog.text
    stage.edits.clear()
    fake.advance(3600)
    stage.refresh()
    assert stage.driver.get_inventory(unknown).reserved == 0


@pytest.mark.parametrize("field", FIELDS)
def test_a_node_with_such_a_field_is_never_taken(fake, set_stage, node, field) -> None:
    stage = set_stage(fake, api_max_retries=2)
    stage.edits.append(spoilt(field, "missing"))
    with pytest.raises(exceptions.NodeUnreadable, match=field):
        stage.spawn(stage.instance(node))
    assert fake.requests.mutating() == []
