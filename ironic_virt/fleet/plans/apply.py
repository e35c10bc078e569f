# SPDX-License-Identifier: Apache-2.0

"""Carries a plan out, node by node, so that each has exactly one owner at every moment.

Of a node whose record moves, the shard is changed first: the former service is stopped, and the
new one leaves a node alone whose record is another host's.  Then record and server move in
one transaction.  What is done already is seen and left, so a run that was cut off is just
started again.

:func:`decide` is all that decides, and asks nothing.
"""

from __future__ import annotations

import dataclasses
import datetime
import enum
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent import futures
from typing import Protocol

from ironic_virt import exceptions
from ironic_virt.baremetal.node import Node
from ironic_virt.fleet.deployment import Record, Server, Service
from ironic_virt.fleet.plans import journal as journals
from ironic_virt.fleet.plans.journal import Journal
from ironic_virt.fleet.plans.plan import Change, Plan
from ironic_virt.sharding.selector import same_shard

BATCH = 50
"""Nodes that are looked at, and written down, together."""
_AT_ONCE = 4


class Outcome(enum.Enum):
    """What became of a node."""

    DONE = "done"
    ALREADY = "already so"
    WOULD = "would be done"
    WAITS = "waits"
    """Nothing was changed; run it again when what it waits for is so."""
    REFUSED = "refused"
    """Nothing was changed, since what is there is not what the plan knows."""
    FAILED = "failed"
    """Something could not be asked or changed; run it again."""


@dataclasses.dataclass(frozen=True, slots=True)
class Report:
    """What became of a change, and why."""

    change: Change
    outcome: Outcome
    reason: str = ""


class World(Protocol):
    """What a plan is carried out on."""

    @property
    def quiet(self) -> float:
        """Seconds after which a service that is forced down counts as stopped."""

    def now(self) -> datetime.datetime:
        """The time, in UTC."""

    def services(self) -> Mapping[str, Service]:
        """The services of nova-compute by host, as they are now."""

    def records(self, nodes: Sequence[str]) -> Mapping[str, Record]:
        """The compute node records of nodes."""

    def servers(self, records: Sequence[Record]) -> Mapping[str, Sequence[Server]]:
        """The servers on nodes, by the record's name."""

    def node(self, uuid: str) -> Node | None:
        """A node as Ironic has it now; ``None``: Ironic does not have it."""

    def set_shard(self, node: str, shard: str | None) -> None:
        """Give a node another shard."""

    def move(self, record: Record, host: str) -> None:
        """Give a record, and the server on it, to another host, if all is as it was read.

        :raises MoveRefused: it is not; nothing was changed.
        """


class MoveRefused(exceptions.IronicVirtError):
    """A record was not moved, since it is no longer as it was read."""


@dataclasses.dataclass(frozen=True, slots=True)
class Seen:
    """What a decision is made by."""

    node: Node | None
    record: Record | None
    servers: Sequence[Server]
    services: Mapping[str, Service]
    now: datetime.datetime
    quiet: float


@dataclasses.dataclass(frozen=True, slots=True)
class Decision:
    """What is to be done with a node: nothing, or what is ``needed``."""

    outcome: Outcome
    reason: str = ""
    sets_shard: bool = False
    moves: bool = False


def decide(change: Change, seen: Seen) -> Decision:
    """What is to be done for a change."""
    node, record = seen.node, seen.record
    before, after = change.host
    if node is None:
        return Decision(Outcome.REFUSED, "Ironic has no such node")
    if not any(same_shard(node.shard, shard) for shard in change.shard):
        return Decision(Outcome.REFUSED, f"its shard is {node.shard!r} by now")
    if record is None and change.moves_record:
        return Decision(Outcome.REFUSED, "it has no record any more")
    if record is not None and record.host not in (before, after):
        return Decision(Outcome.REFUSED, f"its record is with {record.host} by now")
    sets_shard = not same_shard(node.shard, change.shard[1])
    moves = record is not None and record.host != after
    if not sets_shard and not moves:
        return Decision(Outcome.ALREADY)
    if moves and (refused := _why_not_movable(change, node, seen)) is not None:
        return refused
    return Decision(Outcome.WOULD, "", sets_shard, moves)


def _why_not_movable(change: Change, node: Node, seen: Seen) -> Decision | None:
    before, after = change.host
    source, target = seen.services.get(before or ""), seen.services.get(after)
    if target is None:
        return Decision(Outcome.WAITS, f"there is no service {after}; start it")
    if target.forced_down:
        return Decision(Outcome.WAITS, f"{after} is forced down; start it, and set it up again")
    if source is not None and (running := source.why_running(seen.now, seen.quiet)):
        return Decision(Outcome.WAITS, running)
    if len(seen.servers) > 1:
        uuids = ", ".join(server.uuid for server in seen.servers)
        return Decision(Outcome.REFUSED, f"Nova has several servers on it: {uuids}")
    for server in seen.servers:
        if server.task_state is not None:
            return Decision(Outcome.WAITS, f"server {server.uuid} is {server.task_state}")
        if node.instance_uuid != server.uuid:
            carries = node.instance_uuid or "nothing"
            return Decision(
                Outcome.REFUSED, f"Nova has server {server.uuid} on it, it carries {carries}"
            )
    return None


def run(
    plan: Plan,
    world: World,
    journal: Journal | None,
    *,
    limit: int | None = None,
    undo: bool = False,
    progress: Callable[[str, int, int], None] = lambda what, done, total: None,
) -> Iterator[Report]:
    """Carry a plan out; each change is reported when it is done.

    :param journal: where it is written down; ``None``: change nothing, only decide.
    :param limit: how many nodes may be changed.
    :param undo: whether the plan takes back what the journal has of another one.
    """
    begun, done = (journals.UNDOING, journals.UNDONE) if undo else (journals.BEGUN, journals.DONE)
    order = {step.host: number for number, step in enumerate(plan.steps())}
    changes = sorted(
        plan.changes,
        # Those that need nothing stopped come first.
        key=lambda change: (
            change.moves_record,
            order.get(change.host[0] or "", 0) if change.moves_record else 0,
            change.node,
        ),
    )
    left = len(changes) if limit is None else limit
    with futures.ThreadPoolExecutor(_AT_ONCE) as pool:
        for begin in range(0, len(changes), BATCH):
            batch = changes[begin : begin + BATCH]
            looked = _look(batch, world, pool)
            wanted = [one for one in looked if one[1].outcome is Outcome.WOULD]
            chosen = wanted[: max(0, left)]
            left -= len(chosen)
            if journal is not None and chosen:
                journal.write([change.node for change, _, _ in chosen], begun)
            reports: dict[str, Report] = {}
            if journal is not None:
                for report in pool.map(lambda one: _change(one, world), chosen):
                    reports[report.change.node] = report
                finished = [node for node, one in reports.items() if one.outcome is Outcome.DONE]
                if finished:
                    journal.write(finished, done)
            for change, decision, _ in looked:
                yield reports.get(change.node) or _left(change, decision, journal is None)
            progress("Plan: nodes", min(begin + BATCH, len(changes)), len(changes))


def _left(change: Change, decision: Decision, is_dry: bool) -> Report:
    """What to say of a change for which nothing was done."""
    if decision.outcome is Outcome.WOULD and not is_dry:
        return Report(change, Outcome.WAITS, "its turn comes with the next run")
    return Report(change, decision.outcome, decision.reason)


_Looked = tuple[Change, Decision, Record | None]


def _look(batch: Sequence[Change], world: World, pool: futures.Executor) -> list[_Looked]:
    uuids = [change.node for change in batch]
    nodes = dict(zip(uuids, pool.map(world.node, uuids), strict=True))
    records = world.records(uuids)
    servers = world.servers(list(records.values()))
    services, now = world.services(), world.now()
    found: list[_Looked] = []
    for change in batch:
        record = records.get(change.node)
        on_it = servers.get(record.name, ()) if record is not None else ()
        seen = Seen(nodes[change.node], record, on_it, services, now, world.quiet)
        found.append((change, decide(change, seen), record))
    return found


def _change(looked: _Looked, world: World) -> Report:
    change, decision, record = looked
    try:
        if decision.sets_shard:
            world.set_shard(change.node, change.shard[1])
        if decision.moves and record is not None:
            world.move(record, change.host[1])
    except MoveRefused as exc:
        return Report(change, Outcome.REFUSED, str(exc))
    except exceptions.IronicVirtError as exc:
        return Report(change, Outcome.FAILED, str(exc))
    return Report(change, Outcome.DONE)
