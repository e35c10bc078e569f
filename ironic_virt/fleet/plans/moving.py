# SPDX-License-Identifier: Apache-2.0

"""The world that a plan is carried out on: Nova's cells and Ironic.

A record moves as ``nova-manage db ironic_compute_node_move`` moves one, with its conditions
asked again inside the transaction, and with the server in the same one.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from nova.db.main import api as main_db
from nova.db.main import models
from oslo_config import cfg
from oslo_db import exception as db_exception

from ironic_virt import exceptions
from ironic_virt.baremetal.client import IronicClient
from ironic_virt.baremetal.http.versions import Feature
from ironic_virt.baremetal.node import Node
from ironic_virt.fleet import cells
from ironic_virt.fleet.cells import Cell
from ironic_virt.fleet.deployment import Record, Server, Service
from ironic_virt.fleet.plans.apply import MoveRefused


@dataclasses.dataclass(frozen=True)
class NovaWorld:
    """Nova's cells and Ironic; every call reads them again.  Thread-safe."""

    conf: cfg.ConfigOpts
    client: IronicClient
    cells: Mapping[str, Cell]

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts) -> NovaWorld:
        """By Nova's options.

        :raises MicroversionNotSupported: Ironic has no shards.
        """
        client = IronicClient.from_conf(conf)
        client.require(Feature.SHARD)
        known = {cell.name: cell for cell in cells.cells() if not cell.is_cell0}
        return cls(conf, client, known)

    @property
    def quiet(self) -> float:
        """Seconds after which a service that does not report has been stopped."""
        return 2.0 * float(self.conf.report_interval)

    def now(self) -> datetime.datetime:
        """The time, in UTC."""
        return datetime.datetime.now(datetime.UTC)

    def services(self) -> dict[str, Service]:
        """The services of nova-compute by host."""
        return {
            service.host: service
            for cell in self.cells.values()
            for service in cells.services(cell, self.conf.service_down_time, self.now())
        }

    def records(self, nodes: Sequence[str]) -> dict[str, Record]:
        """The compute node records of nodes, whose uuids are the nodes'."""
        return {
            record.name: record
            for cell in self.cells.values()
            for record in cells.records(cell, nodes)
        }

    def servers(self, records: Sequence[Record]) -> dict[str, list[Server]]:
        """The servers on nodes, by the record's name."""
        found: dict[str, list[Server]] = {}
        for cell in self.cells.values():
            names = [record.name for record in records if record.cell == cell.name]
            for server in cells.servers_on(cell, names):
                found.setdefault(server.node or "", []).append(server)
        return found

    def node(self, uuid: str) -> Node | None:
        """A node as Ironic has it now."""
        try:
            return self.client.get_node(uuid)
        except exceptions.NodeNotFound:
            return None

    def set_shard(self, node: str, shard: str | None) -> None:
        """Give a node another shard, or none."""
        if shard is None:
            self.client.patch_node(node, [{"op": "remove", "path": "/shard"}])
        else:
            self.client.patch_node(node, [{"op": "add", "path": "/shard", "value": shard}])

    def move(self, record: Record, host: str) -> None:
        """Give a record, and the server on it, to another host, in one transaction.

        :raises MoveRefused: it is not as it was read; nothing was changed.
        """
        context = self.cells[record.cell].context
        try:
            with main_db.get_context_manager(context).writer.using(context) as session:
                _move(session, record, host)
        except db_exception.DBDuplicateEntry as exc:
            raise MoveRefused(f"host {host} has a record of node {record.name}, too") from exc
        except db_exception.DBError as exc:
            raise cells.CellFailed(f"cell {record.cell}: its database: {exc}") from exc


def _move(session: Any, record: Record, host: str) -> None:
    services, nodes, instances = models.Service, models.ComputeNode, models.Instance

    def service(name: str) -> Any:
        return session.execute(
            sa.select(services.id, services.forced_down).where(
                services.host == name,
                services.binary == "nova-compute",
                services.deleted == 0,
            )
        ).first()

    source, target = service(record.host), service(host)
    if target is None or target.forced_down:
        raise MoveRefused(f"service {host} is gone or forced down")
    if source is not None and not source.forced_down:
        raise MoveRefused(f"service {record.host} is not forced down any more")
    on_it = session.execute(
        sa.select(instances.uuid, instances.task_state)
        .where(
            instances.host == record.host,
            instances.node == record.name,
            instances.deleted == 0,
        )
        .with_for_update()
    ).all()
    if len(on_it) > 1 or any(row.task_state is not None for row in on_it):
        raise MoveRefused(f"something is being done to what is on node {record.name}")
    now = datetime.datetime.now(datetime.UTC).replace(tzinfo=None)
    moved = session.execute(
        sa.update(nodes)
        .where(nodes.id == record.id, nodes.host == record.host, nodes.deleted == 0)
        .values(host=host, service_id=target.id, updated_at=now)
    )
    if moved.rowcount != 1:
        raise MoveRefused(f"the record of node {record.name} is another host's by now")
    session.execute(
        sa.update(instances)
        .where(instances.uuid.in_([row.uuid for row in on_it]))
        .values(host=host, updated_at=now)
    )
