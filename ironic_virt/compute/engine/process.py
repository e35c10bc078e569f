# SPDX-License-Identifier: Apache-2.0

"""The compute service as a process: from its options to its exit code.

SIGTERM and SIGINT ask it to end in order, and a second one ends it at once, as the first one does
while it starts; SIGHUP asks it to read its files again.  A handler only puts a note into a queue
that the main thread waits on, so a signal is never dealt with in the middle of something.

This is plain :mod:`signal`, since cotyledon and oslo.service start a service again whenever it
ends.  One whose host name another has taken over must stay down, and a wrong configuration must
be one line and an exit code.
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import socket
from collections.abc import Callable
from typing import Any, Self

from oslo_config import cfg
from oslo_log import log as logging

from ironic_virt import exceptions
from ironic_virt.compute.db import Database
from ironic_virt.compute.engine.service import Service
from ironic_virt.compute.errors import ServiceSuperseded
from ironic_virt.exit_codes import ExitCode
from ironic_virt.metrics import page

LOG = logging.getLogger(__name__)

_LONGEST_SLEEP = 1.0
"""Seconds; a signal that comes just before the thread falls asleep does not wake it."""


class Signals:
    """A context manager that holds the signals' handlers; for the main thread.

    :param leave: ends the process without any further ado.
    :ivar is_started: whether something has begun that has to be ended in order.
    """

    def __init__(self, leave: Callable[[int], Any] = os._exit) -> None:
        self._leave = leave
        self.is_started = False
        # Its put() may interrupt itself, which is what a handler needs.
        self._notes: queue.SimpleQueue[signal.Signals | Exception] = queue.SimpleQueue()
        self._stopping = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            self._before[signum] = signal.signal(signum, self._handle)
        return self

    def __exit__(self, *_error: object) -> None:
        for signum, before in self._before.items():
            signal.signal(signum, before)

    def wait(self) -> signal.Signals | Exception:
        """Wait for a signal, or for an error that ends the service."""
        while True:
            with contextlib.suppress(queue.Empty):
                return self._notes.get(timeout=_LONGEST_SLEEP)

    def fail(self, error: Exception) -> None:
        """Let the main thread know that the service can't go on; for any thread."""
        self._notes.put(error)

    def _handle(self, signum: int, _frame: object) -> None:
        if signum != signal.SIGHUP:
            if self._stopping or not self.is_started:
                self._leave(128 + signum if self._stopping else 0)
                return
            self._stopping = True
        self._notes.put(signal.Signals(signum))


def exit_code(error: Exception, conf: cfg.ConfigOpts) -> ExitCode:
    """The exit code of a process that ends because of an error."""
    if isinstance(error, exceptions.LeaseLost):
        return ExitCode.LEASE_LOST
    if isinstance(error, ServiceSuperseded):
        # Started again, it would take the name back, and so would the other one, without end;
        # but a standby waits until the other one has gone.
        takes_turns = conf.ironic.standby_backend_url
        return ExitCode.LEASE_LOST if takes_turns else ExitCode.SUPERSEDED
    is_ours = isinstance(error, exceptions.InvalidConfiguration)
    return ExitCode.REFUSED if is_ours else ExitCode.FAILED


def run(conf: cfg.ConfigOpts, version: str, *, leave: Callable[[int], Any] = os._exit) -> None:
    """Be a compute service until a signal ends it.  In the main thread only.

    :param leave: ends the process without any further ado.
    :raises IronicVirtError: the service can't start, or can't go on.
    """
    with Signals(leave) as signals, contextlib.ExitStack() as stack:
        database = Database(conf)
        stack.callback(database.close)
        database.open(make=True)
        service = Service(
            *(conf, database),
            version=version,
            on_fatal=signals.fail,
            on_round=lambda: notify("WATCHDOG=1"),
            on_standby=lambda: notify("READY=1\nWATCHDOG=1"),
        )
        if conf.ironic.metrics_port:
            pages = page.application(service.metrics.registry, service.troubles)
            stack.enter_context(page.served(conf, pages))
        service.prepare()
        signals.is_started = True
        service.start()
        notify("READY=1")
        while True:
            note = signals.wait()
            if note is signal.SIGHUP:
                service.reload()
                continue
            notify("STOPPING=1")
            if isinstance(note, Exception):
                if service.stop(0):
                    LOG.error("[service-ends] %s", note)
                    leave(exit_code(note, conf))
                raise note
            LOG.info("Shutting down; signal again to stop immediately")
            unfinished = service.stop(_patience(conf))
            LOG.info("Compute service %s has ended", service.host)
            if unfinished:
                # Their threads would be waited for.
                leave(0)
            return


def notify(state: str) -> None:
    """Tell systemd how this process is: sd_notify, without its library.

    Nothing is sent where ``NOTIFY_SOCKET`` is not set.  If a message can't be sent, the process
    goes on.
    """
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
            channel.setblocking(False)
            # The name of an abstract socket begins with a zero byte.
            channel.sendto(state.encode(), f"\0{address[1:]}" if address[0] == "@" else address)
    except OSError as error:
        LOG.debug("%s could not be sent to the supervisor: %s", state, error)


def _patience(conf: cfg.ConfigOpts) -> float:
    # A file that was changed while we run may hold anything.
    with contextlib.suppress(ValueError):
        return float(conf.graceful_shutdown_timeout)
    return 0.0
