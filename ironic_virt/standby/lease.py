# SPDX-License-Identifier: Apache-2.0

"""The lease of a compute service's host name: who holds it is active, all others wait.

:meth:`Lease.wait` returns when this process is active.  From then on a thread renews the
lease, and a second one watches that this succeeds in time, because a request to the backend
may hang.  :meth:`Lease.sending` is around each request to Ironic, and :meth:`Lease.may_change`
is asked before each change that is sent.

A process that has lost its lease exits at once with :attr:`.ExitCode.LEASE_LOST`, by
``os._exit``, since nothing else ends waits and threads of others for sure.  Until then a thread
that is about to send a change comes to a halt: an error would put its server into ERROR.  So does
a process that no longer reaches Ironic or the broker, while one that waits does.

The two threads are native ones also under eventlet, where one that blocks stops all others.  So
what they share with others is protected by native locks, which are held for moments only.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Protocol

from oslo_log import log as logging

from ironic_virt import exceptions, logs
from ironic_virt.exit_codes import ExitCode
from ironic_virt.standby.note import Note
from ironic_virt.standby.timing import Timing, boottime, native_threading

if TYPE_CHECKING:
    from ironic_virt.standby.backend import ToozLock

LOG = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
"""Between two attempts to get the lease."""

RELEASE_SECONDS, LAST_WORDS_SECONDS = 3.0, 1.0
"""For giving the lease back, which expires otherwise, and for the log of a process that ends."""

RECENT_SECONDS, ACTIVE_SECONDS = 30.0, 600.0
"""What was reached in that time is reached; who has become active keeps the lease for so long."""

_TOO_LATE = "it could not be renewed in time"


class Reach(Protocol):
    """What the work of this process needs."""

    def begin(self, threads: Any) -> None:
        """Look again and again from now on, in threads of a module."""

    def lacks(self, seconds: float) -> str:
        """The names of what was not reached for so long."""


class Lease:
    """One process's part in it.  Thread-safe, but for :meth:`wait`, which is called once.

    :param reach: what the work needs; ``None``: nobody looks.
    :param patience: seconds without it, after which another process may have the lease.
    :param clock: seconds; also goes on while the process is stopped.
    :param leave: ends the process with an exit code.
    :param sleep: waits for so many seconds.
    :param halt: does not return.
    :ivar was_standby: this process has waited for another one, which may have left much behind.
    :ivar foreign_reports: how often another process was seen to serve this host name of late.
    """

    def __init__(
        self,
        lock: ToozLock,
        timing: Timing,
        reach: Reach | None = None,
        patience: float = 0.0,
        *,
        clock: Callable[[], float] = boottime,
        leave: Callable[[int], object] = os._exit,
        sleep: Callable[[float], object] = time.sleep,
        halt: Callable[[], object] = lambda: threading.Event().wait(),
    ) -> None:
        self._lock = lock
        self._timing = timing
        self._reach = reach
        self._patience = max(patience, RECENT_SECONDS)
        self._clock = clock
        self._leave = leave
        self._sleep = sleep
        self._halt = halt
        self._host = self._over = ""
        self._is_lost = self._handing_over = self.was_standby = False
        self._renewed_at: float | None = None
        self._told_at: float | None = None
        self._settled_at = 0.0
        self._threading = native_threading()
        self._mutex = self._threading.Lock()
        self._under_way = 0
        self._idle = self._threading.Condition(self._mutex)
        self._stopped = self._threading.Event()
        self._note = Note.of_this_process(active=False)
        self._noted: Note | None = None
        self._note_due = 0.0
        self.foreign_reports = 0

    @property
    def holds(self) -> bool:
        """Whether this process is active: it holds the lease, and may send changes."""
        return self._remaining() > 0 and self._settling() <= 0

    def age(self) -> float | None:
        """Seconds since the lease was last renewed; ``None``: this process waits for it."""
        return None if self._renewed_at is None else self._clock() - self._renewed_at

    @property
    def is_over(self) -> bool:
        """Whether the lease was lost or given back, or is being handed over."""
        return bool(self._over) or self._handing_over

    def may_change(self) -> float:
        """Return if a change may be sent now; else the process ends, and this does not return.

        :returns: seconds after which another process may send changes.
        :raises LeaseLost: the lease was given back, or this process doesn't hold it yet.
        """
        seconds = self._remaining()
        if seconds > 0 and self._settling() <= 0:
            return seconds + self._timing.margin
        if seconds <= 0 and self._renewed_at is not None:
            self._lose(_TOO_LATE)
            if self._is_lost:
                self._halt()
        raise exceptions.LeaseLost(self._over or "this process does not hold it yet")

    def may_begin(self) -> None:
        """Return if a user's request may be taken; in a process that has to end it does not."""
        if self._is_lost:
            self._halt()
        # One that was given back is in order: the service is being stopped.
        with contextlib.suppress(exceptions.LeaseLost):
            self.may_change()

    @contextlib.contextmanager
    def sending(self, change: bool) -> Iterator[None]:
        """Hold the lease for the time of one request to Ironic.

        Once it is being handed over this does not return.

        :param change: the request changes something.
        :raises LeaseLost: see :meth:`may_change`.
        """
        with self._mutex:
            is_ending = self._handing_over
            self._under_way += not is_ending
        if is_ending:
            self._halt()
        try:
            if change:
                self.may_change()
            yield
        finally:
            with self._mutex:
                self._under_way -= not is_ending
                self._idle.notify_all()

    def _remaining(self) -> float:
        """Seconds until the lease is lost if it isn't renewed."""
        age = self.age()
        return 0.0 if self._over or age is None else self._timing.valid - age

    def _settling(self) -> float:
        """Seconds until the former holder can't send anything any more."""
        return self._settled_at - self._clock()

    def wait(self, host: str, waiting: Callable[[], object] = lambda: None) -> None:
        """Return when this process is the active one of its host name.

        :param waiting: called about once a second meanwhile.
        :raises LeaseLost: it was lost at once, and this process ends.
        """
        LOG.info("Asking for the lease of %s", host)
        if self._reach is not None:
            self._reach.begin(self._threading)
        timer = logs.OutageTimer(clock=self._clock)
        while self._defers() or not self.take(host):
            self.was_standby = True
            waiting()
            self._write_note()
            if self._told_at is None and timer.failed() is not None:
                holders = [f", which is held by {note}" for note in self._notes() if note.active]
                LOG.info("Standby: waiting for the lease of %s%s", host, "".join(holders[:1]))
            self._sleep(LOOK_SECONDS)
        self._start_thread(self.renew_again, "lease-renew")
        self._start_thread(self.watch_renewals, "lease-watch")
        while (seconds := self._settling()) > 0:
            waiting()
            self._sleep(min(seconds, LOOK_SECONDS))
        self.may_change()
        self._note = Note.of_this_process(active=True)
        LOG.info("This process holds the lease of %s and is active", host)

    def take(self, host: str) -> bool:
        """Try once to get the lease."""
        self._host = host
        began = self._clock()
        try:
            if self._lock.acquire(host):
                self._settled_at = self._clock() + self._timing.settle
                self._renewed_at = began
                if self._remaining() <= 0:
                    # The answer has come too late.
                    self._renewed_at = None
                    self._lock.release()
            self._recovered()
        except exceptions.StandbyBackendFailed as error:
            self._failed(error, "Waiting for it")
        return self._renewed_at is not None

    def renew_again(self) -> None:
        """Renew the lease until it is lost or given back; the renewing thread."""
        while not self._stopped.wait(self._timing.renew):
            self.renew()

    def renew(self) -> None:
        """Renew the lease once, or end the process."""
        began = self._clock()
        try:
            is_ours = self._lock.renew()
        except exceptions.StandbyBackendFailed as error:
            seconds = max(self._remaining(), 0)
            self._failed(error, f"This process ends if it stays away for {seconds:.0f} s")
            return
        with self._mutex:
            if self._over:
                return
            # Beyond that time nothing is known of who had it in between.
            if is_in_time := is_ours and self._remaining() > 0:
                self._renewed_at = began
        if is_in_time:
            self._recovered()
            self._write_note()
            self._hand_over_if_cut_off()
        else:
            self._lose(_TOO_LATE if is_ours else "it has expired, or another process has it")

    def watch_renewals(self) -> None:
        """End the process when the lease has not been renewed in time; the watching thread."""
        while (seconds := self._remaining()) > 0:
            if self._stopped.wait(min(seconds, LOOK_SECONDS)):
                return
        self._lose(_TOO_LATE)

    def hand_over(self) -> None:
        """Give the lease to the next process, although actions of this one may go on.

        Each halts at its next request to Ironic.  One that is under way is waited for.
        """
        with self._mutex:
            self._handing_over = True
        # A backend that is away may be tried for minutes.
        thread = self._start_thread(self._release, "lease-end")
        for _ in range(int(RELEASE_SECONDS / 0.1)):
            thread.join(0.05)
            if not thread.is_alive():
                break
            # Under eventlet, the requests that it waits for go on meanwhile.
            self._sleep(0.05)

    def _hand_over_if_cut_off(self) -> None:
        """End, if this process lacks what one that waits has."""
        if self._reach is None or self._clock() - self._settled_at < ACTIVE_SECONDS:
            return
        lacks = self._reach.lacks(self._patience)
        if lacks and not self.is_over and any(note.could_serve for note in self._notes()):
            self._is_lost = True
            self.hand_over()
            self._end(
                lambda: LOG.error(
                    "[lease-handed-over] This process has not reached %s for %d s, and one that "
                    "waits does: it gets the lease of %s. This process ends with exit code %d",
                    *(lacks, self._patience, self._host, ExitCode.LEASE_LOST),
                )
            )

    def _release(self) -> None:
        with self._mutex:
            self._idle.wait_for(lambda: not self._under_way)
            if self._over or self._renewed_at is None:
                return
            self._over = "this process has given it back"
        self._stopped.set()
        try:
            self._lock.release()
            LOG.info("Gave the lease of %s back", self._host)
        except exceptions.StandbyBackendFailed as error:
            self._failed(error, f"The lease of {self._host} was not given back and expires")

    def _lose(self, why: str) -> None:
        with self._mutex:
            if self._over:
                return
            self._over, self._is_lost = why, True
        self._end(
            lambda: LOG.error(
                "[lease-lost] The lease of %s is lost: %s. Nothing more is sent to Ironic, and "
                "this process ends with exit code %d; started again, it is a standby",
                *(self._host, why, ExitCode.LEASE_LOST),
            )
        )

    def _end(self, log: Callable[[], object]) -> None:
        self._stopped.set()
        # The log may block, and without a further thread there are no words.
        with contextlib.suppress(RuntimeError):
            self._start_thread(log, "lease-lost").join(LAST_WORDS_SECONDS)
        self._leave(ExitCode.LEASE_LOST)

    def _start_thread(self, action: Callable[[], object], name: str) -> Any:
        thread = self._threading.Thread(target=action, name=f"ironic-virt-{name}", daemon=True)
        thread.start()
        return thread

    def _write_note(self) -> None:
        lacks = None if self._reach is None else self._reach.lacks(RECENT_SECONDS)
        note = dataclasses.replace(self._note, foreign_reports=self.foreign_reports, lacks=lacks)
        if note == self._noted and self._clock() < self._note_due:
            return
        self._noted, self._note_due = note, self._clock() + self._timing.lock / 3
        with contextlib.suppress(exceptions.StandbyBackendFailed):
            self._lock.write_note(self._host, note, self._timing.lock)

    def _notes(self) -> list[Note]:
        with contextlib.suppress(exceptions.StandbyBackendFailed):
            return self._lock.read_notes(self._host)
        return []

    def _defers(self) -> bool:
        """Whether this process lacks what another one that waits has."""
        lacks = self._noted is not None and self._noted.lacks
        return bool(lacks) and any(note.could_serve for note in self._notes())

    def _failed(self, error: Exception, what_now: str) -> None:
        if self._told_at is None or self._clock() - self._told_at >= logs.REMIND_AFTER:
            self._told_at = self._clock()
            LOG.warning(
                "[lease-backend-failed] The backend of the lease can't be used: %s. %s",
                *(error, what_now),
            )

    def _recovered(self) -> None:
        if self._told_at is not None:
            self._told_at = None
            LOG.info("The backend of the lease answers again")
