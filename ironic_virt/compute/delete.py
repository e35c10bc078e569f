# SPDX-License-Identifier: Apache-2.0

"""Deleting an instance: its node is given back in Ironic first, then in the records."""

from __future__ import annotations

from oslo_context import context as oslo_context
from oslo_log import log as logging

from ironic_virt import exceptions, virt
from ironic_virt.compute import faults
from ironic_virt.compute.db import Database
from ironic_virt.compute.db.records import Instance
from ironic_virt.compute.engine.tasks import Result, TryLater
from ironic_virt.compute.errors import RecordsError
from ironic_virt.compute.states import TaskState

LOG = logging.getLogger(__name__)


class Delete:
    """An :class:`~ironic_virt.compute.engine.tasks.Action`."""

    def __init__(self, driver: virt.ComputeDriver, database: Database) -> None:
        self._driver = driver
        self._instances = database.instances

    def __call__(self, context: oslo_context.RequestContext, instance: Instance) -> Result:
        """Go on with a delete wherever it stands.

        One that fails leaves the instance in error, with its node; deleting it
        again tries it again.
        """
        try:
            self._driver.destroy(instance)
        except (exceptions.WaitCancelled, RecordsError):
            raise
        except (*faults.OUT_OF_REACH, exceptions.NodeLocked) as error:
            raise TryLater(faults.one_line(error)) from error
        except Exception as error:
            if not isinstance(error, exceptions.IronicVirtError):
                LOG.exception("Instance %s: the driver broke off", instance.uuid)
            LOG.error("Instance %s was not deleted: %s", instance.uuid, faults.one_line(error))
            self._instances.fail(instance.uuid, TaskState.DELETING, faults.fault(error))
            return Result.FAILED
        self._instances.deleted(instance.uuid)
        LOG.info("Instance %s is deleted", instance.uuid)
        return Result.DONE
