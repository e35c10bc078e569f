# SPDX-License-Identifier: Apache-2.0

"""Puts the resource provider of each node into the aggregates of its host, for zones.

Nova puts only one node of a host into Placement's aggregate, and Placement alone decides what is
in an availability zone.  The driver adds the others, and removes them when the host leaves the
aggregate or the node the host.  What it adds, it marks in the same request by a second uuid, which
differs in its version: 8, the one for private use.  An aggregate without one stays.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Any, NamedTuple

from nova import context as nova_context
from nova import exception, objects
from oslo_log import log as logging

LOG = logging.getLogger(__name__)

_VERSION, _OF_MARKS = 14, "8"
"""Where a uuid has its version, which is 4 in Nova's aggregates."""


def marks(uuids: Iterable[str]) -> frozenset[str]:
    """The uuids that mark aggregates as added by the driver."""
    return frozenset(uuid[:_VERSION] + _OF_MARKS + uuid[_VERSION + 1 :] for uuid in uuids)


class State(NamedTuple):
    """What a pass over a node depends on.

    :ivar of_host: the aggregates of its host; ``None``: not known.
    :ivar is_first: whether Nova puts the node into them by itself, and nobody takes it out when
        it moves.
    """

    of_host: frozenset[str] | None
    is_first: bool

    def aggregates(self, present: frozenset[str]) -> frozenset[str]:
        """Those that a provider is to have which has these."""
        if self.of_host is None:
            return present
        marked = frozenset(uuid for uuid in present if uuid[_VERSION] == _OF_MARKS)
        added = frozenset(uuid for uuid in present - marked if marks([uuid]) <= marked)
        leaving = added - self.of_host
        theirs = frozenset() if self.is_first else present - added
        return (present - marked - leaving) | self.of_host | marks(self.of_host - theirs)


class Zones:
    """The aggregates of this host."""

    def __init__(self) -> None:
        self._of_host: frozenset[str] | None = None
        self._first = ""
        self._failing = False

    def read(self, host: str) -> None:
        """Read them, once a period; what can't be read stays as it was."""
        context = nova_context.get_admin_context()
        try:
            listed = objects.AggregateList.get_by_host(context, host)
            of_host = frozenset(aggregate.uuid for aggregate in listed)
            if of_host - (self._of_host or frozenset()):
                first = objects.ComputeNode.get_first_node_by_host_for_old_compat
                # Without a record, Nova has put none of the host's nodes into them.
                self._first = ""
                with contextlib.suppress(exception.ComputeHostNotFound):
                    self._first = first(context, host).hypervisor_hostname
            self._of_host, self._failing = of_host, False
        except Exception as exc:
            if not self._failing:
                LOG.warning(
                    "[nova-not-asked] Can't read the aggregates of this host's nodes: %s. The "
                    "nodes stay in the aggregates in which they are",
                    exc,
                )
            self._failing = True

    def state(self, nodename: str) -> State:
        """What is known of a node's host."""
        return State(self._of_host, nodename == self._first)

    def update(self, tree: Any, nodename: str) -> None:
        """Set the aggregates of a node's provider."""
        present = frozenset(tree.data(nodename).aggregates)
        tree.update_aggregates(nodename, self.state(nodename).aggregates(present))
