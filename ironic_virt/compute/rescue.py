# SPDX-License-Identifier: Apache-2.0

"""Rescuing and unrescuing instances.

A rescue that fails leaves the instance as it was when it runs its own system again, as
the driver sees to it.  When nobody can tell what it runs it is in error: its fault says
what to do, and it can be unrescued, rescued, or deleted.
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
from ironic_virt.compute.power import VM_STATES
from ironic_virt.compute.states import TaskState, VmState

LOG = logging.getLogger(__name__)

TASKS = (TaskState.RESCUING, TaskState.UNRESCUING)


class Rescue:
    """An :class:`~ironic_virt.compute.engine.tasks.Action`, for both ways."""

    def __init__(self, driver: virt.ComputeDriver, database: Database) -> None:
        self._driver = driver
        self._instances = database.instances

    def __call__(self, context: oslo_context.RequestContext, instance: Instance) -> Result:
        """Go on with what the instance's task says, wherever it stands."""
        task = TaskState(instance.task_state or "")
        try:
            self._change(task, instance)
        except (exceptions.WaitCancelled, RecordsError):
            raise
        except exceptions.BuildAborted as error:
            LOG.info("%s", error)
            return Result.ABORTED
        except faults.OUT_OF_REACH as error:
            raise TryLater(faults.one_line(error)) from error
        except Exception as error:
            if not isinstance(error, exceptions.IronicVirtError):
                LOG.exception("Instance %s: the driver broke off", instance.uuid)
            return self._failed(task, instance, error)
        return self._succeeded(task, instance)

    def _change(self, task: TaskState, instance: Instance) -> None:
        if task is TaskState.UNRESCUING:
            self._driver.unrescue(instance)
            return
        password = self._instances.rescue_password(instance.uuid) or ""
        self._driver.rescue(instance, password)

    def _succeeded(self, task: TaskState, instance: Instance) -> Result:
        power_state = self._power_state(instance)
        done = self._instances.finish(
            instance.uuid,
            task,
            vm_state=(
                VmState.RESCUED
                if task is TaskState.RESCUING
                else VM_STATES.get(power_state, VmState.ACTIVE)
            ),
            power_state=power_state,
        )
        return Result.DONE if done else Result.ABORTED

    def _failed(self, task: TaskState, instance: Instance, error: Exception) -> Result:
        LOG.error("Instance %s, %s: %s", instance.uuid, task, faults.one_line(error))
        failed = self._instances.fail(
            instance.uuid, task, faults.fault(error), vm_state=self._left(instance, error)
        )
        return Result.FAILED if failed else Result.ABORTED

    def _left(self, instance: Instance, error: Exception) -> VmState:
        """What an instance is now that has not come where it was to come."""
        before = VmState(instance.vm_state)
        system = exceptions.System.UNTOUCHED
        if isinstance(error, exceptions.RescueFailed):
            system = error.system
        elif isinstance(error, exceptions.WaitTimeout) or not isinstance(
            error, exceptions.IronicVirtError
        ):
            system = exceptions.System.UNKNOWN
        if system is exceptions.System.UNKNOWN:
            return VmState.ERROR
        if system is exceptions.System.UNTOUCHED or before is VmState.ERROR:
            return before
        # One that was off may have been powered on to get out of the rescue system.
        return VM_STATES.get(self._power_state(instance), before)

    def _power_state(self, instance: Instance) -> virt.PowerState:
        try:
            return self._driver.get_info(instance).state
        except exceptions.IronicVirtError as error:
            LOG.debug("The power state of instance %s comes later: %s", instance.uuid, error)
            return virt.PowerState.NOSTATE
