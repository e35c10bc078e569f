# SPDX-License-Identifier: Apache-2.0

"""A server's ports, as nova-compute asks for them.

Nova makes the ports in Neutron and leaves them unbound; Ironic binds each one, when the
node is deployed or the interface attached.  Ironic also picks
the port of the node that it gets.
"""

from __future__ import annotations

from typing import Any

from nova import exception

from ironic_virt import driver
from ironic_virt.nova import values
from ironic_virt.nova.errors import Doing, translated
from ironic_virt.nova.virtapi import (
    ATTACH_INTERFACE_EVENT,
    DETACH_INTERFACE_EVENT,
    NovaVirtAPI,
)


class Networks:
    """The part of the virt driver that is about ports."""

    _driver: driver.IronicDriver
    _records: NovaVirtAPI

    # -- a build --------------------------------------------------------------

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
        with (
            self._records.noting(instance._context, instance),
            translated(Doing.NETWORKS, instance),
        ):
            self._driver.prepare_networks_before_block_device_mapping(instance, vifs)

    def plug_vifs(self, instance: Any, network_info: Any) -> None:
        """Nothing: a VIF stays attached as long as the node has the instance."""

    def unplug_vifs(self, instance: Any, network_info: Any) -> None:
        """Nothing: destroying the instance has detached them."""

    # -- a server that is there -----------------------------------------------

    def attach_interface(self, context: Any, instance: Any, image_meta: Any, vif: Any) -> None:
        """Attach an interface; if that fails, Nova releases the port.

        Nova's answer gives no reason, so the reason is kept with the server's actions.
        """
        with (
            self._records.noting(context, instance, ATTACH_INTERFACE_EVENT),
            translated(Doing.ATTACH_INTERFACE, instance),
        ):
            self._driver.attach_interface(instance, values.single_vif(vif))

    def detach_interface(self, context: Any, instance: Any, vif: Any) -> None:
        """Detach an interface; the reason of a failure is kept, too."""
        with (
            self._records.noting(context, instance, DETACH_INTERFACE_EVENT),
            translated(Doing.DETACH_INTERFACE, instance),
        ):
            self._driver.detach_interface(instance, values.single_vif(vif))
