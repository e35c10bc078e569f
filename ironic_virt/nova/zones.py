# SPDX-License-Identifier: Apache-2.0

"""Puts the resource provider of each node into the aggregates of its host, for zones.

``openstack aggregate add host`` puts only one node of a host into Placement's aggregate, and
Placement alone decides what is in an availability zone.  So the driver adds the others, and
removes what it had added when the host leaves the aggregate, or the node the host.

What was added is in the ``stats`` of the node's record, which another process and another host
read.  An aggregate that the host was never in is somebody else's, and stays.  Thread-safe.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from typing import Any, NamedTuple

from nova import context as nova_context
from nova import objects
from oslo_log import log as logging

from ironic_virt.nova.sizes import STATS_PREFIX
from ironic_virt.nova.virtapi import chunks

LOG = logging.getLogger(__name__)

AGGREGATES = f"{STATS_PREFIX}aggregates"
"""Where a record has the uuids of the aggregates, with commas between them."""

_NONE: frozenset[str] = frozenset()


class State(NamedTuple):
    """The aggregates of a node, as far as the driver sees to them.

    :ivar of_host: those of its host; ``None``: not known.
    :ivar added: those that a host had added.
    :ivar removing: whether some were removed a moment ago.
    """

    of_host: frozenset[str] | None
    added: frozenset[str]
    removing: bool

    def agrees(self, aggregates: frozenset[str]) -> bool:
        """Whether nothing is to be changed in a provider with these aggregates."""
        if self.of_host is None:
            return True
        return self.of_host <= aggregates and not (self.added - self.of_host) & aggregates


class Zones:
    """The aggregates of this host's nodes.

    :param host: the name of this host.
    :param record_uuid: the uuid of the record of a compute node.
    """

    def __init__(self, host: Callable[[], str], record_uuid: Callable[[str], str]) -> None:
        self._host = host
        self._record_uuid = record_uuid
        self._lock = threading.Lock()
        self._of_host: frozenset[str] | None = None
        self._added: dict[str, frozenset[str]] = {}
        self._removing: set[str] = set()
        self._failing = False

    def read(self, nodenames: Collection[str]) -> None:
        """Read the aggregates of this host and the records of new nodes, once a period."""
        context = nova_context.get_admin_context()
        known = frozenset(nodenames)
        try:
            of_host, error = _uuids(objects.AggregateList.get_by_host(context, self._host())), None
        except Exception as exc:
            of_host, error = None, exc
        try:
            added = self._recorded(context, known - self._added.keys(), of_host)
        except Exception as exc:
            added, error = {}, exc
        if error is not None and not self._failing:
            LOG.warning(
                "[nova-not-asked] Can't read the aggregates of this host's nodes: %s. The nodes "
                "stay in the aggregates in which they are",
                error,
            )
        with self._lock:
            self._failing, self._of_host = error is not None, of_host
            added = {**self._added, **added}
            self._added = {name: uuids for name, uuids in added.items() if name in known}
            self._removing &= known

    def _recorded(
        self, context: Any, nodenames: Collection[str], of_host: frozenset[str] | None
    ) -> dict[str, frozenset[str]]:
        """What the last process, or another host, had added to the nodes."""
        added = dict.fromkeys(nodenames, _NONE)
        if not added or (of_host == _NONE and not objects.AggregateList.get_all(context)):
            return added
        names = {self._record_uuid(name): name for name in nodenames}
        for some in chunks(list(names)):
            for record in objects.ComputeNodeList.get_all_by_uuids(context, some):
                uuids = ((record.stats or {}).get(AGGREGATES) or "").split(",")
                added[names[record.uuid]] = frozenset(uuids) - {""}
        return added

    def state(self, nodename: str) -> State:
        """What a pass over a node depends on; another one while there is more to do."""
        with self._lock:
            added = self._added.get(nodename, _NONE)
            return State(self._of_host, added, nodename in self._removing)

    def stats(self, nodename: str) -> dict[str, str]:
        """What the record of a node says of its aggregates, before Placement is told."""
        with self._lock:
            uuids = self._added.get(nodename, _NONE) | (self._of_host or _NONE)
        return {AGGREGATES: ",".join(sorted(uuids))} if uuids else {}

    def update(self, tree: Any, nodename: str) -> None:
        """Set the aggregates of a node's provider; nothing changes if they are not known."""
        with self._lock:
            added, of_host = self._added.get(nodename), self._of_host
        if added is None or of_host is None:
            return
        present = frozenset(tree.data(nodename).aggregates)
        # They count as added until another look shows that they have gone: writing may fail.
        leaving = (added - of_host) & present
        tree.update_aggregates(nodename, (present - leaving) | of_host)
        with self._lock:
            self._added[nodename] = of_host | leaving
            (self._removing.add if leaving else self._removing.discard)(nodename)


def _uuids(aggregates: Any) -> frozenset[str]:
    return frozenset(aggregate.uuid for aggregate in aggregates)
