# SPDX-License-Identifier: Apache-2.0

"""A server's volumes, as nova-compute asks for them.

Nova attaches them in Cinder, for which it needs to know the node, and hands over what
Cinder has said with the spawn.  Ironic connects them when it deploys the node, so those
of a server that is there can't be changed.
"""

from __future__ import annotations

from typing import Any

from nova.compute import task_states, vm_states

from ironic_virt import driver, exceptions
from ironic_virt.nova.errors import Doing, translated
from ironic_virt.nova.virtapi import NovaVirtAPI

_WHEN = "Ironic connects a node's volumes when it deploys it. Name them when the server is created"


class _Placed:
    """A server with the compute node that its record does not name yet."""

    def __init__(self, instance: Any, node: str) -> None:
        self._instance, self.node = instance, node

    def __getattr__(self, name: str) -> Any:
        return getattr(self._instance, name)


class Volumes:
    """The part of the virt driver that is about volumes."""

    _driver: driver.IronicDriver
    _records: NovaVirtAPI

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
        chosen = self._records.places(instance)
        names = self._driver.get_available_nodes()
        places = [name for name in names if self._driver.record_uuid(name) in chosen]
        try:
            if len(places) != 1:
                why = f"Placement names {', '.join(places) or 'none'} of this host's compute nodes"
                raise exceptions.ReservationFailed(instance.uuid, why, candidates=len(places))
            self._driver.prepare_for_spawn(_Placed(instance, places[0]))
        except Exception:
            # Nova undoes nothing as early as this.
            self._records.release_place(instance.uuid)
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
            raise exceptions.OperationNotSupported("attaching a volume to a running server", _WHEN)

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
            raise exceptions.OperationNotSupported(
                "detaching a volume from a running server", _WHEN
            )
