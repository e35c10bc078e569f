# SPDX-License-Identifier: Apache-2.0

"""Rebuilding an instance: another image on the node that it has.

Until Ironic has begun, what fails leaves the instance as it was, its image too.  Later
it is in error, its fault says what is on the disk, and it can be rebuilt again.
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


class Rebuild:
    """An :class:`~ironic_virt.compute.engine.tasks.Action`."""

    def __init__(self, driver: virt.ComputeDriver, database: Database) -> None:
        self._driver = driver
        self._instances = database.instances

    def __call__(self, context: oslo_context.RequestContext, instance: Instance) -> Result:
        """Go on with a rebuild wherever it stands; the request's id tells which it is."""
        try:
            self._rebuild(context, instance)
        except (exceptions.WaitCancelled, RecordsError):
            raise
        except exceptions.BuildAborted as error:
            LOG.info("%s", error)
            return Result.ABORTED
        except faults.OUT_OF_REACH as error:
            raise TryLater(faults.one_line(error)) from error
        except exceptions.RebuildFailed as error:
            if isinstance(error.__cause__, faults.OUT_OF_REACH):
                raise TryLater(faults.one_line(error)) from error
            return self._failed(instance, error, error.disk is exceptions.Disk.UNTOUCHED)
        except exceptions.IronicVirtError as error:
            refused = isinstance(error, exceptions.OperationNotSupported)
            return self._failed(instance, error, refused)
        except Exception as error:
            LOG.exception("Instance %s: the driver broke off", instance.uuid)
            return self._failed(instance, error, False)
        return self._succeeded(instance)

    def _rebuild(self, context: oslo_context.RequestContext, instance: Instance) -> None:
        wanted = instance.rebuild
        self._driver.rebuild(
            virt.DeployRequest(
                instance,
                instance.image if wanted is None else wanted.image,
                instance.ports,
                request_id=context.request_id,
                preserve_ephemeral=wanted is not None and wanted.preserve_ephemeral,
            )
        )
        if instance.vm_state == VmState.STOPPED:
            # Ironic has powered it on.
            self._driver.power_off(instance)

    def _succeeded(self, instance: Instance) -> Result:
        try:
            power_state = self._driver.get_info(instance).state
        except exceptions.IronicVirtError as error:
            LOG.debug("The power state of instance %s comes later: %s", instance.uuid, error)
            power_state = virt.PowerState.NOSTATE
        stays = instance.vm_state == VmState.STOPPED
        done = self._instances.finish(
            instance.uuid,
            TaskState.REBUILDING,
            vm_state=VmState.STOPPED if stays else VmState.ACTIVE,
            power_state=power_state,
        )
        return Result.DONE if done else Result.ABORTED

    def _failed(self, instance: Instance, error: Exception, untouched: bool) -> Result:
        LOG.error("Instance %s was not rebuilt: %s", instance.uuid, faults.one_line(error))
        failed = self._instances.fail(
            instance.uuid,
            TaskState.REBUILDING,
            faults.fault(error),
            vm_state=VmState(instance.vm_state) if untouched else VmState.ERROR,
            keep_image=untouched,
        )
        return Result.FAILED if failed else Result.ABORTED
