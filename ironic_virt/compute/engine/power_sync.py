# SPDX-License-Identifier: Apache-2.0

"""Keeps the instances' records as the hardware is: on, off, or not there any more.

What was done to a node behind the service's back is taken as it is: an instance
whose node was switched off is stopped.  An instance that no node carries any more is in
error, after Ironic itself has said so and shown its node.

Only instances without a task are checked; a task of another one will set its
state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oslo_log import log as logging

from ironic_virt import exceptions, virt
from ironic_virt.compute.actions import VM_STATES, Settled
from ironic_virt.compute.db import Database
from ironic_virt.compute.db.records import Fault, Instance
from ironic_virt.compute.errors import one_line
from ironic_virt.compute.states import SETTLED, VmState

if TYPE_CHECKING:
    from ironic_virt.driver import IronicDriver

LOG = logging.getLogger(__name__)

_SHOWN = 10


class PowerSync:
    """Compares all instances of this host."""

    def __init__(self, host: str, driver: IronicDriver, database: Database) -> None:
        self._host = host
        self._driver = driver
        self._instances = database.instances
        self._strangers: set[str] = set()

    def sync(self) -> None:
        """Compare all, and write what differs.

        :raises DatabaseError: the records can't be read or written.
        """
        self._look_for_strangers()
        for instance in self._instances.list(self._host):
            if instance.task_state or instance.vm_state not in SETTLED:
                continue
            try:
                power_state = self._driver.get_info(instance).state
            except exceptions.InstanceNotFound as error:
                self._gone(instance, error)
            except exceptions.IronicVirtError as error:
                LOG.warning(
                    "[power-not-compared] The power state of instance %s: %s", instance.uuid, error
                )
                if isinstance(error, exceptions.IronicError):
                    # The next round continues.
                    return
            else:
                self._compare(instance, power_state)

    def _look_for_strangers(self) -> None:
        """Tell of instances on this host's nodes that no record knows; nothing is done to them."""
        try:
            carried = set(self._driver.list_instance_uuids())
        except exceptions.IronicError as error:
            LOG.debug("Can't list the instances on the nodes: %s", error)
            return
        strangers = carried.difference(self._instances.hosts(carried))
        if news := sorted(strangers - self._strangers):
            LOG.warning(
                "[instance-unknown] %d nodes carry instances that the records don't know; they "
                "are left alone: %s%s",
                *(len(news), ", ".join(news[:_SHOWN]), ", ..." if len(news) > _SHOWN else ""),
            )
        self._strangers = strangers

    def _compare(self, instance: Instance, power_state: virt.PowerState) -> None:
        vm_state = VmState(instance.vm_state)
        if vm_state in VM_STATES.values():
            # It runs its own system, or would.
            vm_state = VM_STATES.get(power_state, vm_state)
        if (instance.power_state, instance.vm_state) == (power_state, vm_state):
            return
        if not self._instances.settle(instance, Settled(vm_state, power_state)):
            return
        LOG.warning(
            "[power-state-changed] Instance %s, node %s: its power state is %s, the record said "
            "%s; the instance is now %s instead of %s",
            *(instance.uuid, instance.node),
            *(power_state.name, virt.PowerState(instance.power_state).name),
            *(vm_state, instance.vm_state),
        )

    def _gone(self, instance: Instance, error: exceptions.InstanceNotFound) -> None:
        try:
            self._driver.get_available_resource(str(instance.node))
        except (exceptions.NodeNotAvailable, exceptions.IronicError) as unseen:
            # A role that shows a project its own nodes only gets the same answers.
            LOG.warning(
                "[power-not-compared] Instance %s: Ironic does not show its node either: %s. If "
                "the node is gone, delete the server; else give the user of [ironic] a role that "
                "shows all nodes",
                *(instance.uuid, one_line(unseen)),
            )
            return
        message = (
            f"{one_line(error)} any more: somebody has taken it off node {instance.node}. "
            "Delete it"
        )
        fault = Fault.of(error, message)
        if self._instances.settle(instance, Settled(VmState.ERROR, fault=fault)):
            LOG.error("[instance-off-its-node] Instance %s: %s", instance.uuid, message)
