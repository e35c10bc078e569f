# SPDX-License-Identifier: Apache-2.0

"""The lease of a compute service's host name: who holds it is active, all others wait.

:meth:`Lease.wait` returns when this process is active.  From then on a thread renews the
lease, and a second one watches that this succeeds in time, because a request to the backend
may hang.  :meth:`Lease.sending` is around each request to Ironic, and :meth:`Lease.may_change`
is asked before each change that is sent.

A lease that was lost is lost for good: the process exits at once with
:attr:`.ExitCode.LEASE_LOST`, by ``os._exit``, since nothing else ends waits and threads of
others for sure.  The log gets a second for that, and may block.  Until then a thread that is
about to send a change comes to a halt: an error would end its action, and its server in ERROR.
Whoever supervises the process starts it again, and it waits as any other standby.

Time is that of ``CLOCK_BOOTTIME``, which also goes on while a process is stopped or a host is
suspended.

The two threads are native ones also under eventlet, where one that blocks stops all others.  So
what they share with others is protected by native locks, which are held for moments only.

Thread-safe, but for :meth:`Lease.wait`, which is called once.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from oslo_log import log as logging

from ironic_virt import exceptions
from ironic_virt.exit_codes import ExitCode
from ironic_virt.standby.note import Note
from ironic_virt.standby.timing import Timing

LOG = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
"""Between two attempts to get the lease."""

TELL_SECONDS = 300.0
"""Between two lines of the log of a process that waits."""

LAST_WORDS_SECONDS = 1.0
"""For the log of a process that ends."""

RELEASE_SECONDS = 3.0
"""For giving the lease back; otherwise it expires."""

_TOO_LATE = "it could not be renewed in time"


def boottime() -> float:
    """Seconds since the host was booted, suspended ones included."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def native_threading() -> Any:
    """Python's own threading, also where eventlet has replaced it."""
    patcher = sys.modules.get("eventlet.patcher")
    if patcher is None or not patcher.is_monkey_patched("thread"):
        return threading
    return patcher.original("threading")


class Lock(Protocol):
    """A lock in a backend that ends by itself if it is not renewed.

    All raise :class:`~ironic_virt.exceptions.StandbyBackendFailed` when the backend gives no
    answer, or one that says nothing about the lock.
    """

    def acquire(self, host: str) -> bool:
        """Try to get the lock of a host name; whether it is this process's now."""

    def renew(self) -> bool:
        """Have it live longer; ``False``: it is not this process's any more."""

    def release(self) -> None:
        """Give it to the next one."""

    def write_note(self, host: str, note: Note, seconds: int) -> None:
        """Keep what this process says of itself, for so many seconds."""

    def notes(self, host: str) -> list[Note]:
        """What processes of a host name say of themselves, the active one first."""


class Lease:
    """One process's part in it.

    :param timing: see :class:`Timing`.
    :param clock: seconds; also goes on while the process is stopped.
    :param leave: ends the process with an exit code.
    :param sleep: waits for so many seconds.
    :param halt: does not return.
    :ivar was_standby: this process has waited for another one, which may have left much behind.
    :ivar foreign_reports: how often another process was seen to serve this host name meanwhile.
    """

    def __init__(
        self,
        lock: Lock,
        timing: Timing,
        *,
        clock: Callable[[], float] = boottime,
        leave: Callable[[int], object] = os._exit,
        sleep: Callable[[float], object] = time.sleep,
        halt: Callable[[], object] = lambda: threading.Event().wait(),
    ) -> None:
        self._lock = lock
        self._timing = timing
        self._clock = clock
        self._leave = leave
        self._sleep = sleep
        self._halt = halt
        self._host = ""
        self._over = ""
        self._is_lost = False
        self._renewed_at: float | None = None
        self._settled_at = 0.0
        self.was_standby = False
        self._threading = native_threading()
        self._mutex = self._threading.Lock()
        self._backend = self._threading.Lock()
        self._handing_over = False
        self._under_way = 0
        self._idle = self._threading.Condition(self._mutex)
        self._stopped = self._threading.Event()
        self._in_trouble = False
        self._note = Note.of_this_process(active=False)
        self._note_due = 0.0
        self.foreign_reports = 0

    # -- what others read -----------------------------------------------------

    @property
    def holds(self) -> bool:
        """Whether this process is active: it holds the lease, and may send changes."""
        return self._left() > 0 and self._settling() <= 0

    def age(self) -> float | None:
        """Seconds since the lease was last renewed; ``None``: this process waits for it."""
        renewed_at = self._renewed_at
        return None if renewed_at is None else self._clock() - renewed_at

    @property
    def is_over(self) -> bool:
        """Whether the lease was lost or given back, or is being handed over."""
        return bool(self._over) or self._handing_over

    def may_change(self) -> float:
        """Return if a change may be sent now; else the process ends, and this does not return.

        :returns: seconds after which another process may send changes.
        :raises LeaseLost: the lease was given back, or this process is no holder yet.
        """
        left = self._left()
        if left > 0 and self._settling() <= 0:
            return left + self._timing.margin
        if left <= 0 and self._renewed_at is not None:
            self._lose(_TOO_LATE)
            if self._is_lost:
                self._halt()
        raise exceptions.LeaseLost(self._over or "this process does not hold it yet")

    @contextlib.contextmanager
    def sending(self, change: bool) -> Iterator[None]:
        """Hold the lease for the time of one request to Ironic.

        Once it is being handed over this does not return: an action that failed instead would
        put its server into an error.

        :param change: the request changes something.
        :raises LeaseLost: see :meth:`may_change`.
        """
        with self._mutex:
            ending = self._handing_over
            self._under_way += not ending
        if ending:
            self._halt()
        try:
            if change:
                self.may_change()
            yield
        finally:
            with self._mutex:
                self._under_way -= not ending
                self._idle.notify_all()

    def _left(self) -> float:
        """Seconds until the lease counts as lost if it isn't renewed."""
        renewed_at = self._renewed_at
        if self._over or renewed_at is None:
            return 0.0
        return renewed_at + self._timing.valid - self._clock()

    def _settling(self) -> float:
        """Seconds until the former holder can't send anything any more."""
        return self._settled_at - self._clock()

    # -- its life -------------------------------------------------------------

    def wait(self, host: str, waiting: Callable[[], object] = lambda: None) -> None:
        """Return when this process is the active one of its host name.

        A signal that ends the process ends the wait.

        :param waiting: called about once a second meanwhile.
        :raises LeaseLost: it was lost at once, and this process ends.
        """
        LOG.info("Asking for the lease of %s", host)
        told_at: float | None = None
        while not self.take(host):
            self.was_standby = True
            waiting()
            self._write_note()
            if told_at is None or self._clock() - told_at >= TELL_SECONDS:
                told_at = self._clock()
                LOG.info("Standby: waiting for the lease of %s%s", host, self._holder())
            self._sleep(LOOK_SECONDS)
        for name, action in (("renew", self.renew_again), ("watch", self.watch)):
            self._thread(action, f"ironic-virt-lease-{name}").start()
        while (left := self._settling()) > 0:
            waiting()
            self._sleep(min(left, LOOK_SECONDS))
        self.may_change()
        self._note, self._note_due = Note.of_this_process(active=True), 0.0
        LOG.info("This process holds the lease of %s and is active", host)

    def take(self, host: str) -> bool:
        """Try once to get the lease."""
        self._host = host
        began = self._clock()
        try:
            if not self._lock.acquire(host):
                self._recovered()
                return False
            self._recovered()
            self._settled_at = self._clock() + self._timing.settle
            self._renewed_at = began
            if self._left() > 0:
                return True
            # The answer has come too late.
            self._renewed_at = None
            self._lock.release()
        except exceptions.StandbyBackendFailed as error:
            self._failed(error, "Waiting for it")
        return False

    def renew_again(self) -> None:
        """Renew the lease until it is lost or given back; the renewing thread."""
        while not self._stopped.wait(self._timing.renew):
            self.renew()

    def renew(self) -> None:
        """Renew the lease once, or end the process."""
        began = self._clock()
        try:
            with self._backend:
                ours = self._lock.renew()
        except exceptions.StandbyBackendFailed as error:
            self._failed(
                error, f"This process ends if it stays away for {max(self._left(), 0):.0f} s"
            )
            return
        with self._mutex:
            if self._over:
                return
            # Beyond that time nothing is known of who had it in between.
            if in_time := ours and self._left() > 0:
                self._renewed_at = began
        if in_time:
            self._recovered()
            self._write_note()
        else:
            self._lose(_TOO_LATE if ours else "it is not this process's in the backend any more")

    def watch(self) -> None:
        """End the process when the lease has not been renewed in time; the watching thread."""
        while (left := self._left()) > 0:
            if self._stopped.wait(min(left, LOOK_SECONDS)):
                return
        self._lose(_TOO_LATE)

    def release(self) -> None:
        """Give the lease to the next process; called when nothing of this one sends any more."""
        # A backend that is away may be tried for minutes.
        ending = self._thread(self._release, "ironic-virt-lease-end")
        ending.start()
        for _ in range(int(RELEASE_SECONDS / 0.1)):
            ending.join(0.05)
            if not ending.is_alive():
                break
            # Under eventlet, the requests that it waits for go on meanwhile.
            self._sleep(0.05)

    def hand_over(self) -> None:
        """Give the lease to the next process, although actions of this one go on.

        They come to a halt at their next request to Ironic, and end with the process.  The
        lease is kept while a request is under way.
        """
        with self._mutex:
            self._handing_over = True
        self.release()

    def _release(self) -> None:
        with self._mutex:
            self._idle.wait_for(lambda: not (self._handing_over and self._under_way))
            if self._over or self._renewed_at is None:
                return
            self._over = "this process has given it back"
        self._stopped.set()
        try:
            with self._backend:
                self._lock.release()
            LOG.info("Gave the lease of %s back", self._host)
        except exceptions.StandbyBackendFailed as error:
            LOG.warning(
                "[lease-backend-failed] The lease of %s was not given back and expires: %s",
                self._host,
                error,
            )

    def _lose(self, why: str) -> None:
        with self._mutex:
            if self._over:
                return
            self._over, self._is_lost = why, True
        self._stopped.set()
        last_words = self._thread(lambda: self._tell_loss(why), "ironic-virt-lease-lost")
        # Without a further thread there are none.
        with contextlib.suppress(RuntimeError):
            last_words.start()
            last_words.join(LAST_WORDS_SECONDS)
        self._leave(ExitCode.LEASE_LOST)

    def _tell_loss(self, why: str) -> None:
        LOG.error(
            "[lease-lost] The lease of %s is lost: %s. Nothing more is sent to Ironic, and this "
            "process ends with exit code %d; started again, it is a standby",
            *(self._host, why, ExitCode.LEASE_LOST),
        )

    def _thread(self, action: Callable[[], object], name: str) -> Any:
        return self._threading.Thread(target=action, name=name, daemon=True)

    # -- what it says of itself -----------------------------------------------

    def _write_note(self) -> None:
        if self._clock() < self._note_due:
            return
        self._note_due = self._clock() + self._timing.lock
        note = dataclasses.replace(self._note, foreign_reports=self.foreign_reports)
        try:
            with self._backend:
                self._lock.write_note(self._host, note, 3 * self._timing.lock)
        except exceptions.StandbyBackendFailed as error:
            LOG.debug("Not noted: %s", error)

    def _holder(self) -> str:
        """Who holds the lease, as the end of a line."""
        try:
            notes = self._lock.notes(self._host)
        except exceptions.StandbyBackendFailed:
            return ""
        return next((f", which is held by {note}" for note in notes if note.active), "")

    # -- the backend ----------------------------------------------------------

    def _failed(self, error: Exception, what_now: str) -> None:
        if not self._in_trouble:
            self._in_trouble = True
            LOG.warning(
                "[lease-backend-failed] The backend of the lease can't be used: %s. %s",
                error,
                what_now,
            )

    def _recovered(self) -> None:
        if self._in_trouble:
            self._in_trouble = False
            LOG.info("The backend of the lease answers again")
