# SPDX-License-Identifier: Apache-2.0

"""The record of this nova-compute among Nova's services, when it has a standby.

Nova reads it before it starts the driver, so before a standby has waited.  And each process of
a host name counts its own reports in the record.  So the holder of the lease notices another
process that reports but knows nothing of the lease.

Replaces a method of Nova's compute manager and one of the record, on these two objects, and
one of oslo.messaging's listeners.
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

    :param grace: seconds after the wait in which one report may be the former holder's last.
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
        self._outage = logs.OutageTimer(clock=clock)

    def take_over(self, manager: Any) -> None:
        """Write our version, if the former holder has another one; watch the record from now on.

        :param manager: Nova's compute manager; ``None`` in a driver that Nova does not run.
        """
        if manager is None:
            return
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
                    "The former holder of the lease was version %d of Nova's services, this one "
                    "is %d",
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

        def compare_and_save(*args: Any, **kwargs: Any) -> Any:
            nonlocal reported
            if "report_count" not in record.obj_what_changed():
                return save(*args, **kwargs)
            if self._lease.is_over:
                # The next holder reports.
                return None
            count = self._count_of(record)
            if None not in (reported, count) and count != reported:
                self._note_foreign()
            reported = None
            record.report_count = max(record.report_count - 1, count or 0) + _STEP
            result = save(*args, **kwargs)
            reported = record.report_count
            return result

        record.save = compare_and_save

    def _count_of(self, record: Any) -> int | None:
        try:
            fresh = objects.Service.get_by_id(nova_context.get_admin_context(), record.id)
        except Exception as exc:
            LOG.debug("The record of this service can't be read: %s", exc)
            return None
        count: int = fresh.report_count
        return count

    def _note_foreign(self) -> None:
        if self._clock() < self._grace_until:
            self._grace_until = 0.0
            return
        self._lease.foreign_reports += 1
        if self._outage.failed() is not None:
            LOG.warning(
                "[lease-bypassed] Another process reports as nova-compute of %s, although this "
                "one holds the lease. Stop it: it has no [ironic] standby_backend_url, or "
                "another one, and changes the same nodes",
                self._host,
            )
