# SPDX-License-Identifier: Apache-2.0

"""The world that a plan is carried out on: Nova's cells and Ironic.

A record moves as ``nova-manage db ironic_compute_node_move`` moves one, with its conditions
asked again inside the transaction, and with the server in the same one.  Where only one of
them has moved before, the other one follows.
"""

from __future__ import annotations

import dataclasses
import datetime
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
from ironic_virt.fleet import cells, ping, stopped
from ironic_virt.fleet.cells import Cell
from ironic_virt.fleet.deployment import Record, Server, Service
from ironic_virt.fleet.hosts import Hosts
from ironic_virt.fleet.options import ServiceOptions
from ironic_virt.fleet.placement import PlacementClient
from ironic_virt.fleet.plans.apply import Decision, MoveRefused, Seen
from ironic_virt.fleet.stopped import Watched
from ironic_virt.sharding.selector import same_shard


@dataclasses.dataclass(frozen=True)
class NovaWorld:
    """Nova's cells, Placement and Ironic; every call reads them again.  Thread-safe.

    :ivar watched: the services that are stopped; each record's is so in the transaction, too.
    :ivar check: raises if somebody else may change the deployment, too.
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
        """The same, when the services of hosts have been watched, as long as they have to be."""
        default, known = int(self.conf.report_interval), self.services()

        def answers(host: str) -> bool | None:
            service = known.get(host)
            where = self.cells.values() if service is None else [self.cells[service.cell]]
            found = {ping.ask(cell, host) for cell in where}
            return True if True in found else None if None in found else False

        files = {host: options.get(host, ServiceOptions(host)) for host in hosts}
        intervals = {host: one.number("report_interval", default) for host, one in files.items()}
        watched = stopped.watch(self.services, answers, hosts, intervals, progress)
        return dataclasses.replace(self, watched=watched)

    def services(self) -> dict[str, Service]:
        """The services of nova-compute by host."""
        now, down_time = datetime.datetime.now(datetime.UTC), self.conf.service_down_time
        listed = (cells.services(cell, down_time, now) for cell in self.cells.values())
        return {service.host: service for each in listed for service in each}

    def records(self, nodes: Sequence[str]) -> dict[str, Record]:
        """The compute node records of nodes, whose uuids are the nodes'."""
        listed = (cells.records(cell, nodes) for cell in self.cells.values())
        return {record.name: record for each in listed for record in each}

    def servers(self, records: Sequence[Record]) -> dict[str, list[Server]]:
        """The servers on nodes, by the record's name."""
        found: dict[str, list[Server]] = {}
        for cell in self.cells.values():
            names = [record.name for record in records if record.cell == cell.uuid]
            for server in cells.servers_on(cell, names):
                found.setdefault(server.node or "", []).append(server)
        return found

    def node(self, uuid: str) -> Node | None:
        """A node as Ironic has it now."""
        try:
            return self.client.get_node(uuid)
        except exceptions.NodeNotFound:
            return None

    def set_shard(self, node: str, before: str | None, after: str | None) -> None:
        """Give a node another shard, or none.

        :raises MoveRefused: it has neither the one nor the other; nothing was changed.
        """
        shard = self.client.get_node(node).shard
        if same_shard(shard, after):
            return
        if not same_shard(shard, before):
            raise MoveRefused(f"the shard of node {node} is {shard!r} by now")
        self.client.patch_node(node, _patch(after))

    def move(self, record: Record, source: str, target: str) -> None:
        """Give a record, and the server on it, to a host, in one transaction.

        Its provider goes from the aggregates of the one host to those of the other before.

        :raises MoveRefused: it is not as it was read; nothing was changed.
        """
        context = self.cells[record.cell].context
        self._change_aggregates(record, source, target)
        try:
            with main_db.get_context_manager(context).writer.using(context) as session:
                self._move(session, record, source, target)
        except (MoveRefused, db_exception.DBDuplicateEntry) as exc:
            self._change_aggregates(record, target, source)
            if isinstance(exc, MoveRefused):
                raise
            raise MoveRefused(f"host {target} has a record of node {record.name}, too") from exc
        except db_exception.DBError as exc:
            raise cells.CellFailed(f"cell {record.cell}: its database: {exc}") from exc

    def _change_aggregates(self, record: Record, source: str, target: str) -> None:
        left, joined = self.hosts.only_of(source, target), self.hosts.only_of(target, source)
        if left or joined:
            uuids = ({one.uuid for one in aggregates} for aggregates in (left, joined))
            self.placement.change_aggregates(record.uuid, *uuids)

    def _move(self, session: Any, record: Record, source: str, target: str) -> None:
        nodes, instances = models.ComputeNode, models.Instance
        former, following = (cells.locked_service(session, host) for host in (source, target))
        if following is None or following.forced_down:
            raise MoveRefused(f"service {target} is gone or forced down")
        if self.watched.why_running(source, former):
            raise MoveRefused(f"service {source} is not stopped any more")
        selected = sa.select(nodes.host).where(nodes.id == record.id, nodes.deleted == 0)
        row = session.execute(selected.with_for_update()).first()
        if row is None or row.host not in (source, target):
            raise MoveRefused(f"the record of node {record.name} is another host's by now")
        is_on_it = instances.node == record.name, instances.deleted == 0
        selected = sa.select(instances.host, instances.task_state).where(*is_on_it)
        on_it = session.execute(selected.with_for_update()).all()
        strange = [one for one in on_it if one.task_state or one.host not in (source, target)]
        if len(on_it) > 1 or strange:
            raise MoveRefused(f"something is being done to what is on node {record.name}")
        for statement in _updates(record, target, following.id):
            session.execute(statement)

    @staticmethod
    def statements(seen: Seen, decision: Decision) -> Iterator[str]:
        """What would be sent to give a node its shard, and to move its record."""
        if decision.sets_shard:
            yield f"PATCH /v1/nodes/{seen.change.node} {json.dumps(_patch(seen.change.shard[1]))}"
        if decision.moves and seen.record is not None:
            target = seen.services[seen.change.host[1]]
            yield from map(_text, _updates(seen.record, target.host, target.id))


def _patch(shard: str | None) -> list[dict[str, Any]]:
    patch = {"op": "remove"} if shard is None else {"op": "add", "value": shard}
    return [{"path": "/shard", **patch}]


def _updates(record: Record, target: str, service: int) -> list[Any]:
    """The statements that give a record, and the server on it, to a host."""
    nodes, instances = models.ComputeNode, models.Instance
    moved = {
        "host": target,
        "updated_at": datetime.datetime.now(datetime.UTC).replace(tzinfo=None),
    }
    is_on_it = instances.node == record.name, instances.deleted == 0
    return [
        sa.update(nodes).where(nodes.id == record.id).values(service_id=service, **moved),
        sa.update(instances).where(*is_on_it).values(moved),
    ]


def _text(statement: Any) -> str:
    """A statement in one line, with its values."""
    compiled = statement.compile()
    text = " ".join(str(compiled).split())
    for name, value in compiled.params.items():
        text = text.replace(f":{name}", str(value) if isinstance(value, int) else f"'{value}'")
    return text
