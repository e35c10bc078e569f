# SPDX-License-Identifier: Apache-2.0

"""A server's ports and volumes, as nova-compute asks for them.

Nova makes the ports in Neutron and leaves them unbound; Ironic binds each one, when the
node is deployed or the interface attached, and picks the port of the node that it gets.

Nova attaches volumes in Cinder, for which it needs to know the node, and hands over what
Cinder has said with the spawn.  Ironic connects them when it deploys the node, so those
of a server that is there can't be changed.
"""

from __future__ import annotations

import functools
from typing import Any

from nova import exception
from nova.compute import task_states, vm_states

from ironic_virt import driver, exceptions
from ironic_virt.driver.held import undo_after
from ironic_virt.nova import values
from ironic_virt.nova.errors import Doing, translated
from ironic_virt.nova.virtapi import NovaVirtAPI

_HOW = "Ironic connects a node's volumes when it deploys it. Name them when the server is created"


class _Placed:
    """A server with the compute node that its record does not name yet."""

    def __init__(self, instance: Any, node: str) -> None:
        self._instance, self.node = instance, node

    def __getattr__(self, name: str) -> Any:
        return getattr(self._instance, name)


class Attachments:
    """The part of the virt driver that is about ports and volumes."""

    _driver: driver.IronicDriver
    _records: NovaVirtAPI

    # -- the ports of a build --------------------------------------------------

    def network_binding_host_id(self, context: Any, instance: Any) -> str | None:
        """``None``: Ironic binds the ports when the node is deployed, and not before.

        A port bound earlier might be connected while Ironic's agent runs on the node, and
        its user could reach that.
        """
        return None

    def manages_network_binding_host_id(self) -> bool:
        """Return ``True``, so that Nova does not bind the ports: Ironic does."""
        return True

    def prepare_networks_before_block_device_mapping(
        self, instance: Any, network_info: Any
    ) -> None:
        """Attach the server's ports; volumes are connected through their addresses.

        What this attaches, :meth:`failed_spawn_cleanup` detaches.

        :raises InstanceUnacceptable: Nova could not create the ports.
        """
        try:
            # Nova may still be making them; this waits for it.
            vifs = values.Vifs(network_info)
        except exception.NovaException as exc:
            # One of the few errors before the spawn whose text Nova shows in the server's fault.
            raise exception.InstanceUnacceptable(
                instance_id=instance.uuid, reason=exc.format_message()
            ) from exc
        with self._records.noting(Doing.NETWORKS, instance):
            self._driver.prepare_networks_before_block_device_mapping(instance, vifs)

    def plug_vifs(self, instance: Any, network_info: Any) -> None:
        """Do nothing: a VIF is attached for as long as the node has the instance."""

    unplug_vifs = plug_vifs

    # -- the ports of a server that is there ----------------------------------

    def attach_interface(self, context: Any, instance: Any, image_meta: Any, vif: Any) -> None:
        """Attach an interface; the reason of a failure is kept, since Nova's answer has none."""
        with self._records.noting(Doing.ATTACH_INTERFACE, instance):
            self._driver.attach_interface(instance, values.single_vif(vif))

    def detach_interface(self, context: Any, instance: Any, vif: Any) -> None:
        """Detach an interface; the reason of a failure is kept, too."""
        with self._records.noting(Doing.DETACH_INTERFACE, instance):
            self._driver.detach_interface(instance, values.single_vif(vif))

    # -- volumes --------------------------------------------------------------

    def get_volume_connector(self, instance: Any) -> dict[str, Any]:
        """What Cinder must know of the server's node, which is reserved now if it is unshelved.

        For that Nova connects volumes before it calls anything else, and before the record
        of the server names the node; only Placement knows it.
        """
        unshelved = vm_states.SHELVED_OFFLOADED, task_states.SPAWNING
        if instance.node is None and (instance.vm_state, instance.task_state) == unshelved:
            with translated(Doing.PREPARE, instance):
                self._reserve_for(instance)
        with translated(Doing.LOOK, instance):
            return dict(self._driver.get_volume_connector(instance))

    def _reserve_for(self, instance: Any) -> None:
        try:
            chosen = self._records.places(instance)
            names = self._driver.get_available_nodes()
            places = [name for name in names if self._driver.record_uuid(name) in chosen]
            if len(places) != 1:
                why = f"Placement names {', '.join(places) or 'none'} of this host's compute nodes"
                raise exceptions.ReservationFailed(instance.uuid, why, candidates=len(places))
            # Nova forgets an unshelve that has failed, also if the driver could not undo it.
            is_nowhere = not self._records.instance_hosts([instance.uuid])
            self._driver.prepare_for_spawn(_Placed(instance, places[0]), is_nowhere=is_nowhere)
        except Exception as exc:
            # Nova undoes nothing as early as this.
            release = functools.partial(self._records.release_place, instance.uuid)
            undo_after(exc, instance, release, "Deleting its allocation in Placement")
            raise

    def attach_volume(
        self,
        context: Any,
        connection_info: Any,
        instance: Any,
        mountpoint: Any,
        disk_bus: Any = None,
        device_type: Any = None,
        encryption: Any = None,
    ) -> None:
        """Refused; Nova gives the volume back, and its user reads why."""
        with translated(Doing.VOLUMES, instance):
            raise exceptions.OperationNotSupported("attaching a volume to a running server", _HOW)

    def detach_volume(
        self,
        context: Any,
        connection_info: Any,
        instance: Any,
        mountpoint: Any,
        encryption: Any = None,
    ) -> None:
        """Refused; the volume stays the server's."""
        with translated(Doing.VOLUMES, instance):
            raise exceptions.OperationNotSupported("detaching a volume of a running server", _HOW)
