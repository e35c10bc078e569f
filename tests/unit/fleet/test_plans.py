# SPDX-License-Identifier: Apache-2.0

"""Plans of shards: who gets what, for any deployment, what is refused; and the file of a plan."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import hypothesis
import pytest
from hypothesis import strategies as st

from ironic_virt.fleet import checks
from ironic_virt.fleet.deployment import Deployment, Record, pool_name
from ironic_virt.fleet.hosts import Aggregate, Group
from ironic_virt.fleet.plans import plan as plans
from ironic_virt.fleet.plans import strategies, summary
from ironic_virt.fleet.plans.plan import Plan, PlanRefused
from tests.unit.fleet.deployments import (
    changed,
    fleet,
    node,
    node_uuid,
    server_uuid,
    with_hosts,
    with_node,
    with_options,
    with_placement,
    with_server,
    with_service,
)

HOSTS = ("compute-a", "compute-b", "compute-c", "compute-d")
A, B, C, D = HOSTS

counts = st.dictionaries(st.sampled_from(HOSTS), st.integers(0, 30), min_size=2)


@st.composite
def deployments(draw: st.DrawFn) -> Deployment:
    """Services with a shard each, with nodes, some with a server, and some new nodes."""
    base = fleet(draw(counts), taken=draw(st.integers(1, 4)))
    hypothesis.assume(base.records)
    fresh = [node(9000 + number) for number in range(draw(st.integers(0, 5)))]
    return changed(base, nodes={**base.nodes, **{one.uuid: one for one in fresh}})


def owners(deployment: Deployment, plan: Plan) -> dict[str, str]:
    """Each node's service when the plan is carried out."""
    return {**deployment.owner_of, **{change.node: change.host[1] for change in plan.changes}}


def check(deployment: Deployment, plan: Plan) -> None:
    """What holds of every plan."""
    after = owners(deployment, plan)
    shards = {uuid: one.shard for uuid, one in deployment.nodes.items()} | {
        change.node: change.shard[1] for change in plan.changes
    }
    # Every node that changes has one owner, and the shard of that owner and of no other.
    touched = {change.node for change in plan.changes}
    assert all(shards[uuid] == plan.services[after[uuid]].shard for uuid in touched)
    assert {host for one in plan.changes for host in one.host if host} == plan.services.keys()
    assert all(change.is_needed for change in plan.changes)
    for change in plan.changes:
        record = deployment.node_records.get(change.node)
        assert change.host[0] == (record.host if record else None)
        servers = [one.uuid for one in deployment.servers_by_place.get(change.node, ())]
        assert servers == ([change.server] if change.server else [])
    steps = plan.steps()
    assert sum(step.nodes for step in steps) == len(plan.moved)
    assert len({step.host for step in steps}) == len(steps)
    rows = summary.rows(deployment, plan)
    assert sum(row.before for row in rows) == len(deployment.node_records)
    assert sum(row.after for row in rows) == len(after)
    assert sum(row.moving_in for row in rows) == len(plan.moved)


@hypothesis.given(deployments(), st.booleans())
def test_keep_moves_no_record_and_touches_new_nodes_only_if_told(deployment, new) -> None:
    ring = {host: changed(one, written={}) for host, one in deployment.options.items()}
    bare = {uuid: changed(one, shard=None) for uuid, one in deployment.nodes.items()}
    before = changed(deployment, options=ring, nodes=bare)
    if len(ring) > 1:
        with pytest.raises(PlanRefused, match="node-in-two-target-sets"):
            strategies.keep(before, new=new)
    plan = strategies.keep(before, accepted=["node-in-two-target-sets"], new=new)
    check(changed(deployment, nodes=bare), plan)
    assert plan.moved == []
    expected = deployment.nodes.keys() if new else deployment.node_records.keys()
    assert {change.node for change in plan.changes} == expected
    # The nodes of services that nobody has named stay as they are.
    (host, *_) = ring
    of_one = strategies.keep(changed(before, options={host: ring[host]}))
    assert {change.node for change in of_one.changes} == set(strategies.nodes_of(before, host))


@hypothesis.given(deployments(), st.data())
def test_drain_moves_a_services_nodes_to_those_named(deployment, data) -> None:
    host, *others = data.draw(st.permutations(sorted(deployment.options)))
    if not (has := set(strategies.nodes_of(deployment, host))):
        with pytest.raises(PlanRefused, match="has no nodes"):
            strategies.drain(deployment, host, others)
        return
    plan = strategies.drain(deployment, host, others)
    check(deployment, plan)
    assert {change.node for change in plan.changes} == has
    assert {change.host[0] for change in plan.moved} == {host}
    # Those that have fewest get them.
    after = Counter(owners(deployment, plan).values())
    before = Counter(record.host for record in deployment.records)
    getters = {host: after[host] for host in others if after[host] > before[host]}
    assert max(getters.values()) - min(after[host] for host in others) <= 1


@hypothesis.given(deployments(), st.integers(1, 40))
def test_a_number_of_nodes_goes_and_those_without_a_server_first(deployment, number) -> None:
    source, target = sorted(deployment.options)[:2]
    if not (has := strategies.nodes_of(deployment, source)):
        return
    plan = strategies.move(deployment, has, [target], number=number)
    check(deployment, plan)
    assert len(plan.changes) == min(number, len(has))
    free = [one for one in has if deployment.nodes[one].instance_uuid is None]
    assert sum(change.server is None for change in plan.changes) == min(number, len(free))


# -- what is refused ----------------------------------------------------------


def drained(deployment: Deployment, *accepted: str) -> Plan:
    return strategies.drain(deployment, A, [B], accepted=accepted)


def three() -> Deployment:
    """Three services with shards, two nodes each; every second node has a server."""
    return fleet({A: 2, B: 2, C: 2})


def named(deployment: Deployment, *hosts: str) -> Deployment:
    return changed(deployment, options={host: deployment.options[host] for host in hosts})


def group(*members: int, most: int | None) -> dict[str, Group]:
    made = Group("g", frozenset(map(server_uuid, members)), most)
    return dict.fromkeys(made.members, made)


CROWDED = group(2, 4, most=1)
"""Servers of two services that must not share one."""


CELLS = {A: "cell1", B: "x"}
ZONES = [Aggregate(zone, zone, frozenset({host}), zone) for host, zone in ((A, "az1"), (B, "az2"))]
SSD = [Aggregate("ssd", "u", frozenset({A}))]
REFUSED: dict[str, tuple[Callable[[Deployment], Deployment], str]] = {
    "source": (lambda d: named(d, B), "with compute-a, which was not named"),
    "target": (lambda d: named(d, A), "compute-b was not named"),
    "no shard": (lambda d: with_options(d, B), "its file sets no shard"),
    "same shard": (lambda d: with_options(d, B, shard=A), "two services have"),
    "same shard there": (lambda d: with_options(d, C, shard=B), "compute-b and compute-c"),
    "group": (lambda d: with_options(d, B, shard=B, conductor_group="x"), "serves 'x'"),
    "pools": (lambda d: with_options(d, B, shard=B, node_selection="ironic"), "pools"),
    "misspelt": (
        lambda d: changed(d, services=[one for one in d.services if one.host != B]),
        "no nova-compute on compute-b",
    ),
    "down": (lambda d: with_service(d, B, up=False), "compute-b is down"),
    "never": (lambda d: with_service(d, B, up=False, last_seen=None), "never reported"),
    "forced": (lambda d: with_service(d, B, forced_down=True), "forced down"),
    "disabled": (lambda d: with_service(d, B, disabled=True), "is disabled"),
    "cell not mapped": (lambda d: with_service(d, B, cell="x"), "not mapped"),
    "not mapped": (lambda d: with_hosts(d, cells={A: "cell1"}), "not mapped"),
    "another cell": (
        lambda d: with_hosts(with_service(d, B, cell="x"), cells=CELLS),
        "is in another cell",
    ),
    "zone": (lambda d: with_hosts(d, aggregates=ZONES), "zone az1, compute-b in az2"),
    "aggregate": (lambda d: with_hosts(d, aggregates=SSD), "in aggregate ssd"),
    "crowd": (lambda d: with_hosts(d, groups=CROWDED), "server group g keeps"),
    "two records": (
        lambda d: changed(d, records=[*d.records, changed(d.records[0], id=9, host=C)]),
        "node-in-two-records",
    ),
    "two cells": (
        lambda d: changed(d, records=[*d.records, changed(d.records[0], name="n", cell="x")]),
        "compute-a is in two cells; name its own with --cell",
    ),
    "a node": (lambda d: with_node(d, node_uuid(1), maintenance=True), "offered-unavailable"),
    "a host": (lambda d: with_options(d, B, shard=B, nope="1"), "option-unknown"),
}


@pytest.mark.parametrize(("spoil", "why"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused(spoil: Callable[[Deployment], Deployment], why: str) -> None:
    assert len(drained(three()).changes) == 2
    with pytest.raises(PlanRefused, match="only other services can take"):
        strategies.drain(three(), A, [A, B])
    with pytest.raises(PlanRefused, match=why):
        drained(spoil(three()))


def test_together_means_together() -> None:
    deployment = fleet({A: 4, B: 2, C: 0})
    deployment = with_hosts(deployment, groups=group(2, 4, most=None))
    assert len(drained(deployment).changes) == 4
    with pytest.raises(PlanRefused, match="server group g would be separated"):
        strategies.move(deployment, [node_uuid(2)], [B])


def test_faults_of_others_and_accepted_ones_are_no_obstacle() -> None:
    deployment = with_node(three(), node_uuid(3), maintenance=True)
    assert len(drained(deployment).changes) == 2
    deployment = with_node(deployment, node_uuid(1), maintenance=True)
    plan = drained(deployment, "offered-unavailable")
    assert plan.accepted == ("offered-unavailable",)
    record = changed(deployment.records[0], host=C)
    twice = changed(deployment, records=[*deployment.records, record])
    with pytest.raises(PlanRefused, match="node-in-two-records"):
        drained(twice, "offered-unavailable", "node-in-two-records")
    # A zone that is accepted.
    apart = with_hosts(three(), aggregates=ZONES)
    assert len(drained(apart, "az2").changes) == 2
    # What no move makes worse.
    empty = {one.uuid: frozenset[str]() for one in apart.hosts.aggregates}
    lacking = with_placement(apart, aggregates=empty)
    assert "zone-incomplete" in {one.code for one in checks.run(lacking)}
    assert len(drained(lacking, "az2").changes) == 2
    with pytest.raises(PlanRefused, match="zone"):
        drained(apart, "az1")


def test_a_service_that_only_gives_may_be_down() -> None:
    deployment = three()
    for host in (A, C):
        deployment = with_service(deployment, host, up=False, forced_down=True, disabled=True)
    plan = drained(deployment)
    assert {change.host[0] for change in plan.changes} == {A}
    # Neither is a service that nobody named.
    assert drained(named(deployment, A, B)) == plan


def test_a_server_follows_a_record_that_has_moved() -> None:
    node = node_uuid(2)
    rows = [changed(row, host=B) if row.name == node else row for row in three().records]
    half = with_node(changed(three(), records=rows), node, shard=B)
    plan = strategies.move(half, [node], [C, B], accepted=["host-differs"])
    assert [(change.host, change.shard) for change in plan.moved] == [((A, B), (B, B))]
    assert {row.service: row.after for row in summary.rows(half, plan)} == {A: 1, B: 3, C: 2}
    with pytest.raises(PlanRefused, match="compute-a, which was not named"):
        strategies.move(named(half, B), [node], [B], accepted=["host-differs"])


def test_nodes_of_somebody_else_are_left_alone() -> None:
    strange = {
        "free": node(51),
        "ours": node(52, shard="COMPUTE-C"),
        "another cloud's": node(53, shard="prod"),
        "enrolled": node(54, provision_state="enroll"),
        "in a pool": node(55, resource_class="silver"),
        "another's server": with_server(node(56), "strange"),
        "reserved": node(57, instance_uuid="strange"),
    }
    pool = Record("cell1", 99, "uuid", D, pool_name(D, strange["in a pool"]))
    base = changed(three(), records=[*three().records, pool])
    deployment = changed(base, nodes={**base.nodes, **{n.uuid: n for n in strange.values()}})
    assert strategies.keep(deployment).changes == []
    plan = strategies.keep(deployment, new=True)
    assert {change.node for change in plan.changes} == {strange["free"].uuid, strange["ours"].uuid}
    # Nor one that our driver has made a record of, with an instance of somebody else.
    known = with_node(base, node_uuid(1), instance_uuid="strange")
    assert {change.node for change in drained(known).changes} == {node_uuid(2)}
    for name, one in strange.items():
        if name not in ("free", "ours"):
            with pytest.raises(PlanRefused, match="none of these nodes has a record"):
                strategies.move(deployment, [one.uuid], [B], new=True)
    # One that the service with the pool does not serve may be new.
    served = with_options(deployment, D, node_selection="ironic", shard="x")
    assert strategies.move(served, [strange["in a pool"].uuid], [B], new=True).changes
    # Where not all cells were read, nobody knows which are new.
    assert strategies.keep(changed(deployment, whole=False), new=True).changes == []
    with pytest.raises(PlanRefused, match="Ironic has no node"):
        strategies.move(deployment, ["x"], [B])


def test_a_service_keeps_the_shard_of_its_file() -> None:
    deployment = fleet({A: 2, B: 2}, shards=False)
    for host in (A, B):
        deployment = with_options(deployment, host, shard=f"rack-{host[-1]}")
    accepted = ["node-in-no-target-set", "node-outside-its-service"]
    plan = strategies.keep(deployment, accepted=accepted)
    assert {host: one.shard for host, one in plan.services.items()} == {A: "rack-a", B: "rack-b"}
    assert [one.shard for one in plan.changes] == [(None, "rack-a")] * 2 + [(None, "rack-b")] * 2
    capital = with_node(deployment, node_uuid(1), shard="RACK-A")
    plan = strategies.keep(capital, accepted=accepted)
    assert (len(plan.changes), next(summary.instructions(plan, capital, ""))[:7]) == (3, "3 nodes")
    grouped = with_options(deployment, A, conductor_group="")
    with pytest.raises(PlanRefused, match="in conductor group 'x', but compute-a serves ''"):
        strategies.keep(with_node(grouped, node_uuid(1), conductor_group="x"))


# -- the file -----------------------------------------------------------------


@hypothesis.given(deployments())
@hypothesis.settings(max_examples=20)
def test_a_file_is_read_as_written_and_undone_by_the_journal(tmp_path_factory, deployment) -> None:
    path = tmp_path_factory.mktemp("plans") / "plan.yaml"
    source, *others = sorted(deployment.options)
    hypothesis.assume(nodes := strategies.nodes_of(deployment, source))
    plan = strategies.move(deployment, nodes, others)
    plans.write(plan, path)
    assert plans.read(path) == plan
    with pytest.raises(PlanRefused, match="exists"):
        plans.write(plan, path)
    back = plan.undone({change.node: ("Was", change.host[0]) for change in plan.changes})
    for change, undo in zip(plan.changes, back.changes, strict=True):
        assert undo.shard == (change.shard[1], "Was")
        assert undo.host == (change.host[1], change.host[0])
    assert plan.undone({}).changes == []


def test_a_file_that_was_cut_off_or_edited(tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    plans.write(drained(fleet({A: 9, B: 1})), path)
    whole = path.read_text()
    lines = whole.splitlines(keepends=True)
    first = next(number for number, line in enumerate(lines) if line.startswith("changes"))
    for end in range(first + 2, len(lines)):
        path.write_text("".join(lines[:end]))
        with pytest.raises(PlanRefused, match=r"it has \d of 9 changes|is not a plan"):
            plans.read(path)
    starts = [number for number, line in enumerate(lines) if line.startswith("- node")]
    path.write_text("".join(lines[: starts[-1]]))
    with pytest.raises(PlanRefused, match="it has 8 of 9 changes"):
        plans.read(path)
    assert len(plans.read(path, edited=True).changes) == 8
    for was, becomes, why in (
        (whole, "{", "not YAML"),
        (whole, "9" * 5000, "not YAML"),
        (whole, "[]", "not a plan"),
        (whole, "version: 7", "version 7"),
        (whole, "version: 2", "not a plan: Object missing"),
        ("shard: [compute-a, compute-b]", "shard: [compute-x, compute-b]", "or was edited"),
        ("shard: [compute-a, compute-b]", "shard: [compute-a, compute-x]", "whose shard is not"),
        ("shard: [compute-a, compute-b]", "shard: compute-b", "not a plan: Expected `array`"),
        ("00Z", "00", "not a plan: Expected `datetime` with a timezone"),
    ):
        assert was in whole
        path.write_text(whole.replace(was, becomes, 1))
        with pytest.raises(PlanRefused, match=why):
            plans.read(path, edited="whose" in why)


def test_the_instructions_name_each_service_to_stop_once() -> None:
    plan = strategies.drain(fleet({A: 9, B: 0, C: 3}), A, [B, C])
    said = list(summary.instructions(plan, fleet({A: 9, B: 0, C: 3}), "plan.yaml"))
    assert [line for line in said if f"Stop nova-compute on {A}" in line] == [said[1]]
    ring = fleet({A: 1, B: 1}, shards=False)
    plan = strategies.keep(ring, accepted=["node-in-two-target-sets"])
    kept = summary.instructions(plan, ring, "plan.yaml")
    assert "Set [ironic] shard = compute-b in the file of compute-b, remove" in "".join(kept)
