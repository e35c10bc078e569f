# SPDX-License-Identifier: Apache-2.0

"""Waiting for nodes: any number of callers, one poll.

:meth:`Watcher.wait` blocks its caller until a node is as wanted, the deadline
has come, the wait is no longer wanted, or the watcher stops, whichever is
first.  The last three don't depend on Ironic: they are kept while it hangs.

Two kinds of threads.  A caller's own thread runs its ``until`` and ``abort``,
without any lock held.  The pollers, daemon threads that live while there are waiters,
send all requests (:mod:`ironic_virt.baremetal.waiting.poll`), each one at a time, and of
the callers' functions they call ``node_filter`` alone.  While one of them waits for
Ironic's answer another serves the waiters that become due; no more than one sleeps.  One
lock guards all that both kinds touch; it is not held during a request or a caller's
function.

What a wait is for, and what to do when it ends, is the caller's affair.
"""

from __future__ import annotations

import contextlib
import math
import random
import threading
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from oslo_log import log as logging

from ironic_virt import exceptions
from ironic_virt.baremetal.node import Node
from ironic_virt.baremetal.node_filter import NodeFilter
from ironic_virt.baremetal.waiting.intervals import SHORTEST_INTERVAL, PollIntervals
from ironic_virt.baremetal.waiting.poll import MOST_REQUESTS, Poll
from ironic_virt.baremetal.waiting.waiters import PollRequest, Source, Waiter

LOG = logging.getLogger(__name__)

T = TypeVar("T")

PATIENCE = 2.0
"""How many intervals late the end of a wait may be seen, unless it allows more."""


def _pause(condition: threading.Condition, seconds: float | None) -> None:
    condition.wait(seconds)


class Watcher:
    """Waits for nodes on behalf of any number of threads.

    :param client: sends the requests.  The watcher repeats a failed one, so a client without
        retries is best: while it retries, others wait.
    :param node_filter: this service's nodes; lists are restricted to them, the read of
        a single node is not.
    :param interval: seconds: the unit of the pauses between two polls of a node, and
        the longest time between two calls of ``abort``.
    :param clock: a monotonic clock in seconds.
    :param rng: the source of jitter.
    :param pause: waits on a condition, whose lock is held, until it is notified or a
        number of seconds of ``clock`` have passed (``None``: no limit); may return
        early.
    :param while_waiting: a block in which a wait takes place, given the instance's uuid.
    """

    def __init__(
        self,
        client: Source,
        *,
        node_filter: Callable[[], NodeFilter],
        interval: float,
        clock: Callable[[], float] = time.monotonic,
        rng: random.Random | None = None,
        pause: Callable[[threading.Condition, float | None], None] = _pause,
        while_waiting: Callable[[str | None], contextlib.AbstractContextManager[object]] = (
            contextlib.nullcontext
        ),
    ) -> None:
        self._interval = max(interval, SHORTEST_INTERVAL)
        self._clock = clock
        self._pause = pause
        self._while_waiting = while_waiting
        self._lock = threading.Lock()
        self._work = threading.Condition(self._lock)
        self._pollers = 0
        self._one_sleeps = False
        self._is_short = False
        self._stopped = False
        intervals = PollIntervals(interval, rng or random.Random())
        self._poll = Poll(client, node_filter, intervals, clock, self._lock)

    def wait(
        self,
        node_uuid: str,
        until: Callable[[Node | None], T | None],
        *,
        what: str,
        timeout: float,
        instance: str | None = None,
        state: str | None = None,
        abort: Callable[[], str | None] | None = None,
        patience: float = PATIENCE,
    ) -> T:
        """Block until the node is as wanted.

        :param until: given the node as it was at a time after this call began,
            with the fields of :data:`waiters.FIELDS` at least, all of them unless
            it is in a transitional state, or ``None`` if Ironic has no such node.
            Anything but ``None`` ends the wait and is returned; an error ends the
            wait with that error.  It is asked again only about a node that has
            changed, so its answer must depend on the node alone.  It may miss states
            that last for less than it takes.
        :param what: what is waited for; continues "waiting to".
        :param timeout: seconds; 0: no limit.
        :param instance: the instance's uuid, for errors.
        :param state: the node's provision state, if known; saves a request.
        :param abort: returns why the wait is no longer wanted, or ``None``.  Called at
            once, and at least every ``interval`` seconds.
        :param patience: how many intervals late the end may be seen at most, while
            Ironic answers.
        :raises WaitTimeout: the deadline has come.
        :raises BuildAborted: ``abort`` gave a reason.
        :raises WaitCancelled: the watcher stops.
        :raises IronicUnauthorized, MicroversionNotSupported: Ironic has refused all
            requests for a minute.
        """
        began = self._clock()
        waiter = Waiter(
            node=node_uuid,
            woken=threading.Condition(self._lock),
            state=state,
            deadline=began + timeout if timeout else None,
            patience=patience,
        )
        with self._while_waiting(instance), self._joined(waiter):
            while True:
                if waiter.error is not None:
                    raise exceptions.copy_of(waiter.error)
                if self._stopped:
                    raise exceptions.WaitCancelled(
                        node_uuid, instance, f"waiting to {what} was given up: the service stops"
                    )
                if waiter.unread:
                    with self._lock:
                        node, waiter.unread = waiter.seen, False
                    if (result := until(node)) is not None:
                        return result
                if abort is not None and (reason := abort()) is not None:
                    raise exceptions.BuildAborted(node_uuid, instance, reason)
                current_time = self._clock()
                if waiter.deadline is not None and current_time >= waiter.deadline:
                    raise exceptions.WaitTimeout(
                        node_uuid, instance, what, current_time - began, _last_seen(waiter)
                    )
                self._sleep(waiter, current_time + self._interval if abort is not None else None)

    def stop(self) -> None:
        """End all waits, and every later one, with :class:`WaitCancelled`.

        Returns at once; a request that is under way ends in its own time.
        """
        with self._lock:
            self._stopped = True
            for waiter in self._poll.waiters:
                waiter.woken.notify()

    # -- in a caller's thread -------------------------------------------------

    @contextlib.contextmanager
    def _joined(self, waiter: Waiter) -> Iterator[None]:
        try:
            self._join(waiter)
            yield
        finally:
            with self._lock:
                self._poll.waiters.pop(waiter, None)
                if not self._poll.waiters:
                    self._work.notify()

    def _join(self, waiter: Waiter) -> None:
        with self._lock:
            if self._stopped:
                return
            self._poll.add(waiter)
            # The sleeping poller may sleep until another waiter is due.
            self._work.notify()
            self._have_one_awake()

    def _sleep(self, waiter: Waiter, ask_again: float | None) -> None:
        """Block until the node has changed, the wait ends, or ``ask_again``."""
        with self._lock:
            if not self._pollers:
                self._start_poller()
            if not self._pollers:
                # This host has no thread left: try again soon.
                ask_again = self._clock() + self._interval
            times = [when for when in (waiter.deadline, ask_again) if when is not None]
            wake_at = min(times, default=None)
            while not (waiter.unread or waiter.error or self._stopped):
                remaining = None if wake_at is None else wake_at - self._clock()
                if remaining is not None and remaining <= 0:
                    return
                self._pause(waiter.woken, remaining)

    # -- in the pollers' threads ----------------------------------------------

    def _start_poller(self) -> None:
        """Start one more if this host has a thread left; the lock is held."""
        try:
            threading.Thread(target=self._run, name="ironic-virt-watcher", daemon=True).start()
        except RuntimeError as exc:
            if not self._is_short:
                LOG.warning("[threads-short] Only %d threads poll nodes: %s", self._pollers, exc)
            self._is_short = True
            return
        self._is_short = False
        self._pollers += 1

    def _have_one_awake(self) -> None:
        """Start a poller while there is none, or all wait for answers; the lock is held."""
        if self._one_sleeps or self._pollers >= MOST_REQUESTS or self._poll.next_due() == math.inf:
            return
        self._start_poller()

    def _run(self) -> None:
        while (request := self._next_request()) is not None:
            try:
                self._poll.land(request, self._poll.ask(request))
            except Exception as exc:
                # Our bug: nobody must wait for a poll that has stopped.
                LOG.exception("[unexpected-error] The watcher failed; all waits end")
                self._poll.end_all(exc)

    def _next_request(self) -> PollRequest | None:
        """Sleep until there is a request to send; ``None`` when this poller is not needed."""
        with self._lock:
            while True:
                request = self._poll.take()
                if request is not None:
                    self._have_one_awake()
                    return request
                if self._one_sleeps or not self._poll.waiters:
                    # Under the lock: a later waiter starts the next poller.
                    self._pollers -= 1
                    # The last answer may make a waiter due sooner.
                    self._work.notify()
                    return None
                due = self._poll.next_due()
                self._one_sleeps = True
                self._pause(self._work, None if due == math.inf else max(due - self._clock(), 0))
                self._one_sleeps = False


def _last_seen(waiter: Waiter) -> str:
    if not waiter.polls:
        seen = "the node was not seen yet"
    elif waiter.seen is None:
        seen = "Ironic had no such node"
    else:
        seen = waiter.seen.states
    return (
        f"{seen}; since then the requests failed: {waiter.last_error}"
        if waiter.last_error
        else seen
    )
