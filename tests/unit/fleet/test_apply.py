# SPDX-License-Identifier: Apache-2.0

"""Carrying plans out: after any interruption, each node has one owner, and a rerun completes."""

import contextlib
import dataclasses
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import hypothesis
import pytest
from hypothesis import strategies as st

from ironic_virt import exceptions
from ironic_virt.baremetal.node import Node
from ironic_virt.fleet.deployment import Deployment, Record, Server, Service, grouped
from ironic_virt.fleet.plans import apply, journal, plan, strategies
from ironic_virt.fleet.plans.apply import Decision, Effect, MoveRefused, Report, Seen
from ironic_virt.fleet.plans.plan import Change, Plan, PlanRefused
from ironic_virt.fleet.stopped import Watched
from tests.unit.fleet.deployments import NOW, changed, fleet, node_uuid, with_options


class Killed(BaseException):
    """SIGKILL, as seen from inside."""


class World:
    """Nova and Ironic in memory, which a run can be killed in at any call.

    :param deployment: as it is at first.
    """

    def __init__(self, deployment: Deployment) -> None:
        self.nodes = dict(deployment.nodes)
        self._records = {record.name: record for record in deployment.records}
        self.aggregates = dict(deployment.owner_of)
        self._servers = dict(deployment.servers)
        self._services = {service.host: service for service in deployment.services}
        self.calls = 0
        self.dies_at: int | None = None
        self._lock = threading.Lock()

    def _call(self) -> None:
        with self._lock:
            self.calls += 1
            if self.dies_at is not None and self.calls >= self.dies_at:
                raise Killed

    def stop(self, *hosts: str) -> None:
        """Stop services, and force them down; the others are up."""
        self._services = {
            host: changed(one, forced_down=host in hosts, up=host not in hosts)
            for host, one in self._services.items()
        }
        self.watched = Watched({host: self._services[host] for host in hosts})

    def check(self) -> None:
        """Nobody else is there."""

    def services(self) -> Mapping[str, Service]:
        return self._services

    def records(self, nodes: Sequence[str]) -> Mapping[str, Record]:
        return {name: self._records[name] for name in nodes if name in self._records}

    def servers(self, records: Sequence[Record]) -> Mapping[str, Sequence[Server]]:
        names = {record.name for record in records}
        servers = self._servers.values()
        return grouped((one.node or "", one) for one in servers if one.node in names)

    def node(self, uuid: str) -> Node | None:
        self._call()
        return self.nodes.get(uuid)

    def set_shard(self, node: str, before: str | None, after: str | None) -> None:
        self._call()
        assert self.nodes[node].shard in (before, after)
        self.nodes[node] = changed(self.nodes[node], shard=after)
        self._call()

    def change_aggregates(self, record: Record, source: str, target: str) -> None:
        self._call()
        self.aggregates[record.name] = target

    def move(self, record: Record, source: str, target: str) -> None:
        self.change_aggregates(record, source, target)
        self._call()
        with self._lock:
            assert self._records[record.name] == record
            assert self._services[source].forced_down
            servers = self.servers([record]).get(record.name, ())
            assert all(server.host in (source, target) for server in servers)
            self.put(record.name, self.nodes[record.name].shard, target)
        self._call()

    def put(self, node: str, shard: str | None, host: str) -> None:
        """Have a node, its record and its server there."""
        self.nodes[node] = changed(self.nodes[node], shard=shard)
        self.aggregates[node] = host
        self._records[node] = record = changed(self._records[node], host=host)
        for server in self.servers([record]).get(node, ()):
            self._servers[server.uuid] = changed(server, host=host)

    def statements(self, seen: Seen, decision: Decision) -> list[str]:
        assert decision.sets_shard
        return [f"node {seen.change.node} to {seen.change.shard[1]}", f"moves {decision.moves}"]

    def look(self) -> None:
        """Each node has one owner, its server's host."""
        for server in self._servers.values():
            assert self._records[server.node or ""].host == server.host

    def state(self) -> dict[str, tuple[str | None, str | None]]:
        """Each node's shard and host."""
        return {
            uuid: (one.shard, self._records[uuid].host if uuid in self._records else None)
            for uuid, one in self.nodes.items()
        }


def carry(world: World, path: Path, *, undo: bool = False, limit: int | None = None) -> list[Any]:
    """One run of the command."""
    read = plan.read(path)
    with journal.opened(path, lambda: NOW) as book:
        chosen = read.undone(book.touched()) if undo else read
        return list(apply.run(chosen, world, book, undo=undo, limit=limit))


def outcomes(reports: Sequence[Report]) -> set[Effect]:
    return {report.outcome for report in reports}


def wanted(deployment: Deployment, made: Plan) -> dict[str, tuple[str | None, str | None]]:
    """Each node's shard and host when the plan is carried out."""
    changes = {change.node: (change.shard[1], change.host[1]) for change in made.changes}
    return World(deployment).state() | changes


FORMER, NEW = ("compute-a", "compute-b"), ("compute-c", "compute-d")


def given(counts: tuple[int, int], path: Path) -> tuple[Deployment, World, Plan]:
    """Two services that are stopped, and a plan that gives their nodes to two others."""
    deployment = fleet(dict(zip((*FORMER, *NEW), (*counts, 0, 0), strict=True)))
    made = strategies.move(deployment, list(deployment.nodes), NEW)
    plan.write(made, path)
    world = World(deployment)
    world.stop(*FORMER)
    return deployment, world, made


@hypothesis.given(
    st.tuples(st.integers(1, 70), st.integers(0, 30)),
    st.lists(st.integers(1, 120), max_size=5),
    st.lists(st.integers(1, 120), max_size=5),
    st.sampled_from(("whole", "half-way", "journal lost")),
)
@hypothesis.example((3, 0), [11], [], "journal lost")
@hypothesis.settings(deadline=None, max_examples=25)
def test_a_run_that_is_killed_anywhere_goes_on_and_can_be_undone(
    tmp_path_factory, counts, deaths, deaths_of_undo, way
) -> None:
    path = tmp_path_factory.mktemp("plans") / "plan.yaml"
    deployment, world, made = given(counts, path)
    before = world.state()
    for undo, killed_at in ((False, deaths), (True, deaths_of_undo)):
        if undo:
            world.stop(*NEW)
            # What the journal does not have stays; the last one was put back by hand.
            touched = journal.Journal(path).touched()
            before = world.state() | {uuid: before[uuid] for uuid in touched}
            for uuid in list(touched)[-1:]:
                world.put(uuid, *before[uuid])
        for death in killed_at:
            world.dies_at = world.calls + death
            with contextlib.suppress(Killed):
                carry(world, path, undo=undo)
            world.dies_at = None
            world.look()
        if way == "journal lost" and not undo:
            journal.path_of(path).unlink(missing_ok=True)
        if undo or way != "half-way":
            assert outcomes(carry(world, path, undo=undo)) <= {Effect.DONE, Effect.ALREADY}
            assert outcomes(carry(world, path, undo=undo)) <= (set() if undo else {Effect.ALREADY})
            world.look()
            assert world.aggregates == {node: host for node, (_, host) in world.state().items()}
            assert world.state() == (before if undo else wanted(deployment, made))


def test_each_service_is_stopped_once_and_the_rest_waits(tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    deployment, world, made = given((6, 4), path)
    world.stop("compute-b")
    first = carry(world, path)
    done = {one.change.host[0] for one in first if one.outcome is Effect.DONE}
    waiting = {one.reason for one in first if one.outcome is Effect.WAITS}
    assert done == {"compute-b"}
    assert waiting == {"stop nova-compute on compute-a, and force it down"}
    world.stop("compute-a")
    assert outcomes(carry(world, path)) == {Effect.DONE, Effect.ALREADY}
    assert world.state() == wanted(deployment, made)


def test_a_limit_leaves_the_rest_to_the_next_run(tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    deployment, world, made = given((60, 5), path)
    for count in (30, 30, 5):
        reports = carry(world, path, limit=30)
        assert sum(one.outcome is Effect.DONE for one in reports) == count
    assert world.state() == wanted(deployment, made)


def test_a_node_that_has_left_the_group_only_goes_back(tmp_path: Path) -> None:
    path, deployment = tmp_path / "plan.yaml", fleet({"compute-a": 2, "compute-b": 0})
    for host in FORMER:
        deployment = with_options(deployment, host, shard=host, conductor_group="")
    plan.write(strategies.drain(deployment, *FORMER[:1], FORMER[1:]), path)
    world, before = World(deployment), World(deployment).state()
    for undo, host, node in ((False, FORMER[0], node_uuid(1)), (True, FORMER[1], node_uuid(2))):
        world.stop(host)
        world.nodes[node] = changed(world.nodes[node], conductor_group="x")
        assert (Effect.REFUSED in outcomes(carry(world, path, undo=undo))) is not undo
    assert world.state() == before


def test_a_dry_run_changes_nothing(tmp_path: Path) -> None:
    _, world, made = given((3, 3), tmp_path / "plan.yaml")
    before = world.state()
    reports = list(apply.run(made, world, None))
    assert [one.outcome for one in reports] == [Effect.WOULD] * 6
    assert all(f"{one.change.node} to {one.change.shard[1]}; " in one.reason for one in reports)
    assert world.state() == before


class _Stubborn(World):
    """A change that Ironic refuses, a record that another one takes, and nodes untold."""

    untold: Mapping[str, exceptions.IronicError] = {}

    def node(self, uuid: str) -> Any:
        return self.untold.get(uuid) or super().node(uuid)

    def set_shard(self, node: str, before: str | None, after: str | None) -> None:
        if node == node_uuid(1):
            raise exceptions.IronicUnavailable("is locked", node=node)
        super().set_shard(node, before, after)

    def move(self, record: Record, source: str, target: str) -> None:
        if record.name == node_uuid(2):
            raise MoveRefused("it was moved meanwhile")
        super().move(record, source, target)


def test_failed_and_refused_nodes_are_told_and_the_others_go_on(tmp_path, monkeypatch) -> None:
    path = tmp_path / "plan.yaml"
    deployment, _, _ = given((5, 0), path)
    world = _Stubborn(deployment)
    world.stop(*FORMER)
    before = world.state()
    crashes = exceptions.IronicUnavailable("crashes", node=node_uuid(3), status=500)
    world.untold = {node_uuid(3): crashes}
    found = {one.change.node: one.outcome for one in carry(world, path)}
    assert found.pop(node_uuid(1)) is Effect.FAILED
    assert found.pop(node_uuid(2)) is Effect.REFUSED
    assert found.pop(node_uuid(3)) is Effect.FAILED
    assert world.state()[node_uuid(2)] == before[node_uuid(2)]
    assert set(found.values()) == {Effect.DONE}
    world.look()
    # An Ironic that tells nothing is not asked for each node of the plan.
    world.untold = dict.fromkeys(deployment.nodes, crashes)
    with pytest.raises(exceptions.IronicUnavailable, match="crashes"):
        carry(world, path)
    # Nor is one that goes away meanwhile.
    world.untold, asked = {}, mock.Mock(side_effect=exceptions.IronicUnreachable("gone"))
    monkeypatch.setattr(world, "set_shard", asked)
    monkeypatch.setattr(apply, "_AT_ONCE", 1)
    assert Effect.FAILED in outcomes(carry(world, path))
    assert asked.call_count == 1


# -- the decision -------------------------------------------------------------

MOVE = Change(node_uuid(2), (None, "b"), ("compute-a", "compute-b"), "s")
KEPT: Mapping[str, Any] = {}


def seen(node=KEPT, record=KEPT, server=KEPT, source=KEPT, target=KEPT, servers=1) -> Seen:
    """All as the plan wants it: compute-a is stopped; with other fields, or ``None``: gone."""
    found = fleet({"compute-a": 2, "compute-b": 0}, shards=False, conductor_group="blue")
    row = found.node_records[node_uuid(2)]
    stopped = changed(found.service_of["compute-a"], forced_down=True)
    known = {"compute-a": stopped, "compute-b": found.service_of["compute-b"]}
    fields = {"compute-a": source, "compute-b": target}
    return Seen(
        MOVE,
        None if node is None else changed(found.nodes[row.name], **node),
        None if record is None else changed(row, **record),
        [changed(one, **server) for one in found.servers_by_place[row.name]] * servers,
        {host: changed(known[host], **more) for host, more in fields.items() if more is not None},
        Watched({"compute-a": stopped}),
    )


AT_B, AT_X, FORCED = {"host": "compute-b"}, {"host": "compute-x"}, {"forced_down": True}
DECISIONS: dict[str, tuple[dict[str, Any], Effect, str]] = {
    "all is well": ({}, Effect.WOULD, ""),
    "gone": ({"node": None}, Effect.REFUSED, "no such node"),
    "another shard": ({"node": {"shard": "c"}}, Effect.REFUSED, "shard is now 'c'"),
    "no record": ({"record": None}, Effect.REFUSED, "no longer has a record"),
    "another host": ({"record": AT_X}, Effect.REFUSED, "now with compute-x"),
    "source up": ({"source": {"forced_down": False}}, Effect.WAITS, "force it down"),
    "source reports": ({"source": {"reports": 1}}, Effect.WAITS, "has reported again"),
    "target down": ({"target": FORCED}, Effect.WAITS, "compute-b is forced down"),
    "target elsewhere": (
        {"target": {"cell": "x"}},
        Effect.REFUSED,
        "compute-b is in another cell",
    ),
    "source elsewhere": (
        {"source": {"cell": "x"}},
        Effect.REFUSED,
        "compute-a is in another cell",
    ),
    "no target": ({"target": None}, Effect.WAITS, "service compute-b does not exist"),
    "target disabled": ({"target": {"disabled": True}}, Effect.WAITS, "is disabled"),
    "two servers": ({"servers": 2}, Effect.REFUSED, "it carries"),
    "unknown instance": ({"servers": 0}, Effect.REFUSED, "Nova has nothing on it"),
    "server of another": ({"server": AT_X}, Effect.REFUSED, "its server is now with compute-x"),
    "the record has moved": ({"node": {"shard": "b"}, "record": AT_B}, Effect.WOULD, ""),
    "the server has moved": ({"node": {"shard": "b"}, "server": AT_B}, Effect.WOULD, ""),
    "busy": ({"server": {"task_state": "rebuilding"}}, Effect.WAITS, "is rebuilding"),
    "another server": ({"server": {"uuid": "other"}}, Effect.REFUSED, "it carries"),
    "another group": ({"node": {"conductor_group": "x"}}, Effect.REFUSED, "group is now 'x'"),
    "done": ({"node": {"shard": "B"}, "record": AT_B, "server": AT_B}, Effect.ALREADY, ""),
}


@pytest.mark.parametrize(("now", "outcome", "why"), DECISIONS.values(), ids=DECISIONS)
def test_the_decision(now: dict[str, Any], outcome: Effect, why: str) -> None:
    decision = apply.decide(seen(**now), group="Blue")
    assert decision.outcome is outcome
    assert why in decision.reason
    assert (decision.sets_shard or decision.moves) is (outcome is Effect.WOULD)


def test_a_node_whose_record_stays_needs_nothing_stopped() -> None:
    stays = Change(node_uuid(2), (None, "a"), ("compute-a", "compute-a"))
    up = {"source": {"forced_down": False}}
    free = {**up, "node": {"instance_uuid": None}, "record": None, "servers": 0}
    for now in (up, free):
        decision = apply.decide(dataclasses.replace(seen(**now), change=stays))
        assert decision.outcome is Effect.WOULD


# -- the journal --------------------------------------------------------------


def test_a_line_that_was_cut_off_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text("x")
    with journal.opened(path) as book:
        book.write({"a": ("x", "one"), "b": (None, None)}, journal.BEGUN)
        book.write({"a": ("y", "two")}, journal.UNDONE)
    file = journal.path_of(path)
    whole = file.read_text()
    for cut in range(1, len(whole.splitlines(keepends=True)[-1]) + 1):
        file.write_text(whole[:-cut])
        with journal.opened(path) as book:
            # The state before the first step, not one from half-way.
            assert book.touched()["a"] == ("x", "one")
            book.write({"a": ("y", "two"), "c": (None, None)}, journal.DONE)
        with journal.opened(path) as book:
            assert book.touched() == {"a": ("x", "one"), "b": (None, None), "c": (None, None)}


def test_a_plan_that_was_changed_is_not_gone_on_with(tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text("x")
    other = (
        "import pathlib, sys; from ironic_virt.fleet.plans import journal; "
        "journal.opened(pathlib.Path(sys.argv[1])).__enter__()"
    )
    with journal.opened(path) as book:
        book.write({"a": (None, None)}, journal.BEGUN)
        assert book.is_begun
        ended = subprocess.run(
            [sys.executable, "-c", other, path], capture_output=True, text=True, check=False
        )
    assert "another process is working" in ended.stderr
    path.write_text("y")
    with pytest.raises(PlanRefused, match="was changed"), journal.opened(path):
        pass
    for line in ("what is this", "null", '{"node": "n1", "state": "begun"}', "[" * 3000):
        journal.path_of(path).write_text(f"{line}\n")
        with pytest.raises(PlanRefused, match="is not a journal"), journal.opened(path):
            pass
