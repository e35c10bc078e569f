# SPDX-License-Identifier: Apache-2.0

"""Plans the requests that serve all waiters: what to request next, and when.

One list serves all waiters whose nodes are in the same transitional provision state, if
they are two or more; every other node is read by itself, also one that left such a state.
A state that is crowded with nodes that have no waiter here is not listed either.

Requests run in parallel, up to a limit, and each has a separate timeout, so one that hangs
delays no other.  While Ironic is down, a single request checks whether it is back.

There are no threads and no sleep here, and one lock, the caller's: it guards the set of
waiters and their fields, and is not held during a request.  Any thread may
:meth:`take <Poll.take>` a request, send it and hand in its answer.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Collection

from ironic_virt.baremetal import states
from ironic_virt.baremetal.node import Node
from ironic_virt.baremetal.node_filter import NodeFilter
from ironic_virt.baremetal.waiting.circuit_breaker import PATIENT_FOR, CircuitBreaker
from ironic_virt.baremetal.waiting.intervals import PollIntervals
from ironic_virt.baremetal.waiting.waiters import Cohort, PollRequest, Source, Waiter

MOST_REQUESTS = 8
"""Requests that may be under way at the same time."""

_FEW = 6
_LAST_POLL = 1.0

_ROWS_FOR_A_GET = 30
"""Rows of a list that cost Ironic about as much as a request for one node.

Ironic 39.0.0 on SQLite, without authentication: 0.22 and 6.8 ms of processor time.
"""

_CROWD_REMEMBERED = 60.0
"""Seconds after which a state that was too crowded is listed again, to check."""

_REMEMBERED = 0.8
"""The share of the usual duration of a request that stays after a quicker one."""


class Poll:
    """The waiters, and the requests for their nodes.

    :param lock: guards the waiters; :attr:`Waiter.woken` must use it.
    :param node_filter: which nodes are this service's; called before each list.
    """

    def __init__(
        self,
        source: Source,
        node_filter: Callable[[], NodeFilter],
        intervals: PollIntervals,
        clock: Callable[[], float],
        lock: threading.Lock,
    ) -> None:
        self.waiters: dict[Waiter, None] = {}
        self._source = source
        self._node_filter = node_filter
        self._intervals = intervals
        self._clock = clock
        self._lock = lock
        self._breaker = CircuitBreaker(intervals, clock)
        self._planned_at = float("-inf")
        # Node to its waiters, as of the last plan.
        self._waiting: dict[str, list[Waiter]] = {}
        # Requests to send, by state and by node, and those that are under way.
        self._lists: dict[str, PollRequest] = {}
        self._gets: dict[str, PollRequest] = {}
        self._under_way: dict[PollRequest, None] = {}
        # States and nodes that are about to be requested.
        self._listing: set[str] = set()
        self._busy: set[str] = set()
        # Nodes that left a state while other lists, which may show them, are under way.
        self._parked: list[Cohort] = []
        # State to how many nodes its last list held, and when that was.
        self._listed: dict[str, tuple[int, float]] = {}
        # The seconds that a request takes, by its kind.
        self._usual: dict[str, float] = {}

    # -- what is next: with the lock held -------------------------------------

    def add(self, waiter: Waiter) -> None:
        """Begin to poll a waiter's node.  The caller holds the lock."""
        if not self.waiters:
            # Failures of earlier waits mean nothing now.
            self._breaker = CircuitBreaker(self._intervals, self._clock)
        self._schedule(waiter, self._intervals.pause(0, waiter.patience))
        self.waiters[waiter] = None

    def next_due(self) -> float:
        """When to call :meth:`take` if no answer comes before.  The caller holds the lock."""
        if len(self._under_way) >= self._width:
            return math.inf
        due = [waiter.due for waiter in self.waiters if not self._is_busy(waiter)]
        if self._lists or self._gets:
            due.append(self._clock())
        return max(min(due, default=math.inf), self._breaker.held_until)

    def take(self) -> PollRequest | None:
        """The next request; ``None``: none now.  The caller holds the lock, and sends without."""
        current_time = self._clock()
        if len(self._under_way) >= self._width or current_time < self._breaker.held_until:
            return None
        is_planned = self._lists or self._gets
        if not is_planned or current_time >= self._planned_at + self._intervals.together:
            self._plan(current_time)
        while self._lists or self._gets:
            queue = self._lists or self._gets
            request = queue.pop(next(iter(queue)))
            request.waiting = self._waiting
            if any(waiter in self.waiters for waiter in request.waiters()):
                request.began = current_time
                request.timeout = self._timeout(request)
                self._under_way[request] = None
                return request
            self._release(request)
        return None

    def _timeout(self, request: PollRequest) -> float:
        failures = self._breaker.weighed(request.failures())
        return self._intervals.timeout(failures, self._usual.get(request.kind))

    @property
    def _width(self) -> int:
        return 1 if self._breaker.lasts else MOST_REQUESTS

    def _is_busy(self, waiter: Waiter) -> bool:
        return waiter.node in self._busy or waiter.state in self._listing

    def _plan(self, now: float) -> None:
        """Queue requests for all nodes that are due or nearly due."""
        if not any(waiter.due <= now and not self._is_busy(waiter) for waiter in self.waiters):
            return
        self._planned_at = now
        self._waiting = {}
        in_state: dict[str, dict[str, None]] = {}
        due = []
        for waiter in self.waiters:
            self._waiting.setdefault(waiter.node, []).append(waiter)
            if self._is_busy(waiter):
                continue
            if waiter.state in states.TRANSITIONAL:
                in_state.setdefault(waiter.state, {})[waiter.node] = None
            if waiter.due <= now + self._intervals.together:
                due.append(waiter)
        for state in dict.fromkeys(waiter.state for waiter in due):
            if state in in_state and self._is_worth_a_list(state, len(in_state[state])):
                # The list is sent anyway, so it serves all in that state.
                self._queue_list(PollRequest(state=state, expected=in_state[state]))
        alone = dict.fromkeys(waiter.node for waiter in due if not self._is_busy(waiter))
        # A node whose requests fail again and again must not delay the others.
        requests = [PollRequest(node=node, waiting=self._waiting) for node in alone]
        for request in sorted(requests, key=lambda request: request.failures() > PATIENT_FOR):
            self._queue_get(request)

    def _is_worth_a_list(self, state: str, awaited: int) -> bool:
        """Whether a list costs less than reading the awaited nodes one by one."""
        if awaited < 2:
            return False
        size, when = self._listed.get(state, (0, 0.0))
        return size <= awaited * _ROWS_FOR_A_GET or self._clock() >= when + _CROWD_REMEMBERED

    def _queue_list(self, request: PollRequest) -> None:
        assert request.state is not None
        self._lists[request.state] = request
        self._listing.add(request.state)

    def _queue_get(self, request: PollRequest) -> None:
        assert request.node is not None
        self._gets[request.node] = request
        self._busy.add(request.node)

    # -- asking: without the lock ---------------------------------------------

    def ask(self, request: PollRequest) -> list[Node] | Exception:
        """Send the request.

        :returns: the nodes that it shows, or why there is no answer.
        """
        return request.answer(self._source, self._node_filter)

    def land(self, request: PollRequest, answer: list[Node] | Exception) -> None:
        """Take the answer of a request, and wake the waiters of the time when it began.

        Later waiters are left out: it may show the node as it was before their own request.
        """
        with self._lock:
            if request not in self._under_way:
                return
            del self._under_way[request]
            if isinstance(answer, Exception):
                log = self._failed(request, answer)
            else:
                log = self._answered(request, answer)
        log()

    def end_all(self, error: Exception) -> None:
        """End all waits, and forget what is under way."""
        with self._lock:
            for waiter in self.waiters:
                waiter.error = error
                waiter.woken.notify()
            for kept in (self.waiters, self._lists, self._gets, self._under_way, self._parked):
                kept.clear()
            self._listing.clear()
            self._busy.clear()

    # -- what a look brought: with the lock held ------------------------------

    def _answered(self, request: PollRequest, nodes: list[Node]) -> Callable[[], None]:
        current_time = self._clock()
        self._breaker.answered()
        took = current_time - request.began
        self._usual[request.kind] = max(took, self._usual.get(request.kind, 0.0) * _REMEMBERED)
        if request.node is not None:
            node = nodes[0] if nodes else None
            self._saw(request, request.node, node)
            self._release(request, node)
        elif request.state is not None:
            self._listed[request.state] = len(nodes), current_time
            # One that can't be read is asked for by itself.
            readable = [node for node in nodes if not node.malformed]
            shown = {node.uuid: node for node in readable if node.uuid in request.waiting}
            departed = self._left(request, shown)
            for uuid, shown_node in shown.items():
                self._saw(request, uuid, shown_node, served=len(shown))
            if departed and request.cohort is None:
                self._hasten(request, shown)
            self._release(request, left=departed)
        recovered = self._breaker.has_logged and not any(w.failures for w in self.waiters)
        return self._breaker.log_recovery if recovered else lambda: None

    def _left(self, request: PollRequest, shown: Collection[str]) -> dict[str, None]:
        """The nodes that a list should have shown; they are in another state now."""
        departed: dict[str, None] = {}
        # Another request may have shown the node's new state.
        state = None if request.cohort is not None else request.state
        for uuid in request.expected:
            waiters = [waiter for waiter in request.waiting.get(uuid, ()) if waiter.state == state]
            if uuid not in shown:
                departed[uuid] = None
                for waiter in waiters:
                    waiter.state = None
                    # Unless another list that is under way shows them sooner.
                    waiter.due = self._clock() + self._intervals.together
        return departed

    def _saw(self, request: PollRequest, uuid: str, node: Node | None, *, served: int = 1) -> None:
        queued = self._gets.pop(uuid, None)
        if queued is not None:
            self._release(queued, node)
        for waiter in request.waiting[uuid]:
            if request.began < waiter.seen_at:
                # A request that began later was answered sooner.
                continue
            if not waiter.polls or node != waiter.seen:
                # A waiter that has seen just that need not wake up.
                waiter.unread = True
                waiter.woken.notify()
            late = self._clock() - min(waiter.due, request.began)
            waiter.seen = node
            waiter.seen_at = request.began
            waiter.state = node.provision_state if node is not None else None
            waiter.polls += 1
            waiter.pace += 1
            waiter.failures = 0
            waiter.refused_since = None
            waiter.last_error = None
            pause = self._intervals.pause(waiter.pace, waiter.patience, served=served, late=late)
            self._schedule(waiter, pause)

    def _hasten(self, request: PollRequest, remain: Collection[str]) -> None:
        """Poll the few remaining nodes soon when others have left their state.

        Nodes that were deployed together end together, and the last one would wait longest.
        """
        remaining = [uuid for uuid in request.expected if uuid in remain]
        if len(remaining) > _FEW:
            return
        for waiter in (waiter for uuid in remaining for waiter in request.waiting[uuid]):
            if waiter.pace > 1 and not waiter.failures:
                waiter.pace = 1
                due = waiter.due
                pause = self._intervals.pause(1, waiter.patience, served=len(remaining))
                self._schedule(waiter, pause)
                waiter.due = min(due, waiter.due)

    def _failed(self, request: PollRequest, error: Exception) -> Callable[[], None]:
        """Schedule the waiters again, or end their waits if waiting can't help."""
        waiters = request.waiters()
        held = self._breaker.failed(request, waiters, error)
        for waiter in waiters:
            self._schedule(waiter, self._breaker.pause(request, waiter.failures, error))
        pause = min((waiter.due for waiter in waiters), default=0.0) - self._clock()
        self._release(request)
        if held:
            # The queued requests would fail too, each after its own timeout.
            for other in [*self._lists.values(), *self._gets.values()]:
                self._drop(other)
        given_up = self._breaker.given_up(waiters, list(self.waiters), error)
        for waiter in given_up:
            waiter.error = error
            waiter.woken.notify()
        if given_up:
            return lambda: self._breaker.log_end(request, len(given_up), error)
        return lambda: self._breaker.log_failure(request, len(waiters), pause, error)

    # -- those that go on together: with the lock held ------------------------

    def _release(
        self, request: PollRequest, node: Node | None = None, left: dict[str, None] | None = None
    ) -> None:
        """End a request, and go on with the nodes that left a state with it.

        :param node: the node that a GET has shown.
        :param left: the nodes that a list has not shown.
        """
        if request.node is not None:
            self._busy.discard(request.node)
        if request.state is not None:
            self._listing.discard(request.state)
        cohort = request.cohort
        if request.state is not None and cohort is not None:
            self._busy.difference_update(request.expected)
        if left and request.state is not None:
            listed = {request.state, *(cohort.listed if cohort is not None else ())}
            self._parked.append(Cohort(left, listed))
        elif cohort is not None and request.node is not None:
            self._follow(cohort, node)
        if not self._listing:
            parked, self._parked = self._parked, []
            for each in parked:
                self._send_probe(each)

    def _send_probe(self, cohort: Cohort) -> None:
        """Read one of the nodes that left a state; the others wait for its answer."""
        away = [uuid for uuid in cohort.nodes if self._is_away(uuid)]
        if not away:
            return
        cohort.nodes = dict.fromkeys(away[1:])
        self._busy.update(cohort.nodes)
        self._queue_get(PollRequest(node=away[0], cohort=cohort, waiting=self._waiting))

    def _is_away(self, uuid: str) -> bool:
        """Whether the node's state is not known, and no request for it is queued."""
        waiters = self._waiting.get(uuid, ())
        return uuid not in self._busy and any(
            waiter.state is None and waiter in self.waiters for waiter in waiters
        )

    def _follow(self, cohort: Cohort, probe: Node | None) -> None:
        """Look for the others in the state of the probe."""
        self._busy.difference_update(cohort.nodes)
        others = dict.fromkeys(uuid for uuid in cohort.nodes if self._is_away(uuid))
        state = probe.provision_state if probe is not None else None
        if (
            state in states.TRANSITIONAL
            and state not in cohort.listed | self._listing
            and self._is_worth_a_list(state, len(others))
        ):
            self._busy.update(others)
            self._queue_list(PollRequest(state=state, expected=others, cohort=cohort))
            return
        for uuid in others:
            self._queue_get(PollRequest(node=uuid, waiting=self._waiting))

    def _drop(self, request: PollRequest) -> None:
        """Remove a queued request; its waiters stay due."""
        self._lists.pop(request.state or "", None)
        self._gets.pop(request.node or "", None)
        self._listing.discard(request.state or "")
        self._busy.difference_update(request.nodes)
        if request.cohort is not None:
            self._busy.difference_update(request.cohort.nodes)

    def _schedule(self, waiter: Waiter, pause: float) -> None:
        current_time = self._clock()
        waiter.due = current_time + pause
        if waiter.deadline is None or waiter.due < waiter.deadline:
            return
        # The next poll would come too late: one shortly before the end instead.
        remaining = waiter.deadline - current_time
        if remaining > _LAST_POLL or not (waiter.polls or waiter.failures):
            waiter.due = waiter.deadline - min(_LAST_POLL, remaining) / 2
