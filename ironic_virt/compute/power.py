# SPDX-License-Identifier: Apache-2.0

"""Starting, stopping and rebooting instances.

What fails here leaves the instance as it was: its record says what failed, and it
can be asked for again.
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

TASKS = (
    TaskState.POWERING_ON,
    TaskState.POWERING_OFF,
    TaskState.REBOOTING,
    TaskState.REBOOTING_HARD,
)


VM_STATES = {
    virt.PowerState.RUNNING: VmState.ACTIVE,
    virt.PowerState.SHUTDOWN: VmState.STOPPED,
}
"""What an instance is whose node has this power state; of other states there is no telling."""


class PowerChange:
    """An :class:`~ironic_virt.compute.engine.tasks.Action`."""

    def __init__(self, driver: virt.ComputeDriver, database: Database) -> None:
        self._driver = driver
        self._instances = database.instances

    def __call__(self, context: oslo_context.RequestContext, instance: Instance) -> Result:
        """Do what the instance's task says."""
        task = TaskState(instance.task_state or "")
        try:
            self._change(task, instance)
        except (exceptions.WaitCancelled, RecordsError):
            raise
        except faults.OUT_OF_REACH as error:
            raise TryLater(faults.one_line(error)) from error
        except Exception as error:
            if not isinstance(error, exceptions.IronicVirtError):
                LOG.exception("Instance %s: the driver broke off", instance.uuid)
            LOG.error("Instance %s, %s: %s", instance.uuid, task, faults.one_line(error))
            failed = self._instances.fail(
                instance.uuid,
                task,
                faults.fault(error),
                vm_state=VmState(instance.vm_state),
            )
            return Result.FAILED if failed else Result.ABORTED
        reached = (
            virt.PowerState.SHUTDOWN if task is TaskState.POWERING_OFF else virt.PowerState.RUNNING
        )
        vm_state = VmState.ERROR if self._stays_in_error(instance) else VM_STATES[reached]
        done = self._instances.finish(instance.uuid, task, vm_state=vm_state, power_state=reached)
        return Result.DONE if done else Result.ABORTED

    def _stays_in_error(self, instance: Instance) -> bool:
        """Whether an instance in error is so still: power alone makes no deployment whole."""
        if instance.vm_state != VmState.ERROR:
            return False
        try:
            return not self._driver.get_info(instance, use_cache=False).active
        except exceptions.IronicVirtError as error:
            LOG.debug("Instance %s stays in error: %s", instance.uuid, error)
            return True

    def _change(self, task: TaskState, target: Instance) -> None:
        if task is TaskState.POWERING_ON:
            self._driver.power_on(target)
        elif task is TaskState.POWERING_OFF:
            self._driver.power_off(target)
        else:
            kind = "SOFT" if task is TaskState.REBOOTING else "HARD"
            self._driver.reboot(target, kind)
