# SPDX-License-Identifier: Apache-2.0

"""The compute service as a process: from its options to its exit code."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable
from typing import Any

from oslo_config import cfg
from oslo_log import log as logging

from ironic_virt import exceptions
from ironic_virt.compute.db import Database
from ironic_virt.compute.engine.service import Service
from ironic_virt.compute.engine.signals import Signals, Stopped
from ironic_virt.compute.engine.supervisor import Supervisor
from ironic_virt.compute.errors import ServiceSuperseded
from ironic_virt.exit_codes import ExitCode
from ironic_virt.metrics import page

LOG = logging.getLogger(__name__)


def exit_code(error: Exception, *, has_standby: bool = False) -> ExitCode:
    """The exit code of a process that ends because of an error.

    :param has_standby: another process of this name waits until this one has gone, or this
        one until the other has.
    """
    if isinstance(error, exceptions.LeaseLost):
        return ExitCode.LEASE_LOST
    if isinstance(error, ServiceSuperseded):
        # Started again, it would take the name back, and so on for ever.
        return ExitCode.LEASE_LOST if has_standby else ExitCode.SUPERSEDED
    is_ours = isinstance(error, exceptions.InvalidConfiguration)
    return ExitCode.REFUSED if is_ours else ExitCode.FAILED


def run(
    conf: cfg.ConfigOpts,
    version: str,
    *,
    hung_up: Callable[[], bool] = lambda: False,
    leave: Callable[[int], Any] = os._exit,
) -> None:
    """Be a compute service until a signal ends it.  In the main thread only.

    :param hung_up: says whether SIGHUP has come before this.
    :param leave: ends the process without any further ado.
    :raises IronicVirtError: the service can't start, or can't go on.
    """
    supervisor = Supervisor()
    with Signals(leave) as signals, contextlib.ExitStack() as stack:
        try:
            # Nothing has begun yet that would have to be ended in order.
            with signals.interrupting():
                database = Database(conf)
                stack.callback(database.close)
                database.open(make=True)
                service = Service(
                    *(conf, database),
                    version=version,
                    on_fatal=signals.fail,
                    on_round=supervisor.alive,
                    on_standby=supervisor.standing_by,
                )
                if conf.ironic.metrics_port:
                    pages = page.application(service.metrics.registry, service.troubles)
                    stack.enter_context(page.served(conf, pages))
                service.prepare()
        except Stopped:
            LOG.info("Told to end before the service was up")
            return
        service.start()
        supervisor.ready()
        if hung_up():
            # The files may have been read before that.
            service.reload()
        while True:
            note = signals.wait()
            if note is signal.SIGHUP:
                service.reload()
                continue
            supervisor.stopping()
            if isinstance(note, Exception):
                if service.stop(0):
                    LOG.error("[service-ends] %s", note)
                    leave(exit_code(note, has_standby=has_standby(conf)))
                raise note
            LOG.info("Told to end; a second signal ends this process at once")
            left = service.stop(_patience(conf))
            LOG.info("Compute service %s has ended", service.host)
            if left:
                # Their threads would be waited for.
                leave(0)
            return


def has_standby(conf: cfg.ConfigOpts) -> bool:
    """Whether processes of one name take turns."""
    return bool(conf.ironic.standby_backend_url)


def _patience(conf: cfg.ConfigOpts) -> float:
    try:
        return float(conf.graceful_shutdown_timeout)
    except ValueError:
        # A file that was changed while we run may hold anything.
        return 0.0
