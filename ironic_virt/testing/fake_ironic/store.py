# SPDX-License-Identifier: Apache-2.0

"""The fake Ironic's rows and their indexes.

Made for 100,000 nodes: looking one up by id, uuid, name or instance and
starting a page at a marker never scan, and a rare provision state is found
through an index.

Not thread-safe by itself: the application holds one lock around each request.
Change a node with :meth:`Store.update`, never by assignment, or the indexes
and ``updated_at`` no longer tell the truth.
"""

import bisect
import dataclasses
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

from ironic_virt.testing.fake_ironic import clock as _clock
from ironic_virt.testing.fake_ironic.records import (
    Allocation,
    Chassis,
    HistoryEvent,
    Node,
    Port,
    Portgroup,
    Row,
    VolumeConnector,
    VolumeTarget,
)

#: How many events are kept for each node: Ironic's default.
HISTORY_SIZE = 300


RowT = TypeVar("RowT", bound=Row)


class Table(Generic[RowT]):
    """Rows in the order of their ids, with an index by uuid."""

    def __init__(self) -> None:
        self._rows: dict[int, RowT] = {}
        self._ids: list[int] = []
        self._by_uuid: dict[str, RowT] = {}
        self._last_id = 0

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[RowT]:
        return iter(self._rows.values())

    def next_id(self) -> int:
        self._last_id += 1
        return self._last_id

    def add(self, row: RowT) -> None:
        self._rows[row.id] = row
        self._ids.append(row.id)
        self._by_uuid[row.uuid] = row

    def remove(self, row: RowT) -> None:
        del self._rows[row.id]
        del self._ids[bisect.bisect_left(self._ids, row.id)]
        del self._by_uuid[row.uuid]

    def get(self, uuid: str) -> RowT | None:
        return self._by_uuid.get(uuid)

    def by_id(self, row_id: int) -> RowT | None:
        return self._rows.get(row_id)

    def after(self, marker_id: int) -> Iterator[RowT]:
        """Rows with an id above ``marker_id``, in order."""
        for row_id in self._ids[bisect.bisect_right(self._ids, marker_id) :]:
            yield self._rows[row_id]

    def before(self, marker_id: int | None) -> Iterator[RowT]:
        """Rows with an id below ``marker_id`` (None: all), from the last."""
        end = len(self._ids) if marker_id is None else bisect.bisect_left(self._ids, marker_id)
        for row_id in reversed(self._ids[:end]):
            yield self._rows[row_id]


class Store:
    """All that the fake Ironic knows.

    :param now: tells the time of a change.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self.nodes: Table[Node] = Table()
        self.chassis: Table[Chassis] = Table()
        self.ports: Table[Port] = Table()
        self.portgroups: Table[Portgroup] = Table()
        self.connectors: Table[VolumeConnector] = Table()
        self.targets: Table[VolumeTarget] = Table()
        self.allocations: Table[Allocation] = Table()
        self._history: dict[int, deque[HistoryEvent]] = {}
        self._node_by_name: dict[str, Node] = {}
        self._node_by_instance: dict[str, Node] = {}
        self._nodes_by_state: dict[str, dict[int, Node]] = {}
        self._ports_by_node: dict[int, list[Port]] = {}

    def timestamp(self) -> str:
        return _clock.timestamp(self._now())

    # Nodes

    def add_node(self, node: Node) -> None:
        self.nodes.add(node)
        self._index(node)

    def remove_node(self, node: Node) -> None:
        """Remove a node with all that hangs on it."""
        self._unindex(node)
        self.nodes.remove(node)
        for port in self.ports_of(node):
            self.remove_port(port)
        self._history.pop(node.id, None)
        for table in (self.portgroups, self.connectors, self.targets):
            self._remove_of(table, node)
        for allocation in list(self.allocations):
            if allocation.node is node:
                self.allocations.remove(allocation)

    @staticmethod
    def _remove_of(table: Table[Any], node: Node) -> None:
        for row in [row for row in table if row.node is node]:
            table.remove(row)

    def update(self, row: Any, **changes: Any) -> None:
        """Set attributes of a node or other row, and the time of the change unless it is given."""
        if isinstance(row, Node):
            self._unindex(row)
        for name, value in changes.items():
            setattr(row, name, value)
        if "updated_at" not in changes:
            row.updated_at = self.timestamp()
        if isinstance(row, Node):
            self._index(row)

    def _index(self, node: Node) -> None:
        if node.name is not None:
            self._node_by_name[node.name] = node
        if node.instance_uuid is not None:
            self._node_by_instance[node.instance_uuid] = node
        self._nodes_by_state.setdefault(node.provision_state, {})[node.id] = node

    def _unindex(self, node: Node) -> None:
        if node.name is not None:
            self._node_by_name.pop(node.name, None)
        if node.instance_uuid is not None:
            self._node_by_instance.pop(node.instance_uuid, None)
        self._nodes_by_state.get(node.provision_state, {}).pop(node.id, None)

    def node_by_name(self, name: str) -> Node | None:
        return self._node_by_name.get(name)

    def node_by_instance(self, instance_uuid: str) -> Node | None:
        return self._node_by_instance.get(instance_uuid)

    def nodes_in_state(self, state: str) -> list[Node]:
        """Nodes in a provision state, in the order of their ids."""
        nodes = self._nodes_by_state.get(state, {})
        return [nodes[key] for key in sorted(nodes)]

    def count_in_state(self, state: str) -> int:
        return len(self._nodes_by_state.get(state, {}))

    # History

    def add_event(self, event: HistoryEvent) -> None:
        events = self._history.setdefault(event.node.id, deque(maxlen=HISTORY_SIZE))
        events.append(event)

    def history_of(self, node: Node) -> list[HistoryEvent]:
        """A node's events, the oldest first."""
        return list(self._history.get(node.id, ()))

    # Ports

    def add_port(self, port: Port) -> None:
        self.ports.add(port)
        self._ports_by_node.setdefault(port.node.id, []).append(port)

    def remove_port(self, port: Port) -> None:
        self.ports.remove(port)
        self._ports_by_node[port.node.id].remove(port)

    def ports_of(self, node: Node) -> list[Port]:
        return list(self._ports_by_node.get(node.id, ()))

    def portgroups_of(self, node: Node) -> list[Portgroup]:
        return [group for group in self.portgroups if group.node is node]

    # Allocations

    def allocation_of(self, node: Node) -> Allocation | None:
        if node.allocation_id is None:
            return None
        return self.allocations.by_id(node.allocation_id)

    def remove_allocation(self, allocation: Allocation) -> None:
        """Remove an allocation; its node is free again, as Ironic's database does."""
        self.allocations.remove(allocation)
        node = allocation.node
        if node is not None and node.allocation_id == allocation.id:
            self.update(node, allocation_id=None, instance_uuid=None)

    def shards(self) -> dict[str, int]:
        """Shard name -> number of nodes; those in none count as ``"None"``."""
        counts: dict[str, int] = {}
        for node in self.nodes:
            name = str(node.shard)
            counts[name] = counts.get(name, 0) + 1
        return counts


def fields_of(record: type[Any]) -> frozenset[str]:
    """The names of a record's fields."""
    return frozenset(field.name for field in dataclasses.fields(record))
