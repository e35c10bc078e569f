# SPDX-License-Identifier: Apache-2.0

"""Sending instances an NMI, which makes a system that is set up for it write a crash dump.

It is carried out at least once, as every task is: a service that dies in the midst of it sends
another one when it is started again, unless the request was superseded by then.
"""

from __future__ import annotations

from oslo_context import context as oslo_context
from oslo_log import log as logging

from ironic_virt import exceptions, virt
from ironic_virt.compute import faults
from ironic_virt.compute.db import Database
from ironic_virt.compute.db.records import Instance
from ironic_virt.compute.engine.tasks import Result, TryLater
from ironic_virt.compute.errors import RecordsError
from ironic_virt.compute.states import TaskState, VmState

LOG = logging.getLogger(__name__)

TASKS = (TaskState.TRIGGERING_CRASH_DUMP,)


class CrashDump:
    """An :class:`~ironic_virt.compute.engine.tasks.Action`."""

    def __init__(self, driver: virt.ComputeDriver, database: Database) -> None:
        self._driver = driver
        self._instances = database.instances

    def __call__(self, context: oslo_context.RequestContext, instance: Instance) -> Result:
        """Send the NMI."""
        task, vm_state = TaskState(instance.task_state or ""), VmState(instance.vm_state)
        try:
            self._check_power(instance)
            self._driver.trigger_crash_dump(instance)
        except (exceptions.WaitCancelled, RecordsError):
            raise
        except faults.OUT_OF_REACH as error:
            raise TryLater(faults.one_line(error)) from error
        except Exception as error:
            if not isinstance(error, exceptions.IronicVirtError):
                LOG.exception("Instance %s: the driver broke off", instance.uuid)
            LOG.error("Instance %s, %s: %s", instance.uuid, task, faults.one_line(error))
            fault = faults.fault(error)
            failed = self._instances.fail(instance.uuid, task, fault, vm_state=vm_state)
            return Result.FAILED if failed else Result.ABORTED
        done = self._instances.finish(instance.uuid, task, vm_state=vm_state)
        return Result.DONE if done else Result.ABORTED

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
