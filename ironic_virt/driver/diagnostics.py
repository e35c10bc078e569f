# SPDX-License-Identifier: Apache-2.0

"""What Ironic has to say of an instance that runs: its power, and the hardware under it.

Ironic doesn't look into a running system, so counters of use there are none.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable

from ironic_virt.baremetal import states
from ironic_virt.baremetal.client import IronicClient
from ironic_virt.driver import resources
from ironic_virt.driver.access import NodeAccess
from ironic_virt.virt import InstanceDiagnostics, InstanceLike


def _utc_now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


def diagnose(
    client: IronicClient,
    access: NodeAccess,
    instance: InstanceLike,
    now: Callable[[], datetime.datetime] = _utc_now,
) -> InstanceDiagnostics:
    """Ask Ironic, by three requests.

    :param now: the time in UTC.
    :raises InstanceNotFound: no node carries the instance.
    """
    node = access.of_instance(instance)
    ports = client.ports.listed(node.uuid)
    switched = None
    if node.power_state == states.POWER_ON and node.target_power_state is None:
        switched = client.management.power_changed_at(node.uuid)
    return InstanceDiagnostics(
        state=resources.instance_info(node).state,
        hypervisor=resources.HYPERVISOR_TYPE,
        # Ironic's clock may be ahead of ours.
        uptime=None if switched is None else max(int((now() - switched).total_seconds()), 0),
        config_drive=bool((node.instance_info or {}).get("configdrive")),
        cpus=node.properties.cpus,
        memory_mb=node.properties.memory_mb or None,
        macs=tuple(port.address for port in ports if port.address is not None),
    )
