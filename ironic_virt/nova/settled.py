# SPDX-License-Identifier: Apache-2.0

"""Which nodes the resource tracker may pass over, because a whole pass would change nothing.

Only decisions: what Nova, Placement and the driver say comes in as values, and nothing is asked
here.  What is unknown is a reason for a whole pass.  Thread-safe.

A node is settled when a whole pass of it was clean (:func:`is_clean`) and nothing that the pass
depends on has changed since (:meth:`SettledNodes.reason`).
"""

from __future__ import annotations

import dataclasses
import enum
import random
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple


class Reason(enum.StrEnum):
    """Why a node gets a whole pass."""

    START = "start"
    UNKNOWN = "unknown"
    UNSETTLED = "unsettled"
    RECORD = "record"
    SERVERS = "servers"
    CHANGED = "changed"
    PLACEMENT = "placement"
    AGE = "age"


class Inputs(NamedTuple):
    """What a pass writes: compared before it and at the next period.

    :ivar offered: what the driver reports and offers.
    :ivar disabled: whether the service is; ``None``: it has no record.
    :ivar failed_builds: as the resource tracker counts them for the node.
    """

    offered: object
    disabled: bool | None
    failed_builds: int


class CachedNode(NamedTuple):
    """What Nova holds of a node after a pass.

    :ivar uuid: of its resource provider.
    :ivar generation: of the provider, in Nova's cache; ``None``: it is not there.
    :ivar disabled: whether the provider, as it is there, says that the service is.
    :ivar saved: the record as it was last saved; another object means that it was saved again.
    """

    uuid: str
    generation: int | None
    disabled: bool
    saved: object


@dataclasses.dataclass(frozen=True, slots=True)
class Period:
    """What is read once, at the begin of a period.

    :ivar generations: of the providers in Placement, by uuid; ``None``: it does not answer.
    :ivar servers: uuids of the host's servers.
    :ivar touched: nodes with servers that have come, gone or changed; ``None``: any.
    """

    generations: Mapping[str, int] | None = None
    disabled: bool | None = None
    servers: frozenset[str] = frozenset()
    touched: frozenset[str] | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Pass:
    """A clean pass.

    :ivar consumers: uuids with allocations at the node.
    :ivar at: when it was made, by a monotonic clock in seconds.
    :ivar due: when the next one is to be made, even if nothing has changed.
    """

    inputs: Inputs
    outcome: CachedNode
    consumers: frozenset[str]
    at: float
    due: float


def is_clean(outcome: CachedNode, period: Period, writes: int, consumers: frozenset[str]) -> bool:
    """Whether a pass has seen every write to its provider in Placement.

    Nova reads a provider in several requests, and its allocations before them.  Nobody else has
    written in between if its generation has grown by Nova's own writes alone.  Nova takes the
    allocations of deleted servers away: only those of this host's servers are sure to be none.

    :param writes: Nova's own to the provider since Placement was listed.
    :param consumers: with allocations, as the pass has read them.
    """
    return (
        period.generations is not None
        and consumers <= period.servers
        and outcome.disabled == bool(period.disabled)
        # A provider that was not listed is taken for a new one.
        and outcome.generation == period.generations.get(outcome.uuid, 0) + writes
    )


class SettledNodes:
    """The clean passes of nodes, period by period.

    :param max_age: seconds after which a node gets a pass in any case.
    :param clock: a monotonic clock in seconds.
    :param jitter: a random number from 0 to 1.
    """

    def __init__(
        self,
        max_age: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._max_age = max_age
        self._clock = clock
        self._jitter = jitter
        self._lock = threading.RLock()
        self._passes: dict[str, Pass] = {}
        self._asked: set[str] = set()
        self.period = Period()

    def begin(self, period: Period) -> None:
        """Forget the passes of nodes that were touched, or not asked for in the last period."""
        with self._lock:
            kept = self._asked - (period.touched or set())
            self._asked, self.period = set(), period
            for name in self._passes.keys() - kept:
                del self._passes[name]

    def is_current(self, name: str, outcome: CachedNode) -> bool:
        """Whether Nova's cache is what Placement has; call it before :meth:`reason`.

        A write of Nova's own may have hidden an edit that Nova has not read.  So the generation
        must still be that of the last clean pass.
        """
        with self._lock:
            last, listed = self._passes.get(name), self.period.generations
            return (
                last is not None
                and outcome.generation == last.outcome.generation
                and (listed is None or listed.get(outcome.uuid) == outcome.generation)
            )

    def reason(
        self, name: str, inputs: Inputs | None, outcome: CachedNode | None, *, starts: bool = False
    ) -> Reason | None:
        """Why a node gets a whole pass, which takes its last one away; ``None``: it is settled.

        :param inputs: ``None``: they are not known.
        :param outcome: ``None``: the resource tracker does not hold the node.
        """
        with self._lock:
            self._asked.add(name)
            reason = Reason.START if starts else self._reason(name, inputs, outcome)
            if reason is not None:
                self._passes.pop(name, None)
            return reason

    def _reason(
        self, name: str, inputs: Inputs | None, outcome: CachedNode | None
    ) -> Reason | None:
        last, touched = self._passes.get(name), self.period.touched
        if inputs is None or touched is None:
            return Reason.UNKNOWN
        if last is None and name in touched:
            return Reason.SERVERS
        if outcome is None:
            return Reason.RECORD
        if last is None:
            return Reason.UNSETTLED
        if inputs != last.inputs:
            return Reason.CHANGED
        if not self.is_current(name, outcome):
            return Reason.PLACEMENT
        if outcome.saved is not last.outcome.saved:
            return Reason.RECORD
        return Reason.AGE if self._clock() >= last.due else None

    def keep(
        self,
        name: str,
        inputs: Inputs,
        outcome: CachedNode,
        consumers: frozenset[str],
        *,
        earliest: float = 0.5,
    ) -> None:
        """Take a clean pass for the node's last one.

        :param earliest: the part of the largest age after which the next one may be due.
        """
        at = self._clock()
        due = at + self._max_age * (earliest + (1 - earliest) * self._jitter())
        with self._lock:
            self._passes[name] = Pass(inputs, outcome, consumers, at, due)

    def with_consumer(self, uuid: str) -> list[str]:
        """The nodes at which a server had an allocation."""
        with self._lock:
            return [name for name, last in self._passes.items() if uuid in last.consumers]

    def passes(self) -> dict[str, Pass]:
        """The clean passes by node."""
        with self._lock:
            return dict(self._passes)

    def oldest(self) -> float:
        """Seconds since the oldest clean pass; 0: there is none."""
        with self._lock:
            oldest = min((last.at for last in self._passes.values()), default=None)
        return 0.0 if oldest is None else self._clock() - oldest


class Server(NamedTuple):
    """A server that was written lately.

    :ivar state: equal for as long as nothing was written.
    """

    uuid: str
    node: str
    state: object


class Servers:
    """Which nodes have servers that came, went or changed, from one look to the next."""

    def __init__(self) -> None:
        self._uuids: frozenset[str] | None = None
        self._nodes: dict[str, str] = {}
        self._states: dict[str, object] = {}

    def restore(self, uuids: frozenset[str], nodes: Mapping[str, str]) -> None:
        """Go on from what another process has looked at last.

        :param nodes: of the servers, as far as they are known.
        """
        self._uuids, self._nodes = uuids, dict(nodes)

    def touched(
        self,
        uuids: frozenset[str],
        written: Sequence[Server],
        find: Callable[[Collection[str]], Mapping[str, str]],
        holders: Callable[[str], Collection[str]],
    ) -> frozenset[str] | None:
        """The nodes; ``None`` if they are not known, as at the first look.

        :param uuids: the host's servers.
        :param written: its servers that were written since shortly before the last look,
            deleted ones too.
        :param find: the nodes of servers, deleted ones too, by the records.
        :param holders: the nodes at which a server had an allocation.
        """
        before, states = self._uuids, {server.uuid: server.state for server in written}
        changed = [server for server in written if self._states.get(server.uuid) != server.state]
        at = {server.uuid: server.node for server in changed}
        moved = frozenset() if before is None else uuids ^ before
        at.update(find(moved) if moved else {})
        nodes, known = set[str](), before is not None
        # Also one that has only changed may have left a node.
        for uuid in moved | at.keys():
            places = {at.get(uuid, ""), self._nodes.get(uuid, ""), *holders(uuid)} - {""}
            known = known and bool(places or uuid not in moved)
            nodes |= places
        # At the end, so that the next look repeats what failed above.
        self._uuids, self._states = uuids, states
        self._nodes = {uuid: node for uuid, node in {**self._nodes, **at}.items() if uuid in uuids}
        return frozenset(nodes) if known else None
