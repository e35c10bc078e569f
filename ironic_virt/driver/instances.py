# SPDX-License-Identifier: Apache-2.0

"""The instances on this host's nodes, and what Ironic says of one that runs.

Ironic doesn't look into a running system, so counters of use there are none.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable

from ironic_virt.baremetal import states
from ironic_virt.driver import resources
from ironic_virt.driver.site import Site
from ironic_virt.virt import InstanceDiagnostics, InstanceInfo, InstanceLike


def _utc_now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


class Instances:
    """Answers what a compute service asks of instances.  Thread-safe.

    :param now: the time in UTC.
    """

    def __init__(self, site: Site, now: Callable[[], datetime.datetime] = _utc_now) -> None:
        self._site = site
        self._now = now

    def uuids(self) -> list[str]:
        """The uuids of the instances on our nodes."""
        ours, elsewhere = self._site.nodes.ours()
        return [*(node.instance_uuid for node in ours if node.instance_uuid), *elsewhere]

    def exists(self, instance: InstanceLike) -> bool:
        """Whether any node in Ironic carries the instance."""
        return self._site.client.node_of_instance(instance.uuid) is not None

    def info(self, instance: InstanceLike, *, use_cache: bool) -> InstanceInfo:
        """The instance's power state.

        :param use_cache: as of the last list is enough.
        """
        node = self._site.nodes.snapshot().by_instance(instance.uuid) if use_cache else None
        return resources.power_of(node or self._site.nodes.read_carrier(instance))

    def diagnose(self, instance: InstanceLike) -> InstanceDiagnostics:
        """Its power, and the hardware under it; asked of Ironic by three requests."""
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
