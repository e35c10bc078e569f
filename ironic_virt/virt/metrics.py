# SPDX-License-Identifier: Apache-2.0

"""What a driver tells of its work, for the host to count and export."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Mapping, Sequence


class Metrics:
    """What a driver tells of its work; this class keeps none of it.

    Any thread may call any method.  A method must be quick and raise nothing.
    """

    def request(self, method: str, path: str, code: str, seconds: float) -> None:
        """Called after each request to Ironic.

        :param path: below ``/v1``, with uuids in it.
        :param code: the answer's HTTP status; ``none``: no answer; ``refused``: Keystone gave
            no token.
        :param seconds: how long the answer took.
        """

    def refresh(self, seconds: float, worked: bool) -> None:
        """Called when a list of the nodes has ended.

        :param seconds: how long it took.
        """

    def node_pass(self, reason: str | None) -> None:
        """Called for each node in each period of Nova's resource tracker.

        :param reason: why the node is looked at; ``None``: it is passed over.
        """

    def oldest_pass(self, seconds: float) -> None:
        """Called once a period.

        :param seconds: since the node that was passed over for longest was looked at.
        """

    def waiting(self, kind: str) -> contextlib.AbstractContextManager[None]:
        """Return a block in which a thread waits for a node.

        :param kind: what for: ``deploy``, ``rebuild``, ``tear down``, ``power``, ``rescue``
            or ``console``.
        """
        return contextlib.nullcontext()

    def building(self) -> contextlib.AbstractContextManager[None]:
        """Return a block in which an instance is deployed on its node."""
        return contextlib.nullcontext()

    def step(self, name: str) -> contextlib.AbstractContextManager[None]:
        """Return a block that is one step of a build.

        :param name: ``reserving``, ``configuring``, ``validating`` or ``deploying``.
        """
        return contextlib.nullcontext()


@dataclasses.dataclass(frozen=True, slots=True)
class PoolCount:
    """The nodes of a pool; all nodes of a resource class if the scheduler picks the node.

    :ivar name: the pool's; empty if the scheduler picks.
    :ivar used: nodes with an instance, as far as this service counts them.
    :ivar reserved: nodes that can't be used now: others use them, or they are not available.
    """

    name: str
    resource_class: str
    traits: frozenset[str]
    free: int
    used: int
    reserved: int


@dataclasses.dataclass(frozen=True, slots=True)
class NodeCounts:
    """How many nodes a compute service has, as of its last refresh.

    :ivar nodes: by the driver's name of the state, resource class (may be empty), and
        whether the node is in maintenance.
    :ivar age: seconds since the nodes were last listed; ``None``: never.
    :ivar stale: the last refresh failed, or there was none yet.
    :ivar ownership: which nodes are this service's, as names and values for people.
    :ivar ring_members: hosts in the hash ring; 0: there is none.
    :ivar active: whether this process holds the lease of its host name; ``None``: there is no
        standby.
    :ivar lease_age: seconds since the lease was renewed; ``None``: this process has none.
    :ivar foreign_reports: how often another process, which has no lease, was seen to report as
        this service; ``None``: there is no standby.
    """

    nodes: Mapping[tuple[str, str, bool], int] = dataclasses.field(default_factory=dict)
    pools: Sequence[PoolCount] = ()
    age: float | None = None
    stale: bool = True
    ownership: Mapping[str, str] = dataclasses.field(default_factory=dict)
    ring_members: int = 0
    active: bool | None = None
    lease_age: float | None = None
    foreign_reports: int | None = None
