# SPDX-License-Identifier: Apache-2.0

"""Plans of shards: who gets what, for any deployment; and the file that says so."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import hypothesis
import pytest
from hypothesis import strategies as st

from ironic_virt.fleet.deployment import Deployment
from ironic_virt.fleet.options import ServiceOptions
from ironic_virt.fleet.plans import plan as plans
from ironic_virt.fleet.plans import strategies, summary
from ironic_virt.fleet.plans.plan import Plan, PlanRefused
from tests.unit.fleet.deployments import changed, fleet, node, node_uuid, with_node

HOSTS = ("compute-a", "compute-b", "compute-c", "compute-d")
GROUPS = ("", "rack1", "Rack2")
CLASSES = ("gold", "silver")

counts = st.dictionaries(st.sampled_from(HOSTS), st.integers(0, 30), min_size=1)


@st.composite
def deployments(draw: st.DrawFn) -> Deployment:
    """Services in a ring, with nodes of several groups and classes, some without a record."""
    base = fleet(draw(counts), taken=draw(st.integers(1, 4)), shards=False)
    kinds = st.tuples(st.sampled_from(GROUPS), st.sampled_from(CLASSES))
    nodes = {
        uuid: changed(one, conductor_group=kind[0], resource_class=kind[1])
        for (uuid, one), kind in zip(
            base.nodes.items(),
            draw(st.lists(kinds, min_size=len(base.nodes), max_size=len(base.nodes))),
            strict=True,
        )
    }
    for number in range(draw(st.integers(0, 5))):
        new = node(9000 + number)
        nodes[new.uuid] = new
    hypothesis.assume(base.records)
    return changed(base, nodes=nodes, options={})


def owners(deployment: Deployment, plan: Plan) -> dict[str, str]:
    """Each node's service when the plan is carried out."""
    before = {uuid: record.host for uuid, record in deployment.node_records.items()}
    return before | {change.node: change.host[1] for change in plan.changes}


def loads(deployment: Deployment, plan: Plan, hosts: tuple[str, ...]) -> Counter[str]:
    found = Counter(owners(deployment, plan).values())
    return Counter({host: found[host] for host in hosts})


def check(deployment: Deployment, plan: Plan) -> None:
    """What holds of every plan."""
    after = owners(deployment, plan)
    shards = {uuid: one.shard for uuid, one in deployment.nodes.items()} | {
        change.node: change.shard[1] for change in plan.changes
    }
    # Every node has one owner, and the shard of that owner and of no other.
    assert after.keys() == deployment.nodes.keys()
    assert all(shards[uuid] == plan.shards[host] for uuid, host in after.items())
    assert len(set(plan.shards.values())) == len(plan.shards)
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
    assert sum(row.after for row in rows) == len(deployment.nodes)
    assert sum(row.moving_in for row in rows) == len(plan.moved)


@hypothesis.given(deployments())
def test_keep_moves_no_record(deployment: Deployment) -> None:
    plan = strategies.keep(deployment)
    check(deployment, plan)
    assert plan.moved == []
    assert plan.steps() == []


@hypothesis.given(deployments(), st.integers(1, len(HOSTS)))
def test_balance_makes_the_fewest_moves_to_within_5_percent(
    deployment: Deployment, number: int
) -> None:
    hosts = HOSTS[:number]
    plan = strategies.balance(deployment, hosts)
    check(deployment, plan)
    found = loads(deployment, plan, hosts)
    assert sum(found.values()) == len(deployment.nodes)
    mean = sum(found.values()) / number
    # A node can't be cut in two.
    assert max(found.values()) <= max(mean * 1.05, -(-mean // 1))
    assert min(found.values()) >= min(mean * 0.95, mean // 1)
    now = Counter(record.host for record in deployment.records)
    if len(deployment.nodes) == len(deployment.records) and now.keys() <= set(hosts):
        # What is too much has to go, and what is too little has to come.
        most, least = (
            max(int(mean * 1.05), -int(-mean // 1)),
            min(-int(-mean * 0.95 // 1), int(mean)),
        )
        too_much = sum(max(0, now[host] - most) for host in hosts)
        too_little = sum(max(0, least - now[host]) for host in hosts)
        assert len(plan.moved) == max(too_much, too_little)


@hypothesis.given(deployments(), st.sampled_from(HOSTS))
def test_drain_moves_what_a_service_has_and_nothing_else(
    deployment: Deployment, host: str
) -> None:
    has = [record for record in deployment.records if record.host == host]
    others = {record.host for record in deployment.records} - {host}
    if not has or not others:
        with pytest.raises(PlanRefused):
            strategies.drain(deployment, host)
        return
    plan = strategies.drain(deployment, host)
    check(deployment, plan)
    assert {change.host[0] for change in plan.moved} == {host}
    assert len(plan.moved) == len(has)


@hypothesis.given(deployments())
def test_add_moves_only_to_the_new_service(deployment: Deployment) -> None:
    plan = strategies.add(deployment, "compute-new")
    check(deployment, plan)
    assert {change.host[1] for change in plan.moved} <= {"compute-new"}
    hosts = {record.host for record in deployment.records} | {"compute-new"}
    mean = len(deployment.nodes) / len(hosts)
    assert loads(deployment, plan, ("compute-new",))["compute-new"] >= int(mean * 0.95)


@hypothesis.given(deployments(), st.integers(2, len(HOSTS)))
def test_a_conductor_group_stays_together(deployment: Deployment, number: int) -> None:
    plan = strategies.balance(deployment, HOSTS[:number], keep_groups=True)
    check(deployment, plan)
    after = owners(deployment, plan)
    for group in GROUPS:
        members = [
            uuid
            for uuid, one in deployment.nodes.items()
            if (one.conductor_group or "").lower() == group.lower()
        ]
        assert len({after[uuid] for uuid in members}) <= 1


@hypothesis.given(deployments(), st.integers(1, len(HOSTS)))
def test_by_weight_no_move_is_left_that_would_help(deployment: Deployment, number: int) -> None:
    weights = {"gold": 5, "silver": 2}
    hosts = HOSTS[:number]
    plan = strategies.balance(
        deployment,
        hosts,
        weigh=lambda node: (
            weights[node.resource_class or ""] if node.resource_class in weights else 1
        ),
    )
    check(deployment, plan)
    found: Counter[str] = Counter(dict.fromkeys(hosts, 0))
    for uuid, host in owners(deployment, plan).items():
        found[host] += weights.get(deployment.nodes[uuid].resource_class or "", 1)
    mean = sum(found.values()) / number
    assert max(found.values()) - min(found.values()) <= max(5, 0.1 * mean + 1)


@hypothesis.given(deployments())
def test_a_plan_that_is_undone_changes_back_what_it_has_changed(deployment: Deployment) -> None:
    plan = strategies.balance(deployment, HOSTS)
    back = plan.undone()
    for change, undo in zip(plan.changes, back.changes, strict=True):
        assert undo.shard == change.shard[::-1]
        assert undo.host[0] == change.host[1]
        assert undo.host[1] == (change.host[0] or change.host[1])
    assert len(back.moved) == len(plan.moved)
    assert plan.undone([]).changes == []


def test_nodes_go_only_to_services_of_their_conductor_group() -> None:
    deployment = fleet({"compute-a": 4, "compute-b": 1}, shards=False)
    for number in (1, 5):
        deployment = with_node(deployment, node_uuid(number), conductor_group="rack1")
    options = {
        "compute-a": ServiceOptions("compute-a", written={"conductor_group": ""}),
        "compute-b": ServiceOptions("compute-b", written={"conductor_group": "Rack1"}),
    }
    deployment = changed(deployment, options=options)
    plan = strategies.balance(deployment, ["compute-a", "compute-b"])
    assert [(one.node, one.host) for one in plan.moved] == [
        (node_uuid(1), ("compute-a", "compute-b"))
    ]
    with pytest.raises(PlanRefused, match="not in the conductor group of compute-a"):
        strategies.keep(deployment)
    nobody = with_node(deployment, node_uuid(2), conductor_group="other")
    with pytest.raises(PlanRefused, match="no service may have node"):
        strategies.balance(nobody, ["compute-a", "compute-b"])


def test_a_service_keeps_the_shard_of_its_file() -> None:
    deployment = fleet({"compute-a": 2, "compute-b": 2})
    options = {
        host: changed(one, written={"shard": f"rack-{host[-1]}"})
        for host, one in deployment.options.items()
    }
    plan = strategies.keep(changed(deployment, options=options))
    assert plan.shards == {"compute-a": "rack-a", "compute-b": "rack-b"}
    same = {host: changed(one, written={"shard": "x"}) for host, one in options.items()}
    with pytest.raises(PlanRefused, match="two services have the shard x"):
        strategies.keep(changed(deployment, options=same))


def test_an_unclear_owner_is_refused() -> None:
    deployment = fleet({"compute-a": 4})
    servers = {uuid: changed(one, host="compute-b") for uuid, one in deployment.servers.items()}
    with pytest.raises(PlanRefused, match="it is not clear whose these are"):
        strategies.keep(changed(deployment, servers=servers))


@hypothesis.given(deployments())
@hypothesis.settings(max_examples=20)
def test_a_file_is_read_as_it_was_written(
    tmp_path_factory: pytest.TempPathFactory, deployment: Deployment
) -> None:
    path = tmp_path_factory.mktemp("plans") / "plan.yaml"
    plan = strategies.balance(deployment, HOSTS)
    plans.write(plan, path)
    assert plans.read(path) == plan
    with pytest.raises(PlanRefused, match="exists"):
        plans.write(plan, path)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "no YAML"),
        ("9" * 5000, "no YAML"),
        ("[]", "no plan"),
        ("version: 7", "version 7"),
        ("version: 1", "no plan: Object missing"),
        ("node: [a]", "has the shard|no plan"),
    ],
)
def test_a_file_that_is_no_plan(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text(text)
    with pytest.raises(PlanRefused, match=why):
        plans.read(path)


@pytest.mark.parametrize(
    ("was", "becomes", "why"),
    [
        ("shard: [null, compute-b]", "shard: [null, compute-x]", "whose shard is not"),
        ("shard: [null, compute-b]", "shard: [null, null]", "whose shard is not"),
        ("shard: [null, compute-b]", "shard: compute-b", "no plan: Expected `array`"),
    ],
)
def test_a_file_that_was_edited_in_a_wrong_way(
    tmp_path: Path, was: str, becomes: str, why: str
) -> None:
    path = tmp_path / "plan.yaml"
    plans.write(strategies.keep(fleet({"compute-b": 1}, shards=False)), path)
    text = path.read_text()
    assert was in text
    path.write_text(text.replace(was, becomes))
    with pytest.raises(PlanRefused, match=why):
        plans.read(path)


def test_the_instructions_name_each_service_to_stop_once() -> None:
    deployment = fleet({"compute-a": 9, "compute-b": 0, "compute-c": 3}, shards=False)
    plan = strategies.balance(deployment, HOSTS[:3])
    said = list(summary.instructions(plan, deployment, "plan.yaml"))
    assert [line for line in said if "Stop nova-compute" in line] == [said[1]]
    assert "compute-a" in said[1]
    assert any("The file of compute-b: [ironic] shard = compute-b" in line for line in said)
