# SPDX-License-Identifier: Apache-2.0

"""The record of this nova-compute among Nova's services, when it has a standby.

Nova reads it before it starts the driver, so before a standby has waited.  Each process of a
host name counts its reports in it, so the holder of the lease notices one that has no lease.

Replaces a method of Nova's compute manager, of the record, and of oslo.messaging's listeners.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from nova import context as nova_context
from nova import objects
from nova.objects import service as nova_service
from oslo_log import log as logging
from oslo_messaging._drivers.amqpdriver import RpcAMQPListener

from ironic_virt import logs
from ironic_virt.standby import Lease

LOG = logging.getLogger(__name__)

_STEP = 2
"""Of our reports; others count by one.  Two that counted alike would not see each other."""


def guard_messages(lease: Lease) -> None:
    """Have requests left in their queue by a process that has lost its lease.

    A listener acknowledges a message when it reads it.  A process that goes on after it was
    stopped would do that with all that has come meanwhile, and then end.
    """
    receive = RpcAMQPListener.__call__

    def guarded(listener: Any, message: Any) -> None:
        lease.may_begin()
        receive(listener, message)

    RpcAMQPListener.__call__ = guarded


class ServiceRecord:
    """The record of the host name whose lease this process holds.

    :param grace: seconds; a process silent for longer has ended, the former holder included.
    :param clock: a monotonic clock in seconds.
    """

    def __init__(
        self,
        host: str,
        lease: Lease,
        grace: float,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._host = host
        self._lease = lease
        self._clock = clock
        self._grace_until = clock() + grace
        self._outage = logs.OutageTimer(settle=grace, clock=clock)

    def take_over(self, manager: Any) -> None:
        """Write our version, if the former holder has another one; watch the record from now on.

        :param manager: Nova's compute manager.
        """
        if self._lease.was_standby:
            self._write_version()
        guard_messages(self._lease)
        start = manager.pre_start_hook

        def pre_start_hook(*args: Any) -> Any:
            for record in args:
                self.watch(record)
            return start(*args)

        manager.pre_start_hook = pre_start_hook

    def _write_version(self) -> None:
        try:
            record = objects.Service.get_by_host_and_binary(
                nova_context.get_admin_context(), self._host, "nova-compute"
            )
            if record is not None and record.version != nova_service.SERVICE_VERSION:
                LOG.info(
                    "The former holder of the lease was version %d of Nova's services, we are %d",
                    *(record.version, nova_service.SERVICE_VERSION),
                )
                record.version = nova_service.SERVICE_VERSION
                record.save()
        except Exception as exc:
            LOG.warning("[nova-not-asked] Can't read the version in the record: %s", exc)

    def watch(self, record: Any) -> None:
        """Compare the record with our last report each time that we report."""
        save = record.save
        reported: int | None = None
        # Without an answer, a report may still be written, after a later one as well.
        unanswered: set[int] = set()

        def compare_and_save(*args: Any, **kwargs: Any) -> Any:
            nonlocal reported
            if "report_count" not in record.obj_what_changed():
                return save(*args, **kwargs)
            if self._lease.is_over:
                # The next holder reports.
                return None
            count = self._count_of(record)
            if None not in (reported, count):
                self._note_others(seen=count not in {reported, *unanswered})
            record.report_count = max(record.report_count - 1, count or 0) + _STEP
            unanswered.add(record.report_count)
            save(*args, **kwargs)
            unanswered.discard(record.report_count)
            reported = record.report_count
            return None

        record.save = compare_and_save

    def _count_of(self, record: Any) -> int | None:
        try:
            admin = nova_context.get_admin_context()
            return int(objects.Service.get_by_id(admin, record.id).report_count)
        except Exception as exc:
            LOG.debug("The record of this service can't be read: %s", exc)
            return None

    def _note_others(self, *, seen: bool) -> None:
        if not seen:
            if self._outage.worked() is not None:
                self._lease.foreign_reports = 0
                LOG.info("No other process reports as nova-compute of %s any more", self._host)
        elif self._clock() < self._grace_until:
            self._grace_until = 0.0
        else:
            self._lease.foreign_reports += 1
            if self._outage.failed() is not None:
                LOG.warning(
                    "[lease-bypassed] Another process reports as nova-compute of %s, although "
                    "this one holds the lease. Stop it: it has no [ironic] standby_backend_url, "
                    "or another one, and changes the same nodes",
                    self._host,
                )
