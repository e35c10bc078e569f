# SPDX-License-Identifier: Apache-2.0

"""A server's volumes, as nova-compute asks for them.

Nova attaches them in Cinder, for which it needs to know the node, and hands over what
Cinder has said with the spawn.  Ironic connects them when it deploys the node, so those
of a server that is there can't be changed.
"""

from __future__ import annotations

from typing import Any

from ironic_virt import driver, exceptions
from ironic_virt.nova.errors import Doing, translated

_WHEN = "Ironic connects a node's volumes when it deploys it. Name them when the server is created"


class Volumes:
    """The part of the virt driver that is about volumes."""

    _driver: driver.IronicDriver

    def get_volume_connector(self, instance: Any) -> dict[str, Any]:
        """What Cinder must know of the server's node."""
        with translated(Doing.LOOK, instance):
            return dict(self._driver.get_volume_connector(instance))

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
            raise exceptions.OperationNotSupported(
                "attaching a volume to a server that runs", _WHEN
            )

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
                "detaching a volume of a server that runs", _WHEN
            )
