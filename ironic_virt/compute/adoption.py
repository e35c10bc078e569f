# SPDX-License-Identifier: Apache-2.0

"""Records of instances that Ironic has and the records lack, as after an old backup's restore.

All that a record can have comes from the node: the instance's uuid and name, its image, its
VIFs and its power.  Ironic is only asked.
"""

from __future__ import annotations

from typing import Any

from ironic_virt import virt
from ironic_virt.baremetal import states
from ironic_virt.baremetal.client import IronicClient
from ironic_virt.baremetal.node import Node
from ironic_virt.compute.actions import DEPLOYED
from ironic_virt.compute.db import Database
from ironic_virt.compute.db.records import Instance, NewInstance
from ironic_virt.compute.errors import InvalidRequest
from ironic_virt.compute.states import VmState

_POWER = {
    states.POWER_ON: virt.PowerState.RUNNING,
    states.POWER_OFF: virt.PowerState.SHUTDOWN,
}


def adopt(database: Database, client: IronicClient, uuid: str, flavor: virt.Flavor) -> Instance:
    """Write the record of the instance that a node has.

    :param uuid: the node's.
    :param flavor: the one that the instance was built with.
    :raises InvalidRequest: Ironic has no instance there that is deployed.
    :raises ComputeNodeNotFound: no service has a record of the node.
    :raises ComputeNodeInUse: the records have an instance on the node.
    :raises InstanceExists: the records have the instance, perhaps as a deleted one.
    :raises IronicError: Ironic could not be asked, or has no such node.
    """
    node = client.get_node(uuid)
    if node.instance_uuid is None or node.provision_state not in DEPLOYED:
        raise InvalidRequest(
            f"no server is deployed there: the node is {node.provision_state}, and its "
            f"instance_uuid is {node.instance_uuid or 'none'}"
        )
    power_state = _POWER.get(node.power_state or "", virt.PowerState.NOSTATE)
    vm_state = DEPLOYED[node.provision_state]
    if vm_state is VmState.ACTIVE and power_state is virt.PowerState.SHUTDOWN:
        vm_state = VmState.STOPPED
    info: dict[str, Any] = dict(node.instance_info or {})
    new = NewInstance(
        uuid=node.instance_uuid,
        flavor=flavor,
        image=virt.ImageMeta(
            str(info.get("image_source") or info.get("boot_iso") or ""),
            info.get("image_checksum") or info.get("image_os_hash_value"),
            info.get("image_disk_format"),
        ),
        display_name=_name(node, info),
        ports=tuple(virt.Vif(vif) for vif in client.ports.vifs(node.uuid)),
    )
    return database.instances.adopt(new, node.uuid, vm_state, power_state)


def _name(node: Node, info: dict[str, Any]) -> str | None:
    name = info.get("display_name")
    return str(name) if name and name != node.instance_uuid else None
