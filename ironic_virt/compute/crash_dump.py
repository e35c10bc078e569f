# SPDX-License-Identifier: Apache-2.0

"""Sending instances an NMI, which makes a system that is set up for it write a crash dump.

Other tasks are carried out at least once, this one at most once: a second NMI may break
off the dump that the first one has set off.  So it is written down that one is about to be
sent, and only then is it sent.  Who finds a request with such a note that is not its own
sends nothing: nobody can tell whether somebody else has.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable

from oslo_context import context as oslo_context
from oslo_log import log as logging

from ironic_virt import exceptions, virt
from ironic_virt.compute import faults
from ironic_virt.compute.db import Database
from ironic_virt.compute.db.records import Instance
from ironic_virt.compute.errors import RecordsError
from ironic_virt.compute.states import TaskState, VmState
from ironic_virt.compute.tasks import Result, TryLater

LOG = logging.getLogger(__name__)

TASKS = (TaskState.TRIGGERING_CRASH_DUMP,)


class CrashDump:
    """An :class:`~ironic_virt.compute.tasks.Action`."""

    def __init__(
        self,
        driver: virt.ComputeDriver,
        database: Database,
        new_uuid: Callable[[], str] = lambda: str(uuid.uuid4()),
    ) -> None:
        self._driver = driver
        self._instances = database.instances
        self._new_uuid = new_uuid

    def __call__(self, context: oslo_context.RequestContext, instance: Instance) -> Result:
        """Send the NMI, unless somebody may have sent it already."""
        task, vm_state = TaskState(instance.task_state or ""), VmState(instance.vm_state)
        noted = False
        try:
            # Before anything else: what is true of the node now may come of that one.
            self._check_attempt(instance, self._instances.crash_dump_attempt(instance.uuid))
            self._check_power(instance)
            attempt = self._new_uuid()
            begun = self._instances.begin_crash_dump(instance.uuid, attempt)
            if begun is None:
                return Result.ABORTED
            self._check_attempt(instance, None if begun == attempt else begun)
            noted = True
            self._driver.trigger_crash_dump(instance)
        except (exceptions.WaitCancelled, RecordsError):
            raise
        except Exception as error:
            if isinstance(error, faults.OUT_OF_REACH) and not noted:
                raise TryLater(faults.one_line(error)) from error
            message = faults.one_line(error)
            if not isinstance(error, exceptions.IronicVirtError):
                LOG.exception("Instance %s: the driver broke off", instance.uuid)
                message += "; the NMI may have been injected or not" if noted else ""
            LOG.error("Instance %s, %s: %s", instance.uuid, task, message)
            fault = faults.fault(error, message)
            failed = self._instances.fail(instance.uuid, task, fault, vm_state=vm_state)
            return Result.FAILED if failed else Result.ABORTED
        done = self._instances.finish(instance.uuid, task, vm_state=vm_state)
        return Result.DONE if done else Result.ABORTED

    def _check_attempt(self, instance: Instance, attempt: str | None) -> None:
        """See that nobody else may have sent it.

        :raises CrashDumpFailed: somebody may have.
        """
        if attempt is not None:
            raise exceptions.CrashDumpFailed(
                str(instance.node),
                instance.uuid,
                "the compute service ended while an NMI was sent, so it may have been injected "
                "or not; it was not sent a second time. Ask again if no dump comes",
            )

    def _check_power(self, instance: Instance) -> None:
        """Look whether there is a system that could write a dump.

        :raises CrashDumpFailed: there is none; nothing was sent.
        """
        state = self._driver.get_info(instance, use_cache=False).state
        if state is virt.PowerState.SHUTDOWN:
            raise exceptions.CrashDumpFailed(
                str(instance.node),
                instance.uuid,
                "the node is powered off, so no system runs there that could write a crash "
                "dump; no NMI was sent",
            )
