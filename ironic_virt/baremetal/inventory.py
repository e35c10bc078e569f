# SPDX-License-Identifier: Apache-2.0

"""The nodes that a service serves, as of the last list: synchronized, never guessed.

A refresh lists all of them; only a list that came whole replaces the former
one.  After a list that failed, even on its last page, every node is still there
and the snapshot says that it is stale, and why.

Any thread may call anything.  Reading :attr:`Inventory.snapshot` takes no lock:
snapshots are immutable and replaced as a whole.  One lock guards their
replacement; it is never held while Ironic is asked.

What changes a node in Ironic is not here, nor which nodes are asked for: the
function given to :class:`Inventory` knows that.
"""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType

import msgspec
from oslo_log import log as logging

from ironic_virt import exceptions
from ironic_virt.baremetal.node import Node

LOG = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """The nodes at one time.  Immutable.

    :ivar nodes: by uuid, in the order of the list.
    :ivar taken_at: monotonic seconds at which the list began; ``None`` before
        the first one.
    :ivar stale: the last refresh failed, or there was none yet.
    :ivar error: why it is stale, in words.
    """

    nodes: Mapping[str, Node] = dataclasses.field(repr=False)
    taken_at: float | None
    stale: bool
    error: str | None
    _instances: Mapping[str, str] = dataclasses.field(repr=False)

    @classmethod
    def of(
        cls,
        nodes: Iterable[Node],
        taken_at: float | None = None,
        *,
        stale: bool = False,
        error: str | None = None,
    ) -> Snapshot:
        """A snapshot of these nodes."""
        by_uuid = {node.uuid: node for node in nodes}
        instances = {
            node.instance_uuid: node.uuid for node in by_uuid.values() if node.instance_uuid
        }
        return cls(MappingProxyType(by_uuid), taken_at, stale, error, instances)

    def by_instance(self, instance_uuid: str) -> Node | None:
        """The node that carries an instance."""
        uuid = self._instances.get(instance_uuid)
        return None if uuid is None else self.nodes[uuid]

    @property
    def instance_uuids(self) -> list[str]:
        """The instances on these nodes."""
        return list(self._instances)

    def get(self, uuid: str) -> Node | None:
        """A node by its uuid."""
        return self.nodes.get(uuid)

    def __len__(self) -> int:
        return len(self.nodes)

    def __contains__(self, uuid: object) -> bool:
        return uuid in self.nodes

    def changed(self, uuid: str, node: Node | None) -> Snapshot:
        """The same with one node as it is now, ``None`` for gone.

        A node that isn't here is not added.
        """
        former = self.nodes.get(uuid)
        if former is None:
            return self
        nodes = dict(self.nodes)
        instances = dict(self._instances)
        if former.instance_uuid and instances.get(former.instance_uuid) == uuid:
            del instances[former.instance_uuid]
        if node is None:
            del nodes[uuid]
        else:
            nodes[uuid] = node
            if node.instance_uuid:
                instances[node.instance_uuid] = uuid
        return dataclasses.replace(self, nodes=MappingProxyType(nodes), _instances=instances)


class _Flight:
    """A list that is under way, and what became known of nodes meanwhile."""

    def __init__(self, began: float) -> None:
        self.began = began
        self.changes: dict[str, Node | None] = {}
        self.landed = threading.Event()
        self.result: Snapshot | None = None
        self.error: Exception | None = None


class Inventory:
    """Keeps the snapshot.

    :param list_nodes: asks Ironic for all nodes, whole or not at all: an error
        says that there is no answer.
    :param clock: a monotonic clock in seconds.
    """

    def __init__(
        self,
        list_nodes: Callable[[], Sequence[Node]],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._list_nodes = list_nodes
        self._clock = clock
        self._lock = threading.Lock()
        self._flight: _Flight | None = None
        self._failing_since: float | None = None
        self._snapshot = Snapshot.of((), stale=True, error="nodes have not been listed yet")

    @property
    def snapshot(self) -> Snapshot:
        """The nodes as last known.  Takes no lock."""
        return self._snapshot

    def refresh(self) -> Snapshot:
        """List the nodes anew.

        One list at a time: who comes while one is under way waits for that one
        and shares what it brings, error included.

        :raises IronicError: the list failed; the former nodes are kept and the
            snapshot is marked stale.
        """
        with self._lock:
            flight = self._flight
            leads = flight is None
            if flight is None:
                flight = self._flight = _Flight(self._clock())
        if leads:
            return self._fly(flight)
        flight.landed.wait()
        if flight.result is not None:
            return flight.result
        raise flight.error or exceptions.IronicError("the listing of nodes was interrupted")

    def ensure(self, max_age: float) -> Snapshot:
        """The snapshot, refreshed first if it is stale or older than so many seconds.

        :raises IronicError: as :meth:`refresh` does.
        """
        snapshot = self._snapshot
        if snapshot.stale or snapshot.taken_at is None:
            return self.refresh()
        if self._clock() - snapshot.taken_at > max_age:
            return self.refresh()
        return snapshot

    def put(self, node: Node) -> None:
        """Take a node as just read or changed, without a list.

        A list that began earlier doesn't undo it.  A node that the list lacks
        is not added: it isn't this service's.

        :param node: as :meth:`IronicClient.get_node` gives it, whole.
        """
        # One node's parameters can be as large as a thousand listed nodes.
        self._change(node.uuid, msgspec.structs.replace(node, instance_info=None))

    def discard(self, uuid: str) -> None:
        """Take note that Ironic has confirmed a node to be gone.

        A list that began earlier doesn't bring it back.
        """
        self._change(uuid, None)

    def _change(self, uuid: str, node: Node | None) -> None:
        with self._lock:
            self._snapshot = self._snapshot.changed(uuid, node)
            # Lists don't overlap, so only the one under way began earlier.
            if self._flight is not None:
                self._flight.changes[uuid] = node

    def _fly(self, flight: _Flight) -> Snapshot:
        try:
            nodes = self._list_nodes()
            flight.result = self._succeed(flight, nodes)
            return flight.result
        except Exception as exc:
            flight.error = exc
            self._fail(exc)
            raise
        finally:
            with self._lock:
                self._flight = None
            flight.landed.set()

    def _succeed(self, flight: _Flight, nodes: Sequence[Node]) -> Snapshot:
        listed = {node.uuid: node for node in nodes}
        with self._lock:
            for uuid, node in flight.changes.items():
                if node is None:
                    listed.pop(uuid, None)
                elif uuid in listed:
                    listed[uuid] = node
            self._snapshot = snapshot = Snapshot.of(listed.values(), flight.began)
            failing_since, self._failing_since = self._failing_since, None
        now = self._clock()
        LOG.debug("%d nodes listed in %.3f s", len(snapshot), now - flight.began)
        if failing_since is not None:
            LOG.info(
                "The nodes could be listed again after %.0f s: %d nodes",
                now - failing_since,
                len(snapshot),
            )
        return snapshot

    def _fail(self, error: Exception) -> None:
        now = self._clock()
        with self._lock:
            former = self._snapshot
            self._snapshot = dataclasses.replace(former, stale=True, error=str(error))
            first = self._failing_since is None
            if first:
                self._failing_since = now
        if not first:
            LOG.debug("The nodes could still not be listed: %s", error)
        elif former.taken_at is None:
            LOG.warning("The nodes could not be listed; none is known yet: %s", error)
        else:
            LOG.warning(
                "The nodes could not be listed; the %d nodes of %.0f s ago stay in force: %s",
                len(former),
                now - former.taken_at,
                error,
            )
