# SPDX-License-Identifier: Apache-2.0

"""What it takes to bring servers into pools of nodes and back."""

import dataclasses
import datetime

import pytest

from ironic_virt import exceptions
from ironic_virt.fleet.deployment import Deployment, Record, pool_name
from ironic_virt.fleet.plans.apply import Effect
from ironic_virt.fleet.pools import conversion
from ironic_virt.fleet.pools.conversion import Conversion, Direction
from ironic_virt.fleet.stopped import Watched
from tests.unit.fleet import deployments

ENTER, LEAVE = Direction.ENTER, Direction.LEAVE
POOL, FAST = "gold~a", pool_name("a", deployments.node(0, traits=frozenset({"CUSTOM_GPU"})))


@pytest.fixture
def stopped() -> Deployment:
    """Six nodes of a stopped service: 2, 4 and 6 have a server, 6 has a GPU."""
    gpu, sixth = frozenset({"CUSTOM_GPU"}), deployments.node_uuid(6)
    found = deployments.with_node(deployments.fleet({"a": 6, "b": 2}), sixth, traits=gpu)
    long_ago = deployments.NOW - datetime.timedelta(hours=1)
    return deployments.with_service(found, "a", forced_down=True, last_seen=long_ago)


def planned(deployment: Deployment, direction: Direction = ENTER) -> Conversion:
    forced = {one.host: one for one in deployment.services if one.forced_down}
    return conversion.plan(deployment, "a", direction, Watched(forced))


def carried_out(
    deployment: Deployment, done: Conversion, moves: int | None = None, removed: int | None = None
) -> Deployment:
    """The deployment afterwards, as it is if the run was cut off after so many steps."""
    records = {record.name: record for record in deployment.records}
    for number, (name, target) in enumerate(done.targets.items(), start=500):
        uuid = target.resource.uuid
        records.setdefault(name, Record("cell1", number, uuid, "a", name))
    servers = dict(deployment.servers)
    for move in done.moves[:moves]:
        if move.target is not None:
            servers[move.server.uuid] = dataclasses.replace(move.server, node=move.target)
    if moves is None:
        for record in done.emptied[:removed]:
            del records[record.name]
    return deployments.changed(deployment, records=list(records.values()), servers=servers)


def places(deployment: Deployment) -> dict[str, str | None]:
    return {one.uuid: one.node for one in deployment.live_servers if one.host == "a"}


def records(deployment: Deployment) -> set[str]:
    return {record.name for record in deployment.records if record.host == "a"}


def test_servers_go_to_the_pools_of_their_nodes_and_back(stopped: Deployment) -> None:
    before = places(stopped)
    into = planned(stopped)
    pools = {name: (one.inventory, len(one.replaced)) for name, one in into.targets.items()}
    assert {name: (p.total, p.reserved, p.traits, n) for name, (p, n) in pools.items()} == {
        POOL: (5, 0, frozenset(), 5),
        FAST: (1, 0, {"CUSTOM_GPU"}, 1),
    }
    entered = carried_out(stopped, into)
    assert records(entered) == {POOL, FAST}
    assert places(entered) == {
        server: FAST if node == deployments.node_uuid(6) else POOL
        for server, node in before.items()
    }
    out = planned(entered, LEAVE)
    assert {name: target.inventory.reserved for name, target in out.targets.items()} == (
        dict.fromkeys(before.values(), 1)
    )
    left = carried_out(entered, out)
    assert places(left) == before
    # Free nodes get theirs from the service.
    assert records(left) == set(before.values())
    # Nobody else's record is touched.
    assert {one.name for one in left.records if one.host == "b"} == {
        one.name for one in stopped.records if one.host == "b"
    }


@pytest.mark.parametrize("direction", [ENTER, LEAVE])
def test_wherever_it_is_cut_off_it_goes_on_and_then_has_ended(stopped, direction) -> None:
    begun = stopped if direction is ENTER else carried_out(stopped, planned(stopped))
    whole = planned(begun, direction)
    ended = carried_out(begun, whole)
    cuts = [carried_out(begun, whole, moves=count) for count in range(len(whole.moves))]
    cuts += [carried_out(begun, whole, removed=count) for count in range(len(whole.emptied))]
    for cut in cuts:
        again = carried_out(cut, planned(cut, direction))
        assert (places(again), records(again)) == (places(ended), records(ended))
    nothing = planned(ended, direction)
    assert (nothing.targets, nothing.moves, nothing.emptied) == ({}, [], [])


def test_a_server_that_can_not_go_keeps_its_record(stopped: Deployment) -> None:
    second, fourth, sixth = (deployments.server_uuid(number) for number in (2, 4, 6))
    servers = dict(stopped.servers)
    servers[second] = dataclasses.replace(servers[second], task_state="rebooting")
    odd = deployments.changed(stopped, servers=servers)
    odd = deployments.with_node(odd, deployments.node_uuid(4), instance_uuid=None)
    odd = deployments.with_node(odd, deployments.node_uuid(6), resource_class=None)
    plan = planned(odd)
    assert [move.target for move in plan.moves] == [None] * 3
    assert {move.server.uuid: (move.outcome, move.reason[:6]) for move in plan.moves} == {
        second: (Effect.WAITS, "it is "),
        fourth: (Effect.REFUSED, "no nod"),
        sixth: (Effect.REFUSED, "its no"),
    }
    kept = {record.name for record in stopped.records if record.host == "a"}
    assert {one.name for one in plan.emptied} == kept - set(places(odd).values())
    # One that another node carries than Nova knows.
    moved = deployments.with_node(stopped, deployments.node_uuid(4), instance_uuid=None)
    moved = deployments.with_node(moved, deployments.node_uuid(3), instance_uuid=fourth)
    (refused,) = [move for move in planned(moved).moves if move.target is None]
    assert (refused.server.uuid, refused.outcome) == (fourth, Effect.REFUSED)
    # On the way back: a node whose record another host has.
    entered = carried_out(stopped, planned(stopped))
    node = deployments.node_uuid(4)
    foreign = deployments.changed(
        entered, records=[*entered.records, Record("cell1", 900, node, "b", node)]
    )
    plan = planned(foreign, LEAVE)
    (refused,) = [move for move in plan.moves if move.target is None]
    assert refused.reason == "the record of its node is with b"
    assert [record.name for record in plan.emptied] == [FAST]


def test_a_service_that_is_not_stopped_blocks_it(stopped: Deployment) -> None:
    assert planned(stopped).blocked == ""
    running = conversion.plan(stopped, "b", ENTER, Watched())
    assert running.blocked == "stop nova-compute on b, and force it down"
    fresh = Watched({"a": dataclasses.replace(stopped.service_of["a"], reports=7)})
    assert "a has reported again" in conversion.plan(stopped, "a", ENTER, fresh).blocked
    record = deployments.changed(stopped.records[0], cell="other")
    twice = deployments.changed(stopped, records=[*stopped.records, record])
    for deployment, host, why in ((stopped, "c", "no nova-compute"), (twice, "a", "with --cell")):
        with pytest.raises(exceptions.InvalidConfiguration, match=why):
            conversion.plan(deployment, host, ENTER, Watched())
