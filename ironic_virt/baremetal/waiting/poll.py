# SPDX-License-Identifier: Apache-2.0

"""How few requests answer all who wait for a node: what is asked next, and when.

Waiters are plain data.  One list serves those in a transitional provision state in
which two or more nodes are waited for, and a single GET every other node, those that
left such a state included.  A state that is crowded with nodes that nobody here waits
for is not listed either.

Looks run side by side, so many at most, and each has a deadline of its own: one that
hangs holds up nobody else.  While Ironic answers none, one looks whether it is back.

No threads and no sleep here, and one lock, the caller's: it guards the set of
waiters and their fields, and is never held while Ironic is asked.  Any thread may
:meth:`take <Poll.take>` a look, make it and bring its answer.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Collection

import msgspec

from ironic_virt import exceptions
from ironic_virt.baremetal import states
from ironic_virt.baremetal.node import Node
from ironic_virt.baremetal.node_filter import NodeFilter
from ironic_virt.baremetal.waiting.circuit_breaker import PATIENT_FOR, Trouble
from ironic_virt.baremetal.waiting.intervals import Rhythm
from ironic_virt.baremetal.waiting.looks import FIELDS, Company, Look, Source, Waiter

MOST_LOOKS = 8
"""So many requests at most are under way at the same time."""

_FEW = 6
_LAST_LOOK = 1.0

_ROWS_FOR_A_GET = 30
"""As many nodes in a list cost Ironic about as much as a request for one.

Ironic 39.0.0 on SQLite, without authentication: 0.22 and 6.8 ms of processor time.
"""

_CROWD_REMEMBERED = 60.0
"""Seconds until a state that was too crowded to be listed is listed again, to see."""

_REMEMBERED = 0.8
"""The share of the usual time of a look that stays when one was quicker."""


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
        self._trouble = Trouble(rhythm, clock)
        self._planned_at = float("-inf")
        # Node to its waiters, as of the last plan.
        self._waiting: dict[str, list[Waiter]] = {}
        # What is to be asked, by state and by node, and what is being asked.
        self._lists: dict[str, Look] = {}
        self._gets: dict[str, Look] = {}
        self._under_way: dict[Look, None] = {}
        # States and nodes that are about to be asked for.
        self._listing: set[str] = set()
        self._busy: set[str] = set()
        # Those that left a state while other lists, which may show them, are not answered.
        self._parked: list[Company] = []
        # State to how many nodes its last list held, and when that was.
        self._listed: dict[str, tuple[int, float]] = {}
        # The seconds that a look takes, by its kind.
        self._usual: dict[str, float] = {}

    # -- what is next: with the lock held -------------------------------------

    def add(self, waiter: Waiter) -> None:
        """Begin to look at a waiter's node.  The caller holds the lock."""
        if not self.waiters:
            # What went wrong for those before tells nothing of now.
            self._trouble = Trouble(self._rhythm, self._clock)
        self._schedule(waiter, self._rhythm.pause(0, waiter.patience))
        self.waiters[waiter] = None

    def next_due(self) -> float:
        """When to take a look, should no answer come before.  The caller holds the lock."""
        if len(self._under_way) >= self._width:
            return math.inf
        due = [waiter.due for waiter in self.waiters if not self._is_busy(waiter)]
        if self._lists or self._gets:
            due.append(self._clock())
        return max(min(due, default=math.inf), self._trouble.held_until)

    def take(self) -> Look | None:
        """What to ask now; ``None``: nothing.  The caller holds the lock, and asks without."""
        now = self._clock()
        if len(self._under_way) >= self._width or now < self._trouble.held_until:
            return None
        if not (self._lists or self._gets) or now >= self._planned_at + self._rhythm.together:
            self._plan(now)
        while self._lists or self._gets:
            queue = self._lists or self._gets
            look = queue.pop(next(iter(queue)))
            look.waiting = self._waiting
            if any(waiter in self.waiters for waiter in look.waiters()):
                look.began = now
                look.timeout = self._timeout(look)
                self._under_way[look] = None
                return look
            self._release(look)
        return None

    def _timeout(self, look: Look) -> float:
        failures = self._trouble.weighed(look.failures())
        return self._rhythm.timeout(failures, self._usual.get(look.kind))

    @property
    def _width(self) -> int:
        return 1 if self._trouble.lasts else MOST_LOOKS

    def _is_busy(self, waiter: Waiter) -> bool:
        return waiter.node in self._busy or waiter.state in self._listing

    def _plan(self, now: float) -> None:
        """Queue the looks at all nodes that are due, and at those that nearly are."""
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
            if waiter.due <= now + self._rhythm.together:
                due.append(waiter)
        for state in dict.fromkeys(waiter.state for waiter in due):
            if state in in_state and self._is_worth_a_list(state, len(in_state[state])):
                # The list is sent anyway, so all in that state profit.
                self._queue_list(Look(state=state, expected=in_state[state]))
        alone = dict.fromkeys(waiter.node for waiter in due if not self._is_busy(waiter))
        # A node that fails again and again must not keep the others waiting.
        looks = [Look(node=node, waiting=self._waiting) for node in alone]
        for look in sorted(looks, key=lambda look: look.failures() > PATIENT_FOR):
            self._queue_get(look)

    def _is_worth_a_list(self, state: str, awaited: int) -> bool:
        """Whether a list costs less than asking for so many nodes one by one."""
        if awaited < 2:
            return False
        size, when = self._listed.get(state, (0, 0.0))
        return size <= awaited * _ROWS_FOR_A_GET or self._clock() >= when + _CROWD_REMEMBERED

    def _queue_list(self, look: Look) -> None:
        assert look.state is not None
        self._lists[look.state] = look
        self._listing.add(look.state)

    def _queue_get(self, look: Look) -> None:
        assert look.node is not None
        self._gets[look.node] = look
        self._busy.add(look.node)

    # -- asking: without the lock ---------------------------------------------

    def ask(self, look: Look) -> list[Node] | Exception:
        """Send the request.

        :returns: the nodes that it shows, or why there is no answer.
        """
        try:
            source = self._source.within(look.timeout)
            if look.node is not None:
                return [source.get_node(look.node)]
            where = msgspec.structs.replace(self._node_filter(), provision_state=look.state)
            return source.list_nodes(where, fields=FIELDS)
        except exceptions.NodeNotFound as exc:
            return [] if look.node is not None else exc
        except Exception as exc:
            return exc

    def land(self, look: Look, answer: list[Node] | Exception) -> None:
        """Take what a look has brought, and tell those who waited when it began.

        Not those who came later: it may show the node as it was before their own request.
        """
        with self._lock:
            if look not in self._under_way:
                return
            del self._under_way[look]
            if isinstance(answer, Exception):
                tell = self._failed(look, answer)
            else:
                tell = self._answered(look, answer)
        tell()

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

    def _answered(self, look: Look, nodes: list[Node]) -> Callable[[], None]:
        now = self._clock()
        self._trouble.answered()
        took = now - look.began
        self._usual[look.kind] = max(took, self._usual.get(look.kind, 0.0) * _REMEMBERED)
        if look.node is not None:
            node = nodes[0] if nodes else None
            self._saw(look, look.node, node)
            self._release(look, node)
        elif look.state is not None:
            self._listed[look.state] = len(nodes), now
            # One that can't be read is asked for by itself.
            found = [node for node in nodes if not node.malformed]
            shown = {node.uuid: node for node in found if node.uuid in look.waiting}
            left = self._left(look, shown)
            for uuid, one in shown.items():
                self._saw(look, uuid, one, served=len(shown))
            if left and look.company is None:
                self._hasten(look, shown)
            self._release(look, left=left)
        recovered = self._trouble.was_told and not any(w.failures for w in self.waiters)
        return self._trouble.note_recovery if recovered else lambda: None

    def _left(self, look: Look, shown: Collection[str]) -> dict[str, None]:
        """The nodes that a list should have shown; they have gone on."""
        left: dict[str, None] = {}
        # Another look may have shown where a node is now.
        former = None if look.company is not None else look.state
        for uuid in look.expected:
            waiters = [waiter for waiter in look.waiting.get(uuid, ()) if waiter.state == former]
            if uuid not in shown and any(waiter in self.waiters for waiter in waiters):
                left[uuid] = None
                for waiter in waiters:
                    waiter.state = None
                    # Unless another list, which is not answered yet, shows them sooner.
                    waiter.due = self._clock() + self._rhythm.together
        return left

    def _saw(self, look: Look, uuid: str, node: Node | None, *, served: int = 1) -> None:
        queued = self._gets.pop(uuid, None)
        if queued is not None:
            self._release(queued, node)
        for waiter in look.waiting.get(uuid, ()):
            if look.began < waiter.seen_at:
                # Another look that began later was answered sooner.
                continue
            if not waiter.looks or node != waiter.seen:
                # Who has seen just that need not wake up to find it again.
                waiter.news = True
                waiter.woken.notify()
            late = self._clock() - min(waiter.due, look.began)
            waiter.seen = node
            waiter.seen_at = look.began
            waiter.state = node.provision_state if node is not None else None
            waiter.looks += 1
            waiter.pace += 1
            waiter.failures = 0
            waiter.refused_since = None
            waiter.trouble = None
            pause = self._rhythm.pause(waiter.pace, waiter.patience, served=served, late=late)
            self._schedule(waiter, pause)

    def _hasten(self, look: Look, remain: Collection[str]) -> None:
        """Look soon at the few that remain where others have left.

        Nodes deployed together end together, and the last one would wait for longest.
        """
        remaining = [uuid for uuid in look.expected if uuid in remain]
        if len(remaining) > _FEW:
            return
        for waiter in (waiter for uuid in remaining for waiter in look.waiting.get(uuid, ())):
            if waiter.pace > 1 and not waiter.failures:
                waiter.pace = 1
                former = waiter.due
                pause = self._rhythm.pause(1, waiter.patience, served=len(remaining))
                self._schedule(waiter, pause)
                waiter.due = min(former, waiter.due)

    def _failed(self, look: Look, error: Exception) -> Callable[[], None]:
        """Have the waiters wait on, or end their waits if that can't help."""
        waiters = look.waiters()
        held = self._trouble.failed(look, waiters, error)
        for waiter in waiters:
            self._schedule(waiter, self._trouble.pause(look, waiter.failures, error))
        pause = min((waiter.due for waiter in waiters), default=0.0) - self._clock()
        self._release(look)
        if held:
            # What remains would fail too, each request after its own timeout.
            for other in [*self._lists.values(), *self._gets.values()]:
                self._drop(other)
        hopeless = self._trouble.hopeless(waiters, list(self.waiters), error)
        for waiter in hopeless:
            waiter.error = error
            waiter.woken.notify()
        if hopeless:
            return lambda: self._trouble.tell_of_end(look, len(hopeless), error)
        return lambda: self._trouble.tell(look, len(waiters), pause, error)

    # -- those that go on together: with the lock held ------------------------

    def _release(
        self, look: Look, node: Node | None = None, left: dict[str, None] | None = None
    ) -> None:
        """Have a look over, and go on with the nodes that left a state with it.

        :param node: what a GET has shown.
        :param left: what a list has not shown.
        """
        if look.node is not None:
            self._busy.discard(look.node)
        if look.state is not None:
            self._listing.discard(look.state)
            self._busy.difference_update(look.expected)
        company = look.company
        if left and look.state is not None:
            listed = {look.state, *(company.listed if company is not None else ())}
            self._parked.append(Company(left, listed))
        elif company is not None and look.node is not None:
            self._follow(company, node)
        if not self._listing:
            parked, self._parked = self._parked, []
            for each in parked:
                self._send_scout(each)

    def _send_scout(self, company: Company) -> None:
        """Ask for one of those that left a state; the others wait for what it shows."""
        away = [uuid for uuid in company.nodes if self._is_away(uuid)]
        if not away:
            return
        company.nodes = dict.fromkeys(away[1:])
        self._busy.update(company.nodes)
        self._queue_get(Look(node=away[0], company=company, waiting=self._waiting))

    def _is_away(self, uuid: str) -> bool:
        """Whether nobody knows where the node is, and nobody asks yet."""
        waiters = self._waiting.get(uuid, ())
        return uuid not in self._busy and any(
            waiter.state is None and waiter in self.waiters for waiter in waiters
        )

    def _follow(self, company: Company, scout: Node | None) -> None:
        """Where one of them is now, the others probably are."""
        self._busy.difference_update(company.nodes)
        others = dict.fromkeys(uuid for uuid in company.nodes if self._is_away(uuid))
        state = scout.provision_state if scout is not None else None
        if (
            state in states.TRANSITIONAL
            and state not in company.listed | self._listing
            and self._is_worth_a_list(state, len(others))
        ):
            self._busy.update(others)
            self._queue_list(Look(state=state, expected=others, company=company))
            return
        for uuid in others:
            self._queue_get(Look(node=uuid, waiting=self._waiting))

    def _drop(self, look: Look) -> None:
        """Don't ask it; who is due is asked for later."""
        self._lists.pop(look.state or "", None)
        self._gets.pop(look.node or "", None)
        self._listing.discard(look.state or "")
        self._busy.difference_update(look.nodes)
        if look.company is not None:
            self._busy.difference_update(look.company.nodes)

    def _schedule(self, waiter: Waiter, pause: float) -> None:
        now = self._clock()
        waiter.due = now + pause
        if waiter.deadline is None or waiter.due < waiter.deadline:
            return
        # The next look would come too late: one shortly before the end instead.
        remaining = waiter.deadline - now
        if remaining > _LAST_LOOK or not (waiter.looks or waiter.failures):
            waiter.due = waiter.deadline - min(_LAST_LOOK, remaining) / 2
