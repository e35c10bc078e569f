# SPDX-License-Identifier: Apache-2.0

"""Attaching interfaces to instances that are there, and detaching them.

What fails here leaves the instance as it was, its ports too: its history says what
failed, and it can be asked for again.
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

TASKS = (TaskState.ATTACHING_INTERFACE, TaskState.DETACHING_INTERFACE)


class Interfaces:
    """An :class:`~ironic_virt.compute.engine.tasks.Action`, for both ways."""

    def __init__(self, driver: virt.ComputeDriver, database: Database) -> None:
        self._driver = driver
        self._instances = database.instances

    def __call__(self, context: oslo_context.RequestContext, instance: Instance) -> Result:
        """Do what the instance's task says; what is done already is no error."""
        task = TaskState(instance.task_state or "")
        vm_state = VmState(instance.vm_state)
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
                instance.uuid, task, faults.fault(error), vm_state=vm_state
            )
            return Result.FAILED if failed else Result.ABORTED
        done = self._instances.finish(instance.uuid, task, vm_state=vm_state)
        return Result.DONE if done else Result.ABORTED

    def _change(self, task: TaskState, instance: Instance) -> None:
        vif = instance.interface
        if vif is None:
            raise ValueError(f"{task.value} lacks its interface")
        if task is TaskState.ATTACHING_INTERFACE:
            self._driver.attach_interface(instance, vif)
        else:
            self._driver.detach_interface(instance, vif)
