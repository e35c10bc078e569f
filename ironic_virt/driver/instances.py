# SPDX-License-Identifier: Apache-2.0

"""The instances on this host's nodes, and what Ironic says of one that runs.

Ironic doesn't look into a running system, so counters of use there are none.
"""

from __future__ import annotations

import datetime

from ironic_virt.baremetal import states
from ironic_virt.driver import resources
from ironic_virt.driver.site import Site
from ironic_virt.virt import InstanceDiagnostics, InstanceInfo, InstanceLike


class Instances:
    """The part of the driver that only looks at instances.  Thread-safe."""

    _site: Site

    def list_instance_uuids(self) -> list[str]:
        """Return the uuids of the instances on this host's nodes."""
        ours, elsewhere = self._site.nodes.ours()
        return [*(node.instance_uuid for node in ours if node.instance_uuid), *elsewhere]

    def instance_exists(self, instance: InstanceLike) -> bool:
        """Whether any node in Ironic, of any host, has the instance."""
        return self._site.client.node_of_instance(instance.uuid) is not None

    def get_info(self, instance: InstanceLike, use_cache: bool = True) -> InstanceInfo:
        """Return the instance's power state.

        :param use_cache: the state as of the last refresh is enough.
        """
        node = self._site.nodes.snapshot().by_instance(instance.uuid) if use_cache else None
        return resources.power_of(node or self._site.nodes.read_carrier(instance))

    def get_instance_diagnostics(self, instance: InstanceLike) -> InstanceDiagnostics:
        """Return what is known of a running instance and of its hardware, by three requests."""
        client = self._site.client
        node = self._site.nodes.read_carrier(instance)
        ports = client.ports.listed(node.uuid)
        uptime = None
        if node.power_state == states.POWER_ON and node.target_power_state is None:
            switched = client.management.power_changed_at(node.uuid)
            if switched is not None:
                # Ironic's clock may be ahead of this host's.
                uptime = max(int((self._now() - switched).total_seconds()), 0)
        return InstanceDiagnostics(
            state=resources.power_of(node).state,
            hypervisor=resources.HYPERVISOR_TYPE,
            uptime=uptime,
            config_drive=bool((node.instance_info or {}).get("configdrive")),
            cpus=node.properties.cpus,
            memory_mb=node.properties.memory_mb or None,
            macs=tuple(port.address for port in ports if port.address is not None),
        )

    @staticmethod
    def _now() -> datetime.datetime:
        return datetime.datetime.now(datetime.UTC)
