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
from ironic_virt.compute.actions import VM_STATES
from ironic_virt.compute.db import Database
from ironic_virt.compute.db.records import Instance, NewInstance
from ironic_virt.compute.errors import InvalidRequest
from ironic_virt.compute.states import VmState
from ironic_virt.driver.deploy.instance_info import IMAGE_PARTS
from ironic_virt.driver.resources import power_of

_PROPERTIES = {**IMAGE_PARTS, "ironic_ramdisk_deploy": "ironic_ramdisk_deploy"}


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
    is_rescued = node.provision_state == states.RESCUE
    if node.instance_uuid is None or not (is_rescued or node.provision_state == states.ACTIVE):
        raise InvalidRequest(
            f"no server is deployed there: the node is {node.provision_state}, and its "
            f"instance_uuid is {node.instance_uuid or 'none'}"
        )
    power_state = power_of(node).state
    vm_state = VmState.RESCUED if is_rescued else VM_STATES.get(power_state, VmState.ACTIVE)
    info: dict[str, Any] = dict(node.instance_info or {})
    name = info.get("display_name")
    new = NewInstance(
        uuid=node.instance_uuid,
        flavor=flavor,
        image=virt.ImageMeta(
            str(info.get("image_source") or info.get("boot_iso") or ""),
            info.get("image_checksum") or info.get("image_os_hash_value"),
            info.get("image_disk_format"),
            {name: str(info[key]) for name, key in _PROPERTIES.items() if info.get(key)},
        ),
        display_name=None if name is None else str(name),
        ports=tuple(virt.Vif(vif) for vif in client.ports.vifs(node.uuid)),
    )
    return database.instances.adopt(new, node.uuid, vm_state, power_state)
