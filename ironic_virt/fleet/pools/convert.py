# SPDX-License-Identifier: Apache-2.0

"""Carries a conversion out, on a cell of Nova and on Placement; Ironic is not touched.

The order is such that it may be cut off anywhere.  First come the new provider and then
the new record, with room for all servers that go there.  Then each server goes by itself: its
row is locked, Placement moves the allocation with one request, and the row gets its new
node in that transaction.  A server whose allocation has moved and whose row has not is on its
former record, and the next run moves it again.  What is empty goes last.
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
from oslo_db import exception as db_exception

from ironic_virt import exceptions
from ironic_virt.fleet import cells
from ironic_virt.fleet.deployment import Record, Service
from ironic_virt.fleet.plans.apply import MoveRefused, Outcome, Report
from ironic_virt.fleet.plans.moving import NovaWorld
from ironic_virt.fleet.pools.conversion import Conversion, Move, Target
from ironic_virt.nova import values

About = Target | Move | Record
"""What a report is about: a record that was to be made, a server, or a record that was to go."""


def run(
    conversion: Conversion,
    world: NovaWorld,
    progress: Callable[[str, int, int], None] = lambda what, done, total: None,
    *,
    dry_run: bool = False,
) -> Iterator[Report[About]]:
    """Do it; each server and each record is reported when it is done.

    :raises MoveRefused: the service is not stopped; nothing was changed.
    """
    if conversion.blocked and not dry_run:
        raise MoveRefused(conversion.blocked)
    steps = _Steps(world, conversion.service)

    def carried_out() -> Iterator[Report[About]]:
        failed: dict[str, tuple[Outcome, str]] = {}
        for number, target in enumerate(conversion.targets.values(), start=1):
            if not dry_run and (why := _tried(steps.provide, target)) is not None:
                failed[target.name] = why
                yield Report(target, *why)
            progress("Pools: records", number, len(conversion.targets))
        staying: set[str | None] = set()
        for number, move in enumerate(conversion.moves, start=1):
            outcome = move.outcome, move.reason
            if move.target is not None and not dry_run:
                target = conversion.targets[move.target]
                why = failed.get(move.target) or _tried(steps.move, move, target)
                if why is not None:
                    staying.add(move.server.node)
                outcome = why or (Outcome.DONE, "")
            yield Report(move, *outcome)
            progress("Pools: servers", number, len(conversion.moves))
        for number, record in enumerate(conversion.emptied, start=1):
            outcome = Outcome.WOULD, ""
            if record.name in staying:
                outcome = Outcome.WAITS, "it goes when its servers have gone"
            elif not dry_run:
                outcome = _tried(steps.remove, record) or (Outcome.DONE, "")
            yield Report(record, *outcome)
            progress("Pools: empty records", number, len(conversion.emptied))

    return carried_out()


def _tried(act: Callable[..., None], *arguments: Any) -> tuple[Outcome, str] | None:
    """Why something was not done; ``None``: it was."""
    try:
        act(*arguments)
    except MoveRefused as exc:
        return Outcome.REFUSED, str(exc)
    except (exceptions.IronicVirtError, exception.NovaException) as exc:
        return Outcome.FAILED, str(exc)
    except db_exception.DBError as exc:
        return Outcome.FAILED, f"Nova's database: {str(exc).splitlines()[0]}"
    return None


@dataclasses.dataclass(frozen=True, slots=True)
class _Steps:
    """What is done for one service.  Each method may be called again after it was cut off."""

    world: NovaWorld
    service: Service

    @property
    def _context(self) -> Any:
        return self.world.cells[self.service.cell].context

    def provide(self, target: Target) -> None:
        """Have a provider and a record; the record comes last, as the sign that both are there."""
        self._check_stopped()
        placement = self.world.placement
        aggregates = {one for each in target.formers for one in placement.of(each, "aggregates")}
        placement.offer(target.uuid, target.name, target.inventory, aggregates)
        context = self._context
        with nova_utils.temporary_mutation(context, read_deleted="yes"):
            try:
                record = objects.ComputeNode.get_by_uuid(context, target.uuid)
            except exception.ComputeHostNotFound:
                record = objects.ComputeNode(context)
            if "id" in record and not record.deleted:
                if record.host != self.service.host:
                    raise MoveRefused(f"host {record.host} has the record of {target.name}")
                return
            record.host, record.service_id = self.service.host, self.service.id
            # As the resource tracker does, which adds the rest when the service starts.
            resource = {**values.resource(target.resource), "cpu_info": ""}
            record.update_from_virt_driver(resource)
            if "id" in record:
                record.deleted, record.deleted_at = False, None
                record.save()
            else:
                record.create()

    def move(self, move: Move, target: Target) -> None:
        """Give a server another record, and its allocation another provider.

        :raises MoveRefused: it is not as it was read; nothing was changed.
        """
        context = self._context
        server, instances, nodes = move.server, models.Instance, models.ComputeNode
        with main_db.get_context_manager(context).writer.using(context) as session:
            self._check_stopped(session)
            # Nova's API deletes a server of a stopped service by itself; it waits for this.
            row = session.execute(
                sa.select(instances.id)
                .where(
                    instances.uuid == server.uuid,
                    instances.host == self.service.host,
                    instances.node == server.node,
                    instances.task_state.is_(None),
                    instances.deleted == 0,
                )
                .with_for_update()
            ).first()
            right = nodes.uuid == target.uuid, nodes.host == self.service.host, nodes.deleted == 0
            record = session.execute(sa.select(nodes.id).where(*right)).first()
            if row is None or record is None:
                raise MoveRefused("its records are other than a moment ago")
            owner = server.project_id or "", server.user_id or ""
            self.world.placement.allocate(server.uuid, target.uuid, *owner, instead_of=move.former)
            now = datetime.datetime.now(datetime.UTC).replace(tzinfo=None)
            row_values = {"node": target.name, "compute_id": record.id, "updated_at": now}
            session.execute(sa.update(instances).where(instances.id == row.id).values(row_values))

    def remove(self, record: Record) -> None:
        """Delete a provider and its record, if Placement has nothing allocated from it."""
        self._check_stopped()
        self.world.placement.delete_provider(record.uuid)
        with contextlib.suppress(exception.ComputeHostNotFound):
            objects.ComputeNode.get_by_uuid(self._context, record.uuid).destroy()

    def _check_stopped(self, session: Any = None) -> None:
        self.world.check()
        host, context = self.service.host, self._context
        reader = main_db.get_context_manager(context).reader
        with contextlib.nullcontext(session) if session else reader.using(context) as opened:
            service = cells.locked_service(opened, host)
        if self.world.watched.why_running(host, service):
            raise MoveRefused(f"service {host} is not stopped any more")
