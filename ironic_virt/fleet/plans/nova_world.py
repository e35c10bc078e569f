# SPDX-License-Identifier: Apache-2.0

"""The world that a plan is carried out on: Nova's cells and Ironic.

A record moves as by ``nova-manage db ironic_compute_node_move``, but its conditions are checked
again inside the transaction, and the server moves in the same one.  Where only one of them has
moved before, the other one follows.
"""

from __future__ import annotations

import dataclasses
import datetime
import itertools
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from nova.db.main import api as main_db
from nova.db.main import models
from oslo_config import cfg
from oslo_db import exception as db_exception

from ironic_virt import exceptions
from ironic_virt.baremetal.client import IronicClient
from ironic_virt.baremetal.node import Node
from ironic_virt.fleet import cells, nova_conf, ping, stopped
from ironic_virt.fleet.cells import Cell
from ironic_virt.fleet.deployment import Record, Server, Service, grouped, services_by_host
from ironic_virt.fleet.hosts import Hosts
from ironic_virt.fleet.options import ServiceOptions
from ironic_virt.fleet.placement import PlacementClient
from ironic_virt.fleet.plans.apply import Decision, MoveRefused, Seen
from ironic_virt.fleet.stopped import Watched
from ironic_virt.sharding.selector import same_shard


@dataclasses.dataclass(frozen=True)
class NovaWorld:
    """Nova's cells, Placement and Ironic; every call reads them again.  Thread-safe.

    :ivar watched: the services that are stopped; each is checked again in the transaction.
    :ivar check: raises if somebody else may be changing the deployment.
    """

    conf: cfg.ConfigOpts
    client: IronicClient
    cells: Mapping[str, Cell]
    hosts: Hosts
    watched: Watched = dataclasses.field(default_factory=Watched)
    check: Callable[[], None] = lambda: None
    placement: PlacementClient = dataclasses.field(default_factory=PlacementClient)

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts, hosts: Hosts, check: Callable[[], None]) -> NovaWorld:
        """By Nova's options."""
        known = {cell.uuid: cell for cell in cells.cells() if not cell.is_cell0}
        return cls(conf, IronicClient.from_conf(conf), known, hosts, check=check)

    def watching(
        self,
        hosts: Collection[str],
        options: Mapping[str, ServiceOptions],
        progress: Callable[[str, int, int], None],
    ) -> NovaWorld:
        """Watch the services of hosts for as long as it takes, and return the world with that."""
        default, known = int(self.conf.report_interval), self.services()

        def ask(host: str) -> bool | None:
            service = known.get(host)
            asked_cells = self.cells.values() if service is None else [self.cells[service.cell]]
            answers = {ping.ask(cell, host) for cell in asked_cells}
            return True if True in answers else None if None in answers else False

        intervals = {
            host: options.get(host, ServiceOptions(host)).number("report_interval", default)
            for host in hosts
        }
        watched = stopped.watch(self.services, ask, hosts, intervals, progress)
        return dataclasses.replace(self, watched=watched)

    def services(self) -> dict[str, Service]:
        """The services of nova-compute by host."""
        read_at, down_time = datetime.datetime.now(datetime.UTC), self.conf.service_down_time
        listed = (cells.services(cell, down_time, read_at) for cell in self.cells.values())
        return services_by_host(itertools.chain(*listed), self.hosts)

    def records(self, nodes: Sequence[str]) -> dict[str, Record]:
        """The compute node records of nodes, whose uuids are the nodes'."""
        listed = (cells.records(cell, nodes) for cell in self.cells.values())
        return {record.name: record for each in listed for record in each}

    def servers(self, records: Sequence[Record]) -> dict[str, list[Server]]:
        """The servers on nodes, by the record's name."""
        names = grouped((record.cell, record.name) for record in records)
        listed = (cells.servers_of(self.cells[cell], "node", each) for cell, each in names.items())
        return grouped((server.node or "", server) for each in listed for server in each)

    def node(self, uuid: str) -> Node | exceptions.IronicError | None:
        """A node as Ironic has it now, or why it can't tell; raises what concerns all nodes."""
        try:
            return self.client.get_node(uuid)
        except exceptions.IronicError as exc:
            is_down = isinstance(exc, exceptions.IronicUnreachable | exceptions.IronicUnavailable)
            if is_down and exc.status != 500:
                raise
            return None if isinstance(exc, exceptions.NodeNotFound) else exc

    def set_shard(self, node: str, before: str | None, after: str | None) -> None:
        """Give a node another shard, or none; :class:`MoveRefused` if it has a third one."""

        def read_shard() -> str | None:
            shard = self.client.get_node(node).shard
            if same_shard(shard, before) or same_shard(shard, after):
                return shard
            raise MoveRefused(f"the shard of node {node} is now {shard!r}")

        if not same_shard(read_shard(), after):
            self.client.rechecking(read_shard).patch_node(node, _patch(after))

    def move(self, record: Record, source: str, target: str) -> None:
        """Give a record, and the server on it, to a host, in one transaction.

        :raises MoveRefused: the record is not as it was read, or the database refuses to change
            it; nothing was changed.
        """
        context, is_sent = self.cells[record.cell].context, False
        self.change_aggregates(record, source, target)
        try:
            with (
                nova_conf.asking(f"The database of cell {record.cell}"),
                main_db.get_context_manager(context).writer.using(context) as session,
            ):
                self._move(session, record, source, target)
                is_sent = True
        except (MoveRefused, nova_conf.DatabaseFailed) as exc:
            # Only a commit may have been done all the same.
            if is_sent:
                raise
            if record.host != target:
                self.change_aggregates(record, target, source)
            is_taken = isinstance(exc.__cause__, db_exception.DBDuplicateEntry)
            words = f"host {target} already has a record of node {record.name}"
            raise MoveRefused(words if is_taken else str(exc)) from exc

    def change_aggregates(self, record: Record, source: str, target: str) -> None:
        """Have a record's provider leave the one host's aggregates and join the other's."""
        removed = {aggregate.uuid for aggregate in self.hosts.only_of(source, target)}
        added = {aggregate.uuid for aggregate in self.hosts.only_of(target, source)}
        if removed or added:
            self.placement.change_aggregates(record.uuid, removed, added)

    def _move(self, session: Any, record: Record, source: str, target: str) -> None:
        nodes, instances = models.ComputeNode, models.Instance
        old, new = (cells.locked_service(session, host) for host in (source, target))
        if new is None or new.forced_down:
            raise MoveRefused(f"service {target} is gone or forced down")
        if self.watched.why_running(source, old):
            raise MoveRefused(f"service {source} is no longer stopped")
        selected = sa.select(nodes.host).where(nodes.id == record.id, nodes.deleted == 0)
        row = session.execute(selected.with_for_update()).first()
        if row is None or row.host not in (source, target):
            raise MoveRefused(f"the record of node {record.name} is now another host's")
        is_on_it = instances.node == record.name, instances.deleted == 0
        selected = sa.select(instances.host, instances.task_state).where(*is_on_it)
        servers = session.execute(selected.with_for_update()).all()
        if len(servers) > 1 or any(
            server.task_state or server.host not in (source, target) for server in servers
        ):
            raise MoveRefused(f"the server on node {record.name} has an operation in progress")
        for statement in _as_updates(record, target, new.id):
            session.execute(statement)

    @staticmethod
    def statements(seen: Seen, decision: Decision) -> Iterator[str]:
        """The requests and statements that set a node's shard and move its record."""
        if decision.sets_shard:
            yield f"PATCH /v1/nodes/{seen.change.node} {json.dumps(_patch(seen.change.shard[1]))}"
        if decision.moves and seen.record is not None:
            target = seen.services[seen.change.host[1]]
            yield from map(_as_text, _as_updates(seen.record, target.host, target.id))


def _patch(shard: str | None) -> list[dict[str, Any]]:
    patch = {"op": "remove"} if shard is None else {"op": "add", "value": shard}
    return [{"path": "/shard", **patch}]


def _as_updates(record: Record, target: str, service: int) -> list[Any]:
    """The statements that give a record, and the server on it, to a host."""
    nodes, instances = models.ComputeNode, models.Instance
    moment = datetime.datetime.now(datetime.UTC).replace(tzinfo=None)
    moved = {"host": target, "updated_at": moment}
    is_on_it = instances.node == record.name, instances.deleted == 0
    return [
        sa.update(nodes).where(nodes.id == record.id).values(service_id=service, **moved),
        sa.update(instances).where(*is_on_it).values(moved),
    ]


def _as_text(statement: Any) -> str:
    """A statement in one line, with its values."""
    compiled = statement.compile()
    text = " ".join(str(compiled).split())
    for name, value in compiled.params.items():
        text = text.replace(f":{name}", str(value) if isinstance(value, int) else f"'{value}'")
    return text
