# SPDX-License-Identifier: Apache-2.0

"""Building an instance: from the claim in the records to an instance that is active.

A build that failed leaves nothing behind: its node is given back in Ironic first
and in the records afterwards, so that a crash in between loses neither.  Then it
is tried on another node, or the instance is in error and its fault says why.  After an error
that is not about the node, a deployment that has begun goes on.

Where Ironic picks the node, the claim is a place in a pool, and which node it has
become is written down as soon as it is reserved.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

from oslo_config import cfg
from oslo_log import log as logging

from ironic_virt import exceptions, virt
from ironic_virt.compute.actions import OUT_OF_REACH, Settled, Task, TryLater
from ironic_virt.compute.db import Database
from ironic_virt.compute.db.compute_nodes import Place
from ironic_virt.compute.db.records import Fault, Instance
from ironic_virt.compute.errors import ClaimLost, NoSuchInstance, one_line
from ironic_virt.compute.states import TaskState, VmState
from ironic_virt.request.spec import RequestSpec
from ironic_virt.scheduler.filter_scheduler import FilterScheduler

if TYPE_CHECKING:
    from ironic_virt.driver import IronicDriver

LOG = logging.getLogger(__name__)


class Build:
    """Builds instances, and decides what comes after a failure.  Thread-safe.

    :param incarnation: of this process, which must still be the service's to write an outcome.
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
        self._db = database
        self._scheduler = FilterScheduler.from_conf(conf)
        self._incarnation = incarnation

    def __call__(self, task: Task) -> Settled | None:
        """Go on with a build wherever it stands.

        :returns: ``None``: it is not wanted any more.
        """
        instance = self._placed(task.instance)
        if instance is None:
            return None
        self._driver.spawn(virt.DeployRequest(instance, instance.image, instance.ports))
        return Settled(VmState.ACTIVE, task.power_state())

    def _placed(self, instance: Instance) -> Instance | None:
        """The instance with a node: where Ironic picks it, reserved now, else by the spawn.

        :returns: ``None``: it is not wanted any more.
        """
        in_pool = instance.node is None and instance.pool is not None
        if not self._driver.picks_nodes():
            if in_pool:
                raise exceptions.NodeNotAvailable(
                    None,
                    instance.uuid,
                    f"it was to get a node of pool {instance.pool}, and the scheduler picks the "
                    "nodes by now ([ironic] node_selection)",
                )
            return instance
        # For a driver, a pool's name is that of a compute node.
        place = instance.pool if in_pool else instance.node
        self._driver.prepare_for_spawn(dataclasses.replace(instance, node=place))
        node = self._driver.node_of(dataclasses.replace(instance, node=None))
        if node is None or node == instance.node:
            return instance
        try:
            if not self._db.instances.placed(instance, node, self._incarnation):
                return None
        except ClaimLost as error:
            raise exceptions.NodeNotAvailable(
                node,
                instance.uuid,
                "Ironic has reserved it, but the records have another server on it, which it "
                "does not carry: delete that one",
            ) from error
        return dataclasses.replace(instance, node=node)

    # -- what comes after a failure -------------------------------------------

    def failed(self, task: Task, error: Exception) -> Settled | None:
        """Give the node back, and try another one or end in error.

        :returns: ``None``: the build goes on elsewhere, or is not wanted any more.
        :raises TryLater: the node could not be given back now.
        """
        try:
            # With the node that was picked for it meanwhile.
            instance = self._db.instances.get(task.instance.uuid)
        except NoSuchInstance:
            return None
        began = (TaskState.SPAWNING, task.instance.host, task.instance.attempts)
        if (instance.task_state, instance.host, instance.attempts) != began:
            return None
        if not isinstance(error, exceptions.NodeError) and self._has_begun(instance):
            raise TryLater(f"{one_line(error)}. And its deployment has begun") from error
        try:
            self._driver.failed_spawn_cleanup(instance)
        except exceptions.WaitCancelled:
            raise
        except (*OUT_OF_REACH, exceptions.NodeLocked) as trouble:
            raise TryLater(
                f"{one_line(error)}. And its node could not be given back: {one_line(trouble)}"
            ) from error
        except exceptions.IronicVirtError as trouble:
            # The claim stays: whoever got the node next would find it taken.
            more = f"Its node could not be given back either: {one_line(trouble)}"
            more += ". Deleting the server tries that again"
            return _in_error(instance, error, more, released=False)
        if not _another_node_may_do(error):
            return _in_error(instance, error)
        if instance.requested_node is not None:
            return _in_error(instance, error, "No other node is tried: this one was requested")
        attempts = self._conf.scheduler.max_attempts
        # If the guard refused the node, nothing was changed, so it doesn't count as an attempt.
        refused = isinstance(error, exceptions.NodeNotOurs)
        if not refused and instance.attempts - instance.refusals >= attempts:
            more = f"That was the last of {attempts} attempts ([scheduler] max_attempts)"
            return _in_error(instance, error, more)
        return self._reschedule(instance, error, refused)

    def _has_begun(self, instance: Instance) -> bool:
        """Whether a node is deployed for the instance, or being deployed.

        :raises TryLater: that is not known now.
        """
        try:
            info = self._driver.get_info(instance, use_cache=False)
        except exceptions.InstanceNotFound:
            return False
        except exceptions.IronicError as trouble:
            raise TryLater(one_line(trouble)) from trouble
        return info.active or info.deploying

    def _reschedule(self, instance: Instance, error: Exception, refused: bool) -> Settled | None:
        """Give a build another node, or a place in a pool, perhaps of another host.

        The former one is released.

        :param refused: the guard has refused the node, and nothing was changed there.
        """
        given_up = _given_up(instance, error)
        spec = RequestSpec.from_flavor(
            instance.flavor,
            instance_uuid=instance.uuid,
            image=instance.image,
            exclude_nodes={*instance.tried_nodes, *([given_up] if given_up else [])},
        )

        def move(places: Sequence[Place]) -> Place | None:
            (place,) = places
            began = (instance, place, Fault.of(error), self._incarnation)
            moved = self._db.instances.reschedule(*began, tried=given_up, refused=refused)
            return place if moved else None

        try:
            node = self._db.candidates.claim(move, self._scheduler, spec)
        except exceptions.NoValidHost as nowhere:
            more = f"And there is no other node to try: {one_line(nowhere)}"
            if instance.attempts > 1 and instance.fault is not None:
                more += f". The attempt before failed: {instance.fault.message}"
            return _in_error(instance, error, more)
        if node is not None:
            LOG.warning(
                "[build-retried] %s. Instance %s is now to be built on node %s of host %s, "
                "attempt %d of %d",
                *(one_line(error), instance.uuid, node.uuid, node.host),
                instance.attempts - instance.refusals + (not refused),
                self._conf.scheduler.max_attempts,
            )
        return None


def _in_error(
    instance: Instance, error: Exception, more: str = "", *, released: bool = True
) -> Settled:
    """What an instance is that was not built.

    :param more: what else its owner has to know, a sentence without its full stop.
    """
    message = f"{one_line(error)}. {more}" if more else one_line(error)
    LOG.error("[build-failed] Instance %s was not built: %s", instance.uuid, message)
    fault = Fault.of(error, message)
    return Settled(VmState.ERROR, applied=False, fault=fault, released=released)


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
