# SPDX-License-Identifier: Apache-2.0

"""How few requests answer all who wait for a node: what a tick asks, and when the next is.

Waiters are plain data.  A tick serves all that are due: one list for each
transitional provision state in which two or more nodes are waited for, and a
single GET for every other node, those that left such a state included.  A state
that is crowded with nodes that nobody here waits for is not listed either.

No threads and no sleep here, and one lock, the caller's: it guards the set of
waiters and their fields, and is never held while Ironic is asked.  One thread
at a time may call :meth:`Poll.tick`.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Protocol

import msgspec
from oslo_log import log as logging

from ironic_virt import exceptions
from ironic_virt.baremetal import states
from ironic_virt.baremetal.client import NodeFilter
from ironic_virt.baremetal.node import Node
from ironic_virt.baremetal.rhythm import Rhythm

LOG = logging.getLogger(__name__)

FIELDS = (
    "uuid",
    "name",
    "instance_uuid",
    "provision_state",
    "target_provision_state",
    "power_state",
    "target_power_state",
    "last_error",
    "maintenance",
    "reservation",
    "console_enabled",
)
"""What a waiter gets to see of a node; all that changes while one waits."""

_FEW = 6
_LAST_LOOK = 1.0

_ROWS_FOR_A_GET = 30
"""As many nodes in a list cost Ironic about as much as a request for one.

Ironic 39.0.0 on SQLite, without authentication: 0.22 and 6.8 ms of processor time.
"""

_CROWD_REMEMBERED = 60.0
"""Seconds until a state that was too crowded to be listed is listed again, to see."""

_HOPELESS = (exceptions.MicroversionNotSupported, exceptions.IronicUnauthorized)
_SERVER_IN_TROUBLE = (exceptions.IronicUnreachable, exceptions.IronicUnavailable)


class Source(Protocol):
    """The part of the client that is needed here."""

    def list_nodes(self, where: NodeFilter = ..., *, fields: Iterable[str] = ...) -> list[Node]:
        """See :meth:`IronicClient.list_nodes`."""

    def get_node(self, uuid: str) -> Node:
        """See :meth:`IronicClient.get_node`."""


@dataclasses.dataclass(slots=True, eq=False)
class Waiter:
    """Somebody waits for a node.

    :ivar state: the node's provision state when last seen.
    :ivar deadline: on the poll's clock; ``None``: no limit.
    :ivar patience: the longest pause between two looks, in intervals.
    :ivar due: when to look next.
    :ivar looks: how often was looked.
    :ivar pace: how often since there was last a reason to look soon.
    :ivar failures: how often in a row Ironic could not be asked.
    :ivar trouble: what the last failure was.
    :ivar seen: the node at the last look; ``None``: Ironic had none.
    :ivar news: ``seen`` is new to the waiter, and differs from what it has been told.
    :ivar error: ends the wait.
    """

    node: str
    woken: threading.Condition
    state: str | None = None
    deadline: float | None = None
    patience: float = 1.0
    due: float = 0.0
    looks: int = 0
    pace: int = 0
    failures: int = 0
    trouble: str | None = None
    seen: Node | None = None
    news: bool = False
    error: Exception | None = None


class Poll:
    """The waiters and the looks at their nodes.

    :param lock: guards the waiters; :attr:`Waiter.woken` must be over it.
    :param node_filter: which nodes are this service's; asked before each list.
    """

    def __init__(
        self,
        source: Source,
        node_filter: Callable[[], NodeFilter],
        rhythm: Rhythm,
        clock: Callable[[], float],
        lock: threading.Lock,
    ) -> None:
        self.waiters: dict[Waiter, None] = {}
        self._source = source
        self._node_filter = node_filter
        self._rhythm = rhythm
        self._clock = clock
        self._lock = lock
        self._failed_ticks = 0
        self._held_until = float("-inf")
        self._warned: set[tuple[str, int | None]] = set()
        # State to how many nodes its last list held, and when that was.
        self._listed: dict[str, tuple[int, float]] = {}

    def add(self, waiter: Waiter) -> None:
        """Begin to look at a waiter's node.  The caller holds the lock."""
        if not self.waiters:
            # What went wrong for those before tells nothing of now.
            self._warned.clear()
            self._failed_ticks = 0
            self._held_until = float("-inf")
        self._schedule(waiter, self._rhythm.pause(0, waiter.patience))
        self.waiters[waiter] = None

    def next_due(self) -> float | None:
        """When to tick next, ``None`` if nobody waits.  The caller holds the lock."""
        if not self.waiters:
            return None
        return max(min(waiter.due for waiter in self.waiters), self._held_until)

    def tick(self) -> None:
        """Look at every node that is due, and tell its waiters.

        Only those are told who waited before their node was asked for: an
        older look may show the node as it was before their own request.
        """
        tick = self._begin()
        try:
            for state in tick.lists:
                self._list(tick, state)
            # A node that fails again and again must not keep the others waiting.
            for node in sorted(tick.unseen, key=tick.failures):
                if node in tick.unseen and self._is_waited_for(tick.waiting[node]):
                    self._get(tick, node)
        except _SERVER_IN_TROUBLE:
            # What remains would fail too, each request after its own timeout.
            self._failed_ticks += 1
            self._held_until = self._clock() + self._rhythm.backoff(self._failed_ticks)
        self._hasten(tick)
        self._note_recovery()

    # -- one tick -------------------------------------------------------------

    def _begin(self) -> _Tick:
        now = self._clock()
        waiting: dict[str, list[Waiter]] = {}
        in_state: dict[str, dict[str, None]] = {}
        with self._lock:
            for waiter in self.waiters:
                waiting.setdefault(waiter.node, []).append(waiter)
                if waiter.state in states.TRANSITIONAL:
                    in_state.setdefault(waiter.state, {})[waiter.node] = None
            due = [w for w in self.waiters if w.due <= now + self._rhythm.together]
        lists = {
            state: in_state[state]
            for state in dict.fromkeys(waiter.state for waiter in due)
            if state in in_state and self._is_worth_a_list(state, len(in_state[state]))
        }
        unseen = dict.fromkeys(waiter.node for waiter in due)
        for nodes in lists.values():
            # The list is sent anyway, so all in that state profit.
            unseen |= nodes
        return _Tick(waiting, {s: n for s, n in lists.items() if s is not None}, unseen)

    def _is_worth_a_list(self, state: str, awaited: int) -> bool:
        """Whether a list costs less than asking for so many nodes one by one."""
        if awaited < 2:
            return False
        size, when = self._listed.get(state, (0, 0.0))
        return size <= awaited * _ROWS_FOR_A_GET or self._clock() >= when + _CROWD_REMEMBERED

    def _list(self, tick: _Tick, state: str) -> None:
        """Ask for all nodes in a state; those of ours found there are served."""
        awaited = tick.lists[state]
        tick.listed.add(state)
        try:
            where = msgspec.structs.replace(self._node_filter(), provision_state=state)
            nodes = self._source.list_nodes(where, fields=FIELDS)
        except Exception as exc:
            for uuid in awaited:
                tick.unseen.pop(uuid, None)
            waiters = [waiter for uuid in awaited for waiter in tick.waiting[uuid]]
            self._failed(f"nodes in state {state!r}", waiters, exc)
            return
        self._failed_ticks = 0
        self._listed[state] = len(nodes), self._clock()
        # One that can't be read is asked for by itself, and again if need be.
        awaited_here = [n for n in nodes if n.uuid in tick.waiting and not n.malformed]
        for node in awaited_here:
            tick.unseen.pop(node.uuid, None)
            self._saw(tick.waiting[node.uuid], node, served=len(awaited_here))
        tick.left.update(uuid for uuid in awaited if uuid in tick.unseen)

    def _get(self, tick: _Tick, uuid: str) -> None:
        tick.unseen.pop(uuid, None)
        has_left = uuid in tick.left
        try:
            node = self._source.get_node(uuid)
        except exceptions.NodeNotFound:
            node = None
        except Exception as exc:
            self._failed(f"node {uuid}", tick.waiting[uuid], exc)
            return
        self._failed_ticks = 0
        self._saw(tick.waiting[uuid], node)
        state = node.provision_state if node is not None else None
        if has_left and state in states.TRANSITIONAL and state not in tick.listed:
            # Nodes deployed together go on together: where one of those that
            # left a state is now, the others probably are.
            left = dict.fromkeys(other for other in tick.unseen if other in tick.left)
            if self._is_worth_a_list(state, len(left)):
                tick.lists[state] = left
                self._list(tick, state)

    def _is_waited_for(self, waiters: Collection[Waiter]) -> bool:
        with self._lock:
            return any(waiter in self.waiters for waiter in waiters)

    # -- what a look brought --------------------------------------------------

    def _saw(self, waiters: Sequence[Waiter], node: Node | None, *, served: int = 1) -> None:
        with self._lock:
            for waiter in waiters:
                if not waiter.looks or node != waiter.seen:
                    # Who has seen just that need not wake up to find it again.
                    waiter.news = True
                    waiter.woken.notify()
                waiter.seen = node
                waiter.state = node.provision_state if node is not None else None
                waiter.looks += 1
                waiter.pace += 1
                waiter.failures = 0
                waiter.trouble = None
                pause = self._rhythm.pause(waiter.pace, waiter.patience, served=served)
                self._schedule(waiter, pause)

    def _hasten(self, tick: _Tick) -> None:
        """Look soon at the few that remain where others have left.

        Nodes deployed together end together, and the last one would wait for longest.
        """
        with self._lock:
            for nodes in tick.lists.values():
                remain = [node for node in nodes if node not in tick.left]
                if len(remain) == len(nodes) or len(remain) > _FEW:
                    continue
                for waiter in (waiter for node in remain for waiter in tick.waiting[node]):
                    if waiter.pace > 1 and not waiter.failures:
                        waiter.pace = 1
                        former = waiter.due
                        pause = self._rhythm.pause(1, waiter.patience, served=len(remain))
                        self._schedule(waiter, pause)
                        waiter.due = min(former, waiter.due)

    def _failed(self, what: str, waiters: Sequence[Waiter], error: Exception) -> None:
        """Have the waiters wait on, or end their waits if that can't help.

        :raises IronicUnreachable, IronicUnavailable: the error, when it is one
            that any other request would meet as well.
        """
        hopeless = isinstance(error, _HOPELESS) or not isinstance(error, exceptions.IronicError)
        with self._lock:
            for waiter in waiters:
                waiter.failures += 1
                waiter.trouble = str(error)
                self._schedule(waiter, self._rhythm.backoff(waiter.failures))
                if hopeless:
                    waiter.error = error
                    waiter.woken.notify()
            pause = min((waiter.due for waiter in waiters), default=0.0) - self._clock()
        kind = (type(error).__name__, getattr(error, "status", None))
        if hopeless:
            LOG.error(
                "%d waits for %s end, because Ironic can't be asked: %s",
                len(waiters),
                what,
                error,
                exc_info=not isinstance(error, exceptions.IronicError),
            )
        elif kind not in self._warned:
            self._warned.add(kind)
            LOG.warning(
                "Ironic could not be asked for %s, which %d wait for; asking again in %.1f s "
                "and then at longer intervals: %s",
                what,
                len(waiters),
                pause,
                error,
            )
        else:
            LOG.debug("Ironic could again not be asked for %s: %s", what, error)
        if isinstance(error, _SERVER_IN_TROUBLE):
            raise error

    def _note_recovery(self) -> None:
        if not self._warned or self._failed_ticks:
            return
        with self._lock:
            if any(waiter.failures for waiter in self.waiters):
                return
        self._warned.clear()
        LOG.info("Ironic answers for every node that is waited for")

    def _schedule(self, waiter: Waiter, pause: float) -> None:
        now = self._clock()
        waiter.due = now + pause
        if waiter.deadline is None or waiter.due < waiter.deadline:
            return
        # The next look would come too late: one shortly before the end instead.
        remaining = waiter.deadline - now
        if remaining > _LAST_LOOK or not (waiter.looks or waiter.failures):
            waiter.due = waiter.deadline - min(_LAST_LOOK, remaining) / 2


@dataclasses.dataclass
class _Tick:
    """One tick's work.

    :ivar waiting: node to its waiters when the tick began.
    :ivar lists: state to the nodes expected in it.
    :ivar unseen: nodes to be looked at and not seen yet, in order.
    :ivar listed: states asked for.
    :ivar left: nodes that were not where they were expected.
    """

    waiting: dict[str, list[Waiter]]
    lists: dict[str, dict[str, None]]
    unseen: dict[str, None]
    listed: set[str] = dataclasses.field(default_factory=set)
    left: set[str] = dataclasses.field(default_factory=set)

    def failures(self, node: str) -> int:
        """How often in a row a node could not be asked for."""
        return max(waiter.failures for waiter in self.waiting[node])
