# SPDX-License-Identifier: Apache-2.0

"""The laws, and how a node has ended: by what the three say, not by what the product says.

:class:`View` is all that Ironic, Nova and Placement have of all nodes at one time, read from
their stores.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import Any

import sqlalchemy as sa
from nova.db.main import api as main_db
from nova.db.main import models
from placement.db.sqlalchemy import models as placement_models

from ironic_virt.testing.fake_ironic import FakeIronic, states
from tests.any_state import staging, triples
from tests.any_state.staging import Staged

_VOLATILE = {"updated_at", "driver_internal_info", "reservation"}
"""Fields of a node that change though nothing has been done to it."""
IN_ERROR = "server in ERROR"
"""Its user has deleted it, and reads in its fault why that has failed."""
_POWERED = (states.POWER_ON, states.POWER_OFF)


@dataclasses.dataclass(frozen=True)
class View:
    """What the three have.

    :ivar nodes: Ironic's, by uuid.
    :ivar records: hosts of the compute node records, by node.
    :ivar servers: by uuid: deleted, vm_state, task_state, host, node.
    :ivar stocks: by provider: class, total and reserved of each inventory.
    :ivar holders: by provider, each consumer with a class that it holds one of.
    :ivar faults: the servers with a fault, which their users can read.
    """

    nodes: Mapping[str, Mapping[str, Any]]
    records: Mapping[str, tuple[str, ...]]
    servers: Mapping[str, tuple[Any, ...]]
    stocks: Mapping[str, tuple[tuple[str, int, int], ...]]
    holders: Mapping[str, tuple[tuple[str, str], ...]]
    faults: Collection[str]

    @classmethod
    def now(cls, fake: FakeIronic) -> View:
        """Read all."""
        records: dict[str, tuple[str, ...]] = defaultdict(tuple)
        table, server = models.ComputeNode, models.Instance
        with staging.writer(main_db) as session:
            statement = sa.select(table.hypervisor_hostname, table.host).where(table.deleted == 0)
            for node, host in session.execute(statement.order_by(table.host)):
                records[node] += (host,)
            columns = (server.vm_state, server.task_state, server.host, server.node)
            rows = session.execute(sa.select(server.uuid, server.deleted != 0, *columns))
            servers = {uuid: tuple(row) for uuid, *row in rows}
            faults = set(session.execute(sa.select(models.InstanceFault.instance_uuid)).scalars())
        nodes = {node["uuid"]: node for node in fake.nodes()}
        return cls(nodes, records, servers, *read_placement(), faults)

    @staticmethod
    def being_deleted(uuids: Collection[str]) -> bool:
        """Whether Nova is still at work on the deletion of one of these servers."""
        table = models.Instance
        is_busy = sa.or_(table.task_state == "deleting", table.vm_state == "deleted")
        with staging.writer(main_db) as session:
            rows = session.execute(sa.select(table.uuid).where(table.deleted == 0, is_busy))
            return bool(set(rows.scalars()) & set(uuids))

    @property
    def not_free(self) -> frozenset[str]:
        """The nodes that no server may be built on."""
        return frozenset(uuid for uuid, node in self.nodes.items() if not _is_free(node))

    @property
    def offered(self) -> frozenset[str]:
        """The providers that Placement would give to the next server."""
        return frozenset(
            provider
            for provider, stocks in self.stocks.items()
            if not self.holders.get(provider)
            and any(total > reserved for _, total, reserved in stocks)
        )

    def of(self, one: Staged) -> dict[str, Any]:
        """All that is said of a node and its server."""
        node = {key: value for key, value in self.nodes[one.node].items() if key not in _VOLATILE}
        others = ("records", "stocks", "holders")
        node |= {name: getattr(self, name).get(one.node) for name in others}
        return {**node, "server": self.servers.get(one.server)}


def read_placement() -> tuple[dict[str, tuple[Any, ...]], dict[str, tuple[Any, ...]]]:
    """Read the stocks and the holders of a :class:`View`."""
    provider, kind = placement_models.ResourceProvider, placement_models.ResourceClass
    stock, held = placement_models.Inventory, placement_models.Allocation
    parts = []
    with staging.placement() as session:
        for table, *columns in (
            (stock, kind.name, stock.total, stock.reserved),
            (held, held.consumer_id, kind.name),
        ):
            rows: dict[str, tuple[Any, ...]] = defaultdict(tuple)
            statement = (
                sa.select(provider.uuid, *columns)
                .join(table, table.resource_provider_id == provider.id)
                .join(kind, kind.id == table.resource_class_id)
                .order_by(*columns)
            )
            for uuid, *row in session.execute(statement):
                rows[uuid] += (tuple(row),)
            parts.append(rows)
    stocks, holders = parts
    return stocks, holders


def _is_free(node: Mapping[str, Any]) -> bool:
    return (
        node["provision_state"] == states.AVAILABLE
        and node["instance_uuid"] is None
        and not node["maintenance"]
        and not node["retired"]
        and node["power_state"] in _POWERED
    )


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """How a node has ended.

    :ivar unsafe: the laws that were broken.
    :ivar names: what the doctor calls that which is left to a person; empty: it is sound.
    """

    staged: Staged
    unsafe: tuple[str, ...]
    names: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Judge:
    """Judges one world.

    :ivar before, settled, after: how it was, after everything, and after the same again.
    :ivar findings: the doctor's last, with which the operator is left.
    :ivar sent: the changes that were sent to Ironic: method, path, body.
    :ivar free_wrongly: nodes that were offered and not free, with their state.
    """

    before: View
    settled: View
    after: View
    findings: list[dict[str, str]]
    sent: list[str]
    free_wrongly: Mapping[str, str]

    def outcome(self, one: Staged) -> Outcome:
        """How a node has ended."""
        unsafe = []
        if one.triple.is_others and (touches := self._touches(one)):
            unsafe.append(f"somebody else's node was touched: {touches}")
        if one.node in self.free_wrongly and one.triple.record != triples.OTHER:
            unsafe.append(f"it was offered in {self.free_wrongly[one.node]}")
        then, now = self.settled.of(one), self.after.of(one)
        changes = [
            f"{name}: {then[name]} became {now[name]}" for name in now if then[name] != now[name]
        ]
        if changes:
            unsafe.append(f"the same again has changed it: {'; '.join(changes)}")
        names: tuple[str, ...] = ()
        if problems := self._problems(one):
            names = self._names(one)
            if not names:
                unsafe.append(f"it is not sound, and has no name: {'; '.join(problems)}")
        return Outcome(one, tuple(unsafe), names)

    def bystander(self, one: Staged) -> str:
        """What has become of a server that nothing was wrong with."""
        if self._touches(one):
            return f"the bystander was touched: {self._touches(one)}"
        return "" if self.before.of(one) == self.after.of(one) else "the bystander has changed"

    def _touches(self, one: Staged) -> list[str]:
        own = (f"/nodes/{one.node}", f"/allocations/{one.instance}")
        return [line for line in self.sent if any(path in line for path in own)]

    def _names(self, one: Staged) -> tuple[str, ...]:
        uuids = [one.node, one.server]
        is_deleted, vm_state, *_ = self.settled.servers.get(one.server, (True, None))
        if not is_deleted and vm_state == "error" and one.server in self.settled.faults:
            return (IN_ERROR,)
        return tuple(
            sorted(
                {
                    row["Code"]
                    for row in self.findings
                    if any(uuid in row["Object"] + row["Finding"] for uuid in uuids)
                }
            )
        )

    def _problems(self, one: Staged) -> list[str]:
        """What is not as it should be in the end."""
        triple, view = one.triple, self.settled
        if triple.record == triples.OTHER:
            return []
        node, server = view.nodes[one.node], view.servers.get(one.server)
        holders = view.holders.get(one.node, ())
        problems = []
        if server is not None and not server[0]:
            problems.append(f"the server is still there: {server}")
        if node["instance_uuid"] == one.server:
            problems.append(f"the node carries the server still, in {node['provision_state']}")
        if view.records.get(one.node) != ("ours",):
            problems.append(f"its record is with {view.records.get(one.node)}")
        if holders:
            problems.append(f"{len(holders)} allocations are left")
        kinds = {name for name, _, _ in view.stocks.get(one.node, ())}
        if kinds != {"CUSTOM_BAREMETAL_GOLD"}:
            problems.append(f"its provider has {kinds or 'nothing'}")
        if not holders and _is_free(node) != (one.node in view.offered):
            problems.append(f"free: {_is_free(node)}, offered: {one.node in view.offered}")
        return problems
