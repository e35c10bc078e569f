# SPDX-License-Identifier: Apache-2.0

"""Carrying a task out: the action, and what its end means for the records.

This is the one place where errors of actions are caught.  An outcome is written only while
the task is still wanted and the instance is still this process's: the fence says so.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from oslo_config import cfg
from oslo_log import log as logging

from ironic_virt import exceptions
from ironic_virt.compute.actions import Result, Settled, Task, TryLater
from ironic_virt.compute.build import Build
from ironic_virt.compute.db import Database
from ironic_virt.compute.db.records import Fault, Fence, Instance
from ironic_virt.compute.errors import RecordsError, one_line
from ironic_virt.compute.states import VmState
from ironic_virt.compute.verbs import CREATE, Verb

if TYPE_CHECKING:
    from ironic_virt.driver import IronicDriver

LOG = logging.getLogger(__name__)


class TaskRunner:
    """Carries tasks out.  Thread-safe.

    :param incarnation: of this process, for the fence.
    """

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        driver: IronicDriver,
        database: Database,
        incarnation: str,
    ) -> None:
        self._conf = conf
        self._driver = driver
        self._instances = database.instances
        self._incarnation = incarnation
        self._build = Build(conf, driver, database, self._fence)

    def __call__(self, verb: Verb, instance: Instance) -> Result:
        """Go on with a task wherever it stands.

        :param instance: its record, read just now.
        :raises TryLater: nothing was decided.
        :raises WaitCancelled: the service stops, or the instance isn't its any more.
        :raises RecordsError: the outcome could not be written.
        """
        task = Task(self._driver, instance, self._conf.compute.shutdown_timeout)
        try:
            settled = (self._build if verb is CREATE else verb.carry_out)(task)
        except (exceptions.WaitCancelled, RecordsError, TryLater):
            raise
        except exceptions.BuildAborted as error:
            LOG.info("%s", error)
            return Result.ABORTED
        except verb.later as error:
            raise TryLater(one_line(error)) from error
        except Exception as error:
            if not isinstance(error, exceptions.IronicVirtError):
                LOG.exception(
                    "[unexpected-error] Instance %s: the driver broke off", instance.uuid
                )
            if verb is CREATE:
                return self._build.failed(task, error)
            return self._failed(verb, task, error)
        if settled is None:
            return Result.ABORTED
        return self._settled(verb, instance, settled)

    def _settled(self, verb: Verb, instance: Instance, settled: Settled) -> Result:
        fence = self._fence(instance)
        if verb is CREATE:
            # Which node it has was perhaps decided in the course of the task.
            fence = dataclasses.replace(fence, node=None)
        if settled.vm_state is VmState.DELETED:
            is_written = self._instances.deleted(instance.uuid, fence)
            if is_written:
                LOG.info("Instance %s is deleted", instance.uuid)
        else:
            is_written = self._instances.finish(
                instance.uuid,
                verb.task,
                vm_state=settled.vm_state,
                power_state=settled.power_state,
                fence=fence,
            )
        return Result.DONE if is_written else Result.ABORTED

    def _failed(self, verb: Verb, task: Task, error: Exception) -> Result:
        instance = task.instance
        LOG.error("[task-failed] Instance %s, %s: %s", instance.uuid, verb.task, one_line(error))
        settled = verb.failed(task, error)
        is_written = self._instances.fail(
            instance.uuid,
            verb.task,
            Fault.of(error),
            vm_state=settled.vm_state,
            applied=settled.applied,
            fence=self._fence(instance),
        )
        return Result.FAILED if is_written else Result.ABORTED

    def _fence(self, instance: Instance) -> Fence:
        return Fence(instance.host, self._incarnation, instance.attempts, instance.node)
