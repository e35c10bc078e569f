# SPDX-License-Identifier: Apache-2.0

"""Carries a conversion out, on a cell of Nova and on Placement; Ironic is not touched.

It may be interrupted anywhere.  First come the new providers and records, with room for all.
Then each server: its row is locked, Placement moves the allocation with one request, and the row
gets its new node in that transaction; if it does not, the next run moves it again.  Empty records
go last.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
from collections.abc import Callable, Iterator
from typing import Any

import sqlalchemy as sa
from nova import exception, objects
from nova import utils as nova_utils
from nova.db.main import api as main_db
from nova.db.main import models

from ironic_virt import exceptions
from ironic_virt.fleet import cells, nova_conf
from ironic_virt.fleet.deployment import Record, Service
from ironic_virt.fleet.placement import PlacementSilent
from ironic_virt.fleet.plans.apply import Effect, MoveRefused, Report
from ironic_virt.fleet.plans.nova_world import NovaWorld
from ironic_virt.fleet.pools.conversion import Conversion, Move, Target
from ironic_virt.nova import values

About = Target | Move | Record
"""What a report is about: a record to create, a server, or a record to delete."""


def run(
    conversion: Conversion,
    world: NovaWorld,
    progress: Callable[[str, int, int], None] = lambda what, done, total: None,
    *,
    dry_run: bool = False,
) -> Iterator[Report[About]]:
    """Carry it out, and report each change.  Its service must be stopped."""
    steps = _Steps(world, conversion.service, world.cells[conversion.service.cell].context)
    failures: dict[str, tuple[Effect, str]] = {}
    for number, target in enumerate(conversion.targets.values(), start=1):
        if not dry_run and (failure := _attempt_step(steps.provide, target)) is not None:
            failures[target.name] = failure
            yield Report(target, *failure)
        progress("Pools: records", number, len(conversion.targets))
    staying: set[str | None] = set()
    for number, move in enumerate(conversion.moves, start=1):
        outcome = move.outcome, move.reason
        if move.target is not None and not dry_run:
            target = conversion.targets[move.target]
            failure = failures.get(move.target) or _attempt_step(steps.move, move, target)
            if failure is not None:
                staying.add(move.server.node)
            outcome = failure or (Effect.DONE, "")
        yield Report(move, *outcome)
        progress("Pools: servers", number, len(conversion.moves))
    for number, record in enumerate(conversion.emptied, start=1):
        outcome = Effect.WOULD, ""
        if record.name in staying:
            outcome = Effect.WAITS, "some of its servers are still there"
        elif not dry_run:
            outcome = _attempt_step(steps.remove, record) or (Effect.DONE, "")
        yield Report(record, *outcome)
        progress("Pools: empty records", number, len(conversion.emptied))


def _attempt_step(act: Callable[..., None], *arguments: Any) -> tuple[Effect, str] | None:
    """Act, and return the outcome and the reason if that failed."""
    try:
        with nova_conf.asking("Nova's database"):
            act(*arguments)
    except PlacementSilent:
        raise
    except MoveRefused as exc:
        return Effect.REFUSED, str(exc)
    except (exceptions.IronicVirtError, exception.NovaException) as exc:
        return Effect.FAILED, str(exc)
    return None


@dataclasses.dataclass(frozen=True, slots=True)
class _Steps:
    """The changes for one service.  Each method may be called again after an interruption."""

    world: NovaWorld
    service: Service
    context: Any

    @contextlib.contextmanager
    def _stopped(self) -> Iterator[Any]:
        """A transaction, until whose end the service stays stopped."""
        self.world.check()
        host, context = self.service.host, self.context
        with main_db.get_context_manager(context).writer.using(context) as session:
            if self.world.watched.why_running(host, cells.locked_service(session, host)):
                raise MoveRefused(f"service {host} is no longer stopped")
            yield session

    def _own_record(self, session: Any, uuid: str) -> Any:
        """The row of a record, if it is the service's; it stays so until the transaction ends."""
        nodes = models.ComputeNode
        own = nodes.uuid == uuid, nodes.host == self.service.host, nodes.deleted == 0
        return session.execute(sa.select(nodes.id).where(*own).with_for_update()).first()

    def provide(self, target: Target) -> None:
        """Create a provider and its record; the record comes last, and shows that both exist."""
        context, placement = self.context, self.world.placement
        with self._stopped(), nova_utils.temporary_mutation(context, read_deleted="yes"):
            try:
                record = objects.ComputeNode.get_by_uuid(context, target.resource.uuid)
            except exception.ComputeHostNotFound:
                record = objects.ComputeNode(context)
            is_there = "id" in record and not record.deleted
            if is_there and record.host != self.service.host:
                raise MoveRefused(f"host {record.host} already has the record of {target.name}")
            aggregates = {
                aggregate
                for provider in target.replaced
                for aggregate in placement.of(provider, "aggregates")
            }
            placement.offer(target.resource.uuid, target.name, target.inventory, aggregates)
            if is_there:
                return
            record.host, record.service_id = self.service.host, self.service.id
            # As the resource tracker does, which adds the rest when the service starts.
            resource = {**values.resource_of(target.resource), "cpu_info": ""}
            record.update_from_virt_driver(resource)
            if "id" in record:
                record.deleted, record.deleted_at = False, None
                record.save()
            else:
                record.create()

    def move(self, move: Move, target: Target) -> None:
        """Give a server another record, and its allocation another provider."""
        server, instances, uuid = move.server, models.Instance, target.resource.uuid
        with self._stopped() as session:
            # Nova's API deletes a server of a stopped service by itself; it waits for this.
            own = (
                instances.uuid == server.uuid,
                instances.host == self.service.host,
                instances.node == server.node,
                instances.task_state.is_(None),
                instances.deleted == 0,
            )
            row = session.execute(sa.select(instances.id).where(*own).with_for_update()).first()
            record = self._own_record(session, uuid)
            if row is None or record is None:
                raise MoveRefused("its records have just changed")
            name = target.inventory.placement_class
            self.world.placement.allocate(server, uuid, name, instead_of=move.source)
            moment = datetime.datetime.now(datetime.UTC).replace(tzinfo=None)
            row_values = {"node": target.name, "compute_id": record.id, "updated_at": moment}
            session.execute(sa.update(instances).where(instances.id == row.id).values(row_values))

    def remove(self, record: Record) -> None:
        """Delete a provider and its record, if Placement has nothing allocated from it."""
        with self._stopped() as session:
            # Nova's own command gives a record to another host; it waits for this.
            if self._own_record(session, record.uuid) is None:
                raise MoveRefused("its record is gone, or another host has it now")
            self.world.placement.delete_provider(record.uuid)
            objects.ComputeNode.get_by_uuid(self.context, record.uuid).destroy()
