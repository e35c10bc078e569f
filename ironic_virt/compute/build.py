# SPDX-License-Identifier: Apache-2.0

"""Building an instance: from the claim in the records to an instance that is active.

A build that failed leaves nothing behind: its node is given back in Ironic first
and in the records afterwards, so that a crash in between loses neither.  Then it
is tried on another node, or the instance is in error and its fault says why.

Where Ironic picks the node, the claim is a place in a pool, and which node it has
become is written down as soon as it is reserved.
"""

from __future__ import annotations

import dataclasses

from oslo_config import cfg
from oslo_context import context as oslo_context
from oslo_log import log as logging

from ironic_virt import exceptions, virt
from ironic_virt.compute import faults
from ironic_virt.compute.db import Database
from ironic_virt.compute.db.records import Instance
from ironic_virt.compute.engine.tasks import Result, TryLater
from ironic_virt.compute.errors import ClaimLost, RecordsError
from ironic_virt.compute.placing import Placing
from ironic_virt.compute.states import TaskState, VmState

LOG = logging.getLogger(__name__)


class Build:
    """An :class:`~ironic_virt.compute.engine.tasks.Action`.

    :param placing: finds another node after a failure.
    """

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        driver: virt.ComputeDriver,
        database: Database,
        placing: Placing,
    ) -> None:
        self._conf = conf
        self._driver = driver
        self._instances = database.instances
        self._faults = database.faults
        self._placing = placing

    def __call__(self, context: oslo_context.RequestContext, instance: Instance) -> Result:
        """Go on with a build wherever it stands."""
        try:
            self._driver.prepare_for_spawn(self._with_place(instance))
            placed = self._placed(instance)
            if placed is None:
                return Result.ABORTED
            instance = placed
            self._driver.spawn(virt.DeployRequest(instance, instance.image, instance.ports))
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
            return self._failed(instance, error)
        return self._succeeded(instance)

    def _with_place(self, instance: Instance) -> Instance:
        """The instance as a driver takes it: a pool's name is that of a compute node."""
        if instance.node is not None or instance.pool is None:
            return instance
        if not self._driver.picks_nodes():
            raise exceptions.NodeNotAvailable(
                None,
                instance.uuid,
                f"it was to get a node of pool {instance.pool}, and the scheduler picks the "
                "nodes by now ([ironic] node_selection)",
            )
        return dataclasses.replace(instance, node=instance.pool)

    def _placed(self, instance: Instance) -> Instance | None:
        """The instance with the node that was picked for it; ``None``: it isn't wanted."""
        if not self._driver.picks_nodes():
            return instance
        node = self._driver.node_of(dataclasses.replace(instance, node=None))
        if node is None or node == instance.node:
            return instance
        try:
            if not self._instances.placed(instance.uuid, node):
                return None
        except ClaimLost as error:
            raise exceptions.NodeNotAvailable(
                node,
                instance.uuid,
                "Ironic has reserved it, but the records have another instance on it, which it "
                "does not carry: delete that one",
            ) from error
        return dataclasses.replace(instance, node=node)

    def _succeeded(self, instance: Instance) -> Result:
        try:
            power_state = self._driver.get_info(instance).state
        except exceptions.IronicVirtError as error:
            LOG.debug("The power state of instance %s comes later: %s", instance.uuid, error)
            power_state = virt.PowerState.NOSTATE
        done = self._instances.finish(
            instance.uuid,
            TaskState.SPAWNING,
            vm_state=VmState.ACTIVE,
            power_state=power_state,
        )
        return Result.DONE if done else Result.ABORTED

    # -- what comes after a failure -------------------------------------------

    def _failed(self, instance: Instance, error: Exception) -> Result:
        try:
            self._driver.failed_spawn_cleanup(instance)
        except exceptions.WaitCancelled:
            raise
        except (*faults.OUT_OF_REACH, exceptions.NodeLocked) as trouble:
            raise TryLater(
                f"{faults.one_line(error)}. And its node could not be given back: "
                f"{faults.one_line(trouble)}"
            ) from error
        except exceptions.IronicVirtError as trouble:
            # The claim stays: whoever got the node next would find it taken.
            return self._fail(
                instance,
                error,
                f"{faults.one_line(error)}. Its node could not be given back either: "
                f"{faults.one_line(trouble)}. Deleting the instance tries that again",
                release=False,
            )
        if not _another_node_may_do(error):
            return self._fail(instance, error, faults.one_line(error))
        if instance.requested_node is not None:
            return self._fail(
                instance,
                error,
                f"{faults.one_line(error)}. No other node is tried: this one was asked for",
            )
        attempts = self._conf.scheduler.max_attempts
        if instance.attempts >= attempts:
            return self._fail(
                instance,
                error,
                f"{faults.one_line(error)}. That was the last of {attempts} attempts "
                f"([scheduler] max_attempts){self._before(instance)}",
            )
        return self._reschedule(instance, error)

    def _reschedule(self, instance: Instance, error: Exception) -> Result:
        try:
            node = self._placing.move_build(
                instance, faults.fault(error), _given_up(instance, error)
            )
        except exceptions.NoValidHost as nowhere:
            return self._fail(
                instance,
                error,
                f"{faults.one_line(error)}. And there is no other node to try: "
                f"{faults.one_line(nowhere)}{self._before(instance)}",
            )
        if node is None:
            return Result.ABORTED
        LOG.warning(
            "%s. Instance %s is now to be built on node %s of host %s, attempt %d of %d",
            *(faults.one_line(error), instance.uuid, node.uuid, node.host),
            *(instance.attempts + 1, self._conf.scheduler.max_attempts),
        )
        return Result.RESCHEDULED

    def _before(self, instance: Instance) -> str:
        """Why the earlier attempts failed, where there was no node for them."""
        if instance.pool is None or instance.attempts < 2:
            return ""
        former = reversed(self._faults.list(instance.uuid)[: instance.attempts - 1])
        told = [f"{number}, {one.host}: {one.message}" for number, one in enumerate(former, 1)]
        return f". Attempt {'; attempt '.join(told)}" if told else ""

    def _fail(
        self, instance: Instance, error: Exception, message: str, *, release: bool = True
    ) -> Result:
        failed = self._instances.fail(
            instance.uuid,
            TaskState.SPAWNING,
            faults.fault(error, message),
            release=release,
        )
        if not failed:
            return Result.ABORTED
        LOG.error("Instance %s was not built: %s", instance.uuid, message)
        return Result.FAILED


def _given_up(instance: Instance, error: Exception) -> str | None:
    """What is not to be tried again: the node, or the pool that had none."""
    if instance.pool is None:
        return instance.node
    if isinstance(error, exceptions.ReservationFailed):
        return instance.pool
    node = error.node if isinstance(error, exceptions.NodeError) else None
    return node or instance.node or instance.pool


def _another_node_may_do(error: Exception) -> bool:
    if isinstance(error, exceptions.NodeError):
        return error.retriable
    # What Ironic says of a request for one node need not hold for another.
    return isinstance(error, exceptions.IronicError) and not isinstance(
        error, exceptions.MicroversionNotSupported
    )
