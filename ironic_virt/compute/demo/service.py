# SPDX-License-Identifier: Apache-2.0

"""The smallest compute service that a driver can work for, all in memory.

It has one host, keeps its instances in a dict, and picks nodes by what the
driver says of them.  Its methods may be called from any thread.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ironic_virt import virt
from ironic_virt.compute.demo.errors import DemoFailed
from ironic_virt.compute.demo.progress import Board


class Service(virt.VirtAPI):
    """What the driver asks of the demo.

    :param host: this service's name.
    :param board: where progress is noted.
    """

    def __init__(self, host: str, board: Board) -> None:
        self._host = host
        self._board = board
        self._lock = threading.Lock()
        self._instances: dict[str, virt.Instance] = {}

    # -- records --------------------------------------------------------------

    def add(self, instance: virt.Instance) -> None:
        """Take an instance into the records."""
        with self._lock:
            self._instances[instance.uuid] = instance

    def remove(self, uuid: str) -> None:
        """Drop an instance from the records."""
        with self._lock:
            self._instances.pop(uuid, None)

    @property
    def instances(self) -> list[virt.Instance]:
        """All instances, in the order in which they were added."""
        with self._lock:
            return list(self._instances.values())

    # -- the driver's questions -----------------------------------------------

    @property
    def host(self) -> str:
        """See :class:`virt.VirtAPI`."""
        return self._host

    def live_hosts(self) -> Collection[str]:
        """See :class:`virt.VirtAPI`."""
        return (self._host,)

    def owned_instance_uuids(self) -> Collection[str]:
        """See :class:`virt.VirtAPI`."""
        with self._lock:
            return tuple(self._instances)

    def abort_reason(self, instance: virt.InstanceLike) -> str | None:
        """See :class:`virt.VirtAPI`."""
        return None

    def instance_names(self, uuids: Collection[str]) -> Mapping[str, str]:
        """See :class:`virt.VirtAPI`."""
        return {one.uuid: one.name for one in self.instances if one.uuid in uuids}

    def config_drive(
        self,
        context: Any,
        instance: virt.InstanceLike,
        *,
        network_info: virt.NetworkInfo,
        injected_files: Sequence[tuple[str, bytes]],
        admin_password: str | None,
    ) -> virt.ConfigDrive:
        """See :class:`virt.VirtAPI`."""
        name = instance.display_name or instance.name
        return virt.ConfigDrive(
            meta_data={"uuid": instance.uuid, "name": name, "hostname": name},
            user_data=f"#cloud-config\nhostname: {name}\n",
        )

    def report_progress(self, instance: virt.InstanceLike, step: str, detail: str = "") -> None:
        """See :class:`virt.VirtAPI`."""
        self._board.report(instance.uuid, step, detail)


def pick_nodes(
    offers: Mapping[str, virt.NodeInventory], resource_class: str, count: int
) -> list[str]:
    """Pick nodes for ``count`` instances, in the order of the offers.

    :param offers: by node uuid, what the driver says of it.
    :param resource_class: in Placement's form, ``CUSTOM_...``.
    :raises DemoFailed: there are too few; it says how many each condition left.
    """
    of_class = [uuid for uuid, offer in offers.items() if offer.placement_class == resource_class]
    free = [uuid for uuid in of_class if offers[uuid].total > offers[uuid].reserved]
    if len(free) < count:
        raise DemoFailed(
            f"Too few nodes for {count} instances: of {len(offers)} nodes {len(of_class)} are "
            f"{resource_class}, and {len(free)} of those are free"
        )
    return free[:count]
