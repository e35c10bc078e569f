# SPDX-License-Identifier: Apache-2.0

"""Carries a plan out, node by node, so that each has exactly one owner at every moment.

If a node's record moves, its shard is changed first: the old service is stopped, and the new
one leaves a node alone whose record is another host's.  Then record and server move in one
transaction; if that is refused, the shard is put back.  An interrupted run is started again.
:func:`decide` makes all decisions, and asks nothing.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent import futures
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from ironic_virt import exceptions
from ironic_virt.baremetal.node import Node
from ironic_virt.fleet.deployment import Record, Server, Service
from ironic_virt.fleet.plans import journal as journals
from ironic_virt.fleet.plans.journal import Journal
from ironic_virt.fleet.plans.plan import Change, Plan
from ironic_virt.fleet.stopped import Watched
from ironic_virt.sharding.selector import same_shard

if TYPE_CHECKING:
    from ironic_virt.fleet.plans.nova_world import NovaWorld

T = TypeVar("T")

BATCH = 50
"""Nodes that are looked at, and written down, together."""
_AT_ONCE = 4


class Effect(enum.Enum):
    """What became of a node."""

    DONE = "done"
    ALREADY = "already so"
    WOULD = "would be done"
    WAITS = "waits"
    """Nothing was changed; run it again when the reason is gone."""
    REFUSED = "refused"
    """Nothing was changed: the node is not as the plan knows it, or a database refuses."""
    FAILED = "failed"
    """Something could not be asked or changed; run it again."""


class Report(NamedTuple, Generic[T]):
    """What became of something that was to be changed, and why."""

    change: T
    outcome: Effect
    reason: str = ""


class MoveRefused(exceptions.IronicVirtError):
    """A record was not moved, since it is no longer as it was read."""


@dataclasses.dataclass(frozen=True, slots=True)
class Seen:
    """A change, and what it is decided by; an error is why Ironic did not tell the node."""

    change: Change
    node: Node | exceptions.IronicError | None
    record: Record | None
    servers: Sequence[Server]
    services: Mapping[str, Service]
    watched: Watched


@dataclasses.dataclass(frozen=True, slots=True)
class Decision:
    """What to do with a node."""

    outcome: Effect
    reason: str = ""
    sets_shard: bool = False
    moves: bool = False


def decide(seen: Seen, is_begun: bool = False, group: str | None = None) -> Decision:
    """Decide what to do for a change; of one in the journal, aggregates may be left to do.

    :param group: the conductor group that the new service serves; ``None``: any.
    """
    change, node, record = seen.change, seen.node, seen.record
    before, after = change.host
    if isinstance(node, exceptions.IronicError):
        return Decision(Effect.FAILED, str(node))
    if node is None:
        return Decision(Effect.REFUSED, "Ironic has no such node")
    if not any(same_shard(node.shard, shard) for shard in change.shard):
        return Decision(Effect.REFUSED, f"its shard is now {node.shard!r}")
    if record is None and change.moves_record:
        return Decision(Effect.REFUSED, "it no longer has a record")
    if record is not None and record.host not in (before, after):
        return Decision(Effect.REFUSED, f"its record is now with {record.host}")
    for server in seen.servers:
        if server.host not in (before, after):
            return Decision(Effect.REFUSED, f"its server is now with {server.host}")
    sets_shard = not same_shard(node.shard, change.shard[1])
    # Whoever moved it before may have moved the one and not the other.
    owners = {record.host, *(server.host for server in seen.servers)} if record else {after}
    moves = owners != {after}
    if not sets_shard and not moves:
        return Decision(Effect.WOULD if is_begun else Effect.ALREADY)
    if group is not None and group.lower() != (node.conductor_group or "").lower():
        return Decision(Effect.REFUSED, f"its conductor group is now {node.conductor_group!r}")
    uuids = [server.uuid for server in seen.servers]
    is_busy = any(server.task_state is not None for server in seen.servers)
    if not is_busy and uuids != ([node.instance_uuid] if node.instance_uuid else []):
        carries, servers = node.instance_uuid or "nothing", ", ".join(uuids) or "nothing"
        return Decision(Effect.REFUSED, f"Nova has {servers} on it, but it carries {carries}")
    for host in (before, after) if moves else ():
        if record and (service := seen.services.get(host or "")) and service.cell != record.cell:
            return Decision(Effect.REFUSED, f"{host} is in another cell than its record")
    if moves and (reason := _why_wait(seen)) is not None:
        return Decision(Effect.WAITS, reason)
    return Decision(Effect.WOULD, "", sets_shard, moves)


def _why_wait(seen: Seen) -> str | None:
    before, after = seen.change.host
    source, target = seen.services.get(before or ""), seen.services.get(after)
    if target is None:
        return f"service {after} does not exist; start it"
    if target.forced_down:
        return f"{after} is forced down; start it, and set it up again"
    if target.disabled:
        return f"{after} is disabled; enable it"
    if running := seen.watched.why_running(before or "", source):
        return running
    busy = (server for server in seen.servers if server.task_state is not None)
    return next((f"server {server.uuid} is {server.task_state}" for server in busy), None)


def in_order(plan: Plan) -> list[Change]:
    """The changes in the order in which they are made: those that need nothing stopped first."""
    hosts = [step.host for step in plan.steps()]

    def place(change: Change) -> tuple[int, str]:
        return hosts.index(change.host[0] or "") + 1 if change.moves_record else 0, change.node

    return sorted(plan.changes, key=place)


def run(
    plan: Plan,
    world: NovaWorld,
    journal: Journal | None,
    *,
    limit: int | None = None,
    undo: bool = False,
    progress: Callable[[str, int, int], None] = lambda what, done, total: None,
) -> Iterator[Report[Change]]:
    """Carry a plan out, and report each change when it is done.

    :param journal: where it is recorded; ``None``: change nothing, only decide.
    :param limit: how many nodes may be changed.
    :param undo: whether the plan takes back what the journal has of another one.
    """
    begun, ended = (journals.UNDOING, journals.UNDONE) if undo else (journals.BEGUN, journals.DONE)
    changes = in_order(plan)
    remaining = len(changes) if limit is None else limit
    down: list[exceptions.IronicUnreachable] = []
    with futures.ThreadPoolExecutor(_AT_ONCE) as pool:
        for begin in range(0, len(changes), BATCH):
            world.check()
            batch = changes[begin : begin + BATCH]
            unended = journal.unended() if journal is not None else ()
            looks = list[tuple[Seen, Decision]]()
            for seen in _look(batch, world, pool):
                node, (_, host) = seen.change.node, seen.change.host
                # What is taken back goes where it was.
                group = None if undo else plan.services[host].conductor_group
                looks.append((seen, decide(seen, undo or node in unended, group)))
            chosen = [look for look in looks if look[1].outcome is Effect.WOULD][:remaining]
            remaining -= len(chosen)
            reports: dict[str, Report[Change]] = {}
            if journal is not None and chosen:
                begins = [seen.change for seen, _ in chosen]
                before = {change.node: (change.shard[0], change.host[0]) for change in begins}
                journal.write(before, begun)
                for report in pool.map(lambda look: _move_node(world, down, *look), chosen):
                    reports[report.change.node] = report
                changed = [uuid for uuid in before if reports[uuid].outcome is Effect.DONE]
                journal.write({uuid: before[uuid] for uuid in changed}, ended)
            for seen, decision in looks:
                outcome, reason = decision.outcome, decision.reason
                if outcome is Effect.WOULD and journal is None:
                    reason = "; ".join(world.statements(seen, decision))
                elif outcome is Effect.WOULD:
                    outcome, reason = Effect.WAITS, "left to the next run by --limit"
                yield reports.get(seen.change.node) or Report(seen.change, outcome, reason)
            progress("Plan: nodes", min(begin + BATCH, len(changes)), len(changes))


def _look(changes: Sequence[Change], world: NovaWorld, pool: futures.Executor) -> Iterator[Seen]:
    uuids = [change.node for change in changes]
    nodes = dict(zip(uuids, pool.map(world.node, uuids), strict=True))
    errors = [node for node in nodes.values() if isinstance(node, exceptions.IronicError)]
    if len(errors) == len(nodes) > 1:
        raise errors[0]
    records = world.records(uuids)
    servers = world.servers(list(records.values()))
    services = world.services()
    for change in changes:
        record, on_it = records.get(change.node), servers.get(change.node, ())
        yield Seen(change, nodes[change.node], record, on_it, services, world.watched)


def _move_node(world: NovaWorld, down: list[Any], seen: Seen, choice: Decision) -> Report[Change]:
    change, record = seen.change, seen.record
    try:
        if down:
            # Each try takes minutes, in which the services are stopped.
            raise down[0]
        if choice.sets_shard:
            world.set_shard(change.node, *change.shard)
        if choice.moves and record is not None:
            try:
                world.move(record, change.host[0] or change.host[1], change.host[1])
            except MoveRefused:
                if record.host != change.host[1]:
                    world.set_shard(change.node, *reversed(change.shard))
                raise
        elif change.moves_record and record is not None:
            # A killed run may have changed them, and not the record.
            world.change_aggregates(record, change.host[0] or "", change.host[1])
    except MoveRefused as exc:
        return Report(change, Effect.REFUSED, str(exc))
    except exceptions.IronicVirtError as exc:
        down += [exc] if isinstance(exc, exceptions.IronicUnreachable) else []
        return Report(change, Effect.FAILED, str(exc))
    return Report(change, Effect.DONE)
