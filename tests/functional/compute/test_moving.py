# SPDX-License-Identifier: Apache-2.0

"""Moves of nodes between services: each guard is tried, and each step is cut off."""

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any

import pytest
import requests
import sqlalchemy as sa
from keystoneauth1 import adapter, session
from keystoneauth1.noauth import NoAuth

from ironic_virt import exceptions
from ironic_virt.baremetal.client import IronicClient
from ironic_virt.baremetal.http.connection import KeystoneChannel
from ironic_virt.baremetal.http.retry import RetryPolicy
from ironic_virt.compute import moving
from ironic_virt.compute.db import Database, records
from ironic_virt.compute.moving import MoveOutcome, Mover
from ironic_virt.compute.states import TaskState, VmState
from ironic_virt.testing.fake_ironic import FakeIronic
from tests.crashing import Crash, CrashingChannel
from tests.functional.compute import stage
from tests.functional.compute.stage import Clock, create_building, ended, failed

URL = "http://ironic.test"
STRANGER = "6d2b4f02-0000-4000-8000-00000000beef"


class Move:
    """Two services, ``old`` and ``new``, and the nodes that Ironic has."""

    def __init__(self, db: Database, clock: Clock) -> None:
        self.db = db
        self.clock = clock
        self.fake = FakeIronic()
        http = requests.Session()
        http.mount(URL, self.fake.adapter())
        keystone = adapter.Adapter(
            session.Session(auth=NoAuth(endpoint=URL), session=http),
            endpoint_override=f"{URL}/v1",
        )
        self.channel = CrashingChannel(KeystoneChannel(keystone), 0, False)
        self.client = IronicClient(self.channel, RetryPolicy(0))
        stage.register(db, "old")
        stage.register(db, "new")

    def node(self, host: str = "old", **fields: object) -> str:
        """A node in Ironic and in the records."""
        uuid = self.fake.add_node(resource_class="gold", **fields)
        self.db.compute_nodes.save(host, [stage.report(uuid=uuid)])
        return uuid

    def instance(self, node: str, *, state: VmState = VmState.ACTIVE) -> str:
        """An instance on it, in both."""
        instance = stage.new_instance()
        create_building(self.db, instance, self.db.compute_nodes.get(node))
        if state is VmState.ERROR:
            failed(self.db, instance.uuid, TaskState.SPAWNING, records.Fault("it broke"))
        elif state is not VmState.BUILDING:
            ended(self.db, instance.uuid, TaskState.SPAWNING, vm_state=state)
        self.fake.set_node(node, instance_uuid=instance.uuid, provision_state="active")
        return instance.uuid

    def stop_old(self) -> None:
        """The old service is out of use for good."""
        self.go_silent("old")
        self.db.services.update("old", forced_down=True)

    def go_silent(self, host: str) -> None:
        """A service stops reporting while the other goes on."""
        self.clock.advance(3600)
        for other in {"old", "new"} - {host}:
            kept = self.db.services.get(other)
            stage.register(
                *(self.db, other),
                conductor_group=kept.conductor_group,
                shard_key=kept.shard_key,
            )

    def mover(self, destination: str = "new", **options: bool) -> Mover:
        return Mover(self.db, self.client, destination, **options)

    def move(self, node: str, **options: bool) -> moving.Move:
        (report,) = self.mover(**options).move([node])
        return report

    def owners(self, node: str) -> tuple[str, str | None]:
        """Who has the node, and who its instance."""
        instances = self.db.instances.list(node=node)
        assert len(instances) < 2
        return self.db.compute_nodes.get(node).host, instances[0].host if instances else None


@pytest.fixture
def move(db: Database, clock: Clock) -> Move:
    return Move(db, clock)


def refused(move: Move, node: str, guard: str) -> str:
    """That a guard holds, in both kinds of run, and nothing was changed; what it says."""
    before = (move.db.compute_nodes.get(node), move.db.instances.list(), move.fake.node(node))
    dry, wet = move.move(node, dry_run=True), move.move(node)
    assert dry == wet
    assert (wet.outcome, wet.guard) == (MoveOutcome.REFUSED, guard)
    if not guard.startswith("ironic"):
        # Where the move itself is, something may have changed since the check.
        locked = move.mover()._moved(node)
        assert (locked.guard, locked.reason) == (guard, wet.reason)
    assert (
        move.db.compute_nodes.get(node),
        move.db.instances.list(),
        move.fake.node(node),
    ) == before
    assert (wet.source, wet.reason is not None) == (before[0].host, True)
    return str(wet.reason)


# -- what it does -------------------------------------------------------------


@pytest.mark.parametrize("how", ["forced down", "silent and disabled"])
def test_a_free_node_moves(move: Move, how: str) -> None:
    node = move.node()
    if how == "forced down":
        move.stop_old()
    else:
        move.db.services.update("old", disabled=True, disabled_reason="moving")
        move.go_silent("old")
    assert move.move(node) == moving.Move(node, MoveOutcome.MOVED, "new", source="old")
    assert move.owners(node) == ("new", None)


def test_a_node_takes_its_instance_and_requests_along(move: Move) -> None:
    node = move.node()
    instance = move.instance(node)
    move.db.instances.request(instance, TaskState.DELETING)
    move.stop_old()
    told = moving.Move(node, MoveOutcome.WOULD_MOVE, "new", source="old", instance=instance)
    assert move.move(node, dry_run=True) == told
    assert move.owners(node) == ("old", "old")
    assert move.move(node) == dataclasses.replace(told, outcome=MoveOutcome.MOVED)
    there = dataclasses.replace(told, outcome=MoveOutcome.ALREADY_THERE, source="new")
    assert move.move(node) == there, "it is left as it is"
    assert move.owners(node) == ("new", "new")
    assert move.db.compute_nodes.get(node).instance_uuid == instance
    assert list(move.db.instances.pending_tasks("new")) == [instance]
    assert not move.db.instances.pending_tasks("old")
    assert {entry.method for entry in move.fake.requests} == {"GET"}, "nothing else of Ironic"


# -- each guard, tried --------------------------------------------------------


def test_a_service_that_is_not_out_of_use_keeps_its_nodes(move: Move) -> None:
    first, second = move.node(), move.node()
    assert "'old' is up" in refused(move, first, "source")
    move.db.services.update("old", disabled=True)
    assert "'old' is up" in refused(move, first, "source")
    move.db.services.update("old", disabled=False)
    move.go_silent("old")
    assert "disable it" in refused(move, first, "source")
    move.stop_old()
    assert move.move(first).outcome is MoveOutcome.MOVED
    stage.register(move.db, "old")
    move.db.services.update("old", forced_down=False)
    assert "'old' is up" in refused(move, second, "source"), "it came back"


def test_a_forced_source_that_still_reports_needs_force(move: Move) -> None:
    node = move.node()
    move.db.services.update("old", forced_down=True)
    assert "may still act" in refused(move, node, "source")
    assert move.move(node, force=True).outcome is MoveOutcome.MOVED


def test_a_claim_without_an_instance_is_not_taken(move: Move) -> None:
    node = move.node()
    stage.claim(move.db, node, "old", STRANGER)
    move.stop_old()
    assert STRANGER in refused(move, node, "server")


def test_a_service_that_does_not_exist_is_named(move: Move) -> None:
    assert "'ghost'" in refused(move, move.node("ghost"), "service")
    node = move.node()
    move.stop_old()
    (report,) = move.mover("nowhere").move([node])
    assert (report.outcome, report.guard) == (MoveOutcome.REFUSED, "service")
    assert "'nowhere'" in str(report.reason)


@pytest.mark.parametrize("how", ["silent", "forced down"])
def test_a_destination_that_is_down_is_refused(move: Move, how: str) -> None:
    node = move.node()
    move.stop_old()
    if how == "silent":
        move.go_silent("new")
        move.db.services.update("old", disabled=True)
        move.clock.advance(3600)
    else:
        move.db.services.update("new", forced_down=True)
    refused(move, node, "destination")


def test_a_node_whose_instance_is_another_services_stays(move: Move) -> None:
    node = move.node()
    instance = move.instance(node)
    with move.db.engine.begin() as connection:
        connection.execute(
            sa.text("UPDATE instances SET host = 'third' WHERE uuid = :uuid"), {"uuid": instance}
        )
    move.stop_old()
    assert "'third'" in refused(move, node, "server")


# -- what Ironic says ---------------------------------------------------------


def test_a_node_that_ironic_lacks_moves_by_the_records_alone(move: Move) -> None:
    node = move.node()
    move.stop_old()
    move.fake.remove_node(node)
    report = move.move(node)
    assert (report.outcome, report.guard) == (MoveOutcome.REFUSED, "ironic-node")
    assert move.owners(node) == ("old", None)
    (report,) = Mover(move.db, None, "new").move([node])
    assert report.outcome is MoveOutcome.MOVED


@pytest.mark.parametrize(
    ("node_has", "service_has", "says"),
    [
        ({"shard": "b"}, {"shard_key": "b"}, "shard is 'a'"),
        ({"conductor_group": "west"}, {"conductor_group": "West"}, "conductor group"),
    ],
    ids=["shard", "conductor group"],
)
def test_a_node_that_the_destination_does_not_serve_stays(move, node_has, service_has, says):
    node = move.node(shard="a")
    stage.register(move.db, "new", **service_has)
    move.stop_old()
    assert says in refused(move, node, "ironic-target")
    move.fake.set_node(node, **node_has)
    assert move.move(node).outcome is MoveOutcome.MOVED


def test_a_node_stays_of_whose_instance_ironic_knows_otherwise(move: Move) -> None:
    free, used = move.node(), move.node()
    instance = move.instance(used)
    move.stop_old()
    move.fake.set_node(free, instance_uuid=STRANGER)
    assert STRANGER in refused(move, free, "ironic-server")
    move.fake.set_node(used, instance_uuid=None)
    assert instance in refused(move, used, "ironic-server")


@pytest.mark.parametrize("state", [VmState.BUILDING, VmState.ERROR])
def test_an_instance_on_its_way_need_not_be_in_ironic_yet(move: Move, state: VmState) -> None:
    node = move.node()
    move.instance(node, state=state)
    move.stop_old()
    move.fake.set_node(node, instance_uuid=None, provision_state="available")
    assert move.move(node).outcome is MoveOutcome.MOVED
    assert move.owners(node) == ("new", "new")


def test_a_refusal_costs_that_node_and_an_outage_costs_all(move: Move) -> None:
    node = move.node()
    move.stop_old()
    move.fake.faults.status(500, "GET", f"/v1/nodes/{node}", count=1)
    assert move.move(node).guard == "ironic-node"
    move.fake.faults.reset()
    with pytest.raises(exceptions.IronicUnreachable):
        move.move(node)
    assert move.owners(node) == ("old", None)
    move.fake.faults.clear()
    assert move.move(node).outcome is MoveOutcome.MOVED


# -- cut off at any point -----------------------------------------------------


@contextlib.contextmanager
def cut(db: Database, at: int) -> Iterator[list[str]]:
    """Let the process die before a statement, or before a commit; returns those that came."""
    seen: list[str] = []

    def step(*what: Any) -> None:
        seen.append(what[2] if len(what) > 2 else "COMMIT")
        if len(seen) == at:
            raise Crash(seen[-1])

    engine = db.engine
    for name in ("before_cursor_execute", "commit"):
        sa.event.listen(engine, name, step)
    try:
        yield seen
    finally:
        for name in ("before_cursor_execute", "commit"):
            sa.event.remove(engine, name, step)
        # A process that dies takes its connections with it.
        engine.dispose()


def test_a_run_killed_at_any_statement_leaves_one_owner(move: Move) -> None:
    move.stop_old()
    deaths = 0
    for at in range(1, 200):
        node = move.node()
        move.instance(node)
        try:
            with cut(move.db, at) as seen:
                report = move.move(node)
        except Crash:
            deaths += 1
        else:
            assert len(seen) < at
            assert report.outcome is MoveOutcome.MOVED
            assert {word.split()[0] for word in seen} >= {"SELECT", "UPDATE", "COMMIT"}
            break
        node_owner, instance_owner = move.owners(node)
        assert node_owner == instance_owner
        again = move.move(node)
        assert again.outcome in {MoveOutcome.MOVED, MoveOutcome.ALREADY_THERE}
        assert move.owners(node) == ("new", "new")
    # The checks, the services, both records and the commit were among them.
    assert deaths > 8


def test_nodes_that_stay_do_not_hold_up_others(move: Move) -> None:
    nodes = [move.node(shard="a") for _ in range(9)]
    gone, foreign = nodes[6], nodes[7]
    instances = [move.instance(node) for node in nodes[:5]]
    move.stop_old()
    move.fake.remove_node(gone)
    move.fake.set_node(foreign, instance_uuid=STRANGER)
    mover = move.mover()
    assert sorted(mover.nodes_of_service("old")) == sorted(nodes)
    reports = {report.node: report for report in mover.move(nodes)}
    assert list(reports) == nodes
    refused = {uuid: one.guard for uuid, one in reports.items() if not one.is_good}
    assert refused == {gone: "ironic-node", foreign: "ironic-server"}
    assert [reports[node].instance for node in nodes[:5]] == instances
    assert move.owners(nodes[0]) == ("new", "new")
    assert move.owners(foreign) == ("old", None)


@pytest.mark.parametrize("after", [False, True])
def test_a_run_that_dies_while_asking_ironic_is_done_again(move: Move, after: bool) -> None:
    move.stop_old()
    node = move.node()
    move.instance(node)
    sound = move.client
    move.channel.sent = 0
    move.move(node, dry_run=True)
    requests_sent = move.channel.sent
    for at in range(1, requests_sent + 1):
        channel = CrashingChannel(move.channel, at, after)
        move.client = IronicClient(channel, RetryPolicy(0))
        with pytest.raises(Crash):
            move.move(node)
        assert move.owners(node) == ("old", "old")
    move.client = sound
    assert move.move(node).outcome is MoveOutcome.MOVED
    assert move.owners(node) == ("new", "new")
