# SPDX-License-Identifier: Apache-2.0

"""Between the contract's values and Nova's.

Nova's instances, flavors and images are what the contract's Protocols ask for and
pass as they are.  Left are network information, whose VIFs are dicts there, and what
the driver answers, which Nova wants as dicts and trees.
"""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from nova import block_device, exception, objects
from nova.compute import power_state
from nova.network import model
from nova.objects import fields
from nova.virt import driver as nova_driver
from nova.virt import hardware

from ironic_virt import virt
from ironic_virt.driver.resources import HYPERVISOR_TYPE
from ironic_virt.nova.sizes import FAILURE_DOMAINS, STATS_PREFIX, TRAITS


def server_group(group: Any, **more: Any) -> virt.ServerGroup:
    """A group of Nova's, with what else is known of it."""
    most = int((group.rules or {}).get("max_server_per_host", 1))
    return virt.ServerGroup(group.uuid, group.name, group.policy or "", most, **more)


class Vifs(list[virt.VifLike]):
    """Nova's network information as the contract's; waits for Nova, which may still be allocating.

    :ivar model: Nova's own object.
    """

    def __init__(self, network_info: Any) -> None:
        self.model = model.NetworkInfo() if network_info is None else network_info
        super().__init__(map(single_vif, self.model))


def single_vif(vif: Any) -> virt.Vif:
    """One of Nova's VIFs."""
    return virt.Vif(str(vif["id"]), vif.get("address"))


def model_of(network_info: virt.NetworkInfo) -> Any:
    """Nova's own object, as it came."""
    return network_info.model if isinstance(network_info, Vifs) else model.NetworkInfo()


def volumes_of(block_device_info: Any) -> list[virt.BlockDevice]:
    """The volumes in Nova's description of a server's disks.

    The one that Nova boots from has index 0; the devices' names don't matter.  The others are
    numbered in Nova's order, because Nova gives them no index, or all the same one.
    """
    devices = nova_driver.block_device_info_get_mapping(block_device_info)
    root = block_device.get_root_bdm(devices)
    numbers = itertools.count(1)
    volumes = []
    for device in devices:
        connection = device.get("connection_info") or {}
        uuid = (
            getattr(device, "volume_id", None)
            or (connection.get("data") or {}).get("volume_id")
            or connection.get("serial")
        )
        index = 0 if device is root else next(numbers)
        volumes.append(virt.BlockDevice(str(uuid), index, connection))
    return volumes


def image_of(image_meta: Any) -> virt.ImageMeta:
    """An image whose properties are a mapping; a server that boots from a volume has no id."""
    values: dict[str, Any] = {}
    if image_meta.obj_attr_is_set("properties"):
        properties = image_meta.properties
        names = filter(properties.obj_attr_is_set, properties.fields)
        values = {name: getattr(properties, name) for name in names}
    uuid = image_meta.id if image_meta.obj_attr_is_set("id") else ""
    return virt.ImageMeta(id=uuid, properties=values)


def instance_info(state: int | None) -> Any:
    """A power state, whose numbers are Nova's; records may have none."""
    return hardware.InstanceInfo(state=power_state.NOSTATE if state is None else int(state))


def diagnostics_of(seen: virt.InstanceDiagnostics) -> Any:
    """What is known of a running server."""
    diagnosis = objects.Diagnostics(
        state=fields.InstancePowerState.from_index(int(seen.state)),
        driver=fields.HypervisorDriver.IRONIC,
        hypervisor=seen.hypervisor,
        hypervisor_os=None,
        uptime=seen.uptime,
        config_drive=seen.config_drive,
        memory_details=objects.MemoryDiagnostics(maximum=seen.memory_mb, used=None),
        cpu_details=[],
        nic_details=[],
        disk_details=[],
    )
    for number in range(seen.cpus):
        diagnosis.add_cpu(id=number)
    for address in seen.macs:
        diagnosis.add_nic(mac_address=address)
    return diagnosis


def resource_of(node: virt.NodeResource) -> dict[str, Any]:
    """A node for Nova's resource tracker.

    Sizes are 0, as Nova has them for bare metal: a node goes by its resource class,
    and Nova would otherwise subtract flavors' sizes from it.  A filter reads the real
    ones in ``stats``, under :data:`STATS_PREFIX`.
    """
    stats: dict[str, str | None] = {"cpu_arch": None, **node.stats}
    for name in ("vcpus", "memory_mb", "local_gb"):
        stats[STATS_PREFIX + name] = str(getattr(node, name))
    if node.failure_domains is not None:
        stats[FAILURE_DOMAINS] = json.dumps(node.failure_domains, sort_keys=True)
    if node.traits:
        stats[TRAITS] = ",".join(sorted(node.traits))
    return {
        "uuid": node.uuid,
        "hypervisor_hostname": node.hypervisor_hostname,
        "hypervisor_type": HYPERVISOR_TYPE,
        "hypervisor_version": 1,
        "resource_class": node.resource_class,
        "cpu_info": None,
        "vcpus": 0,
        "vcpus_used": 0,
        "memory_mb": 0,
        "memory_mb_used": 0,
        "local_gb": 0,
        "local_gb_used": 0,
        "disk_available_least": 0,
        "supported_instances": _supported_instances(node.cpu_arch),
        "stats": stats,
        "numa_topology": None,
    }


def _supported_instances(cpu_arch: str | None) -> list[tuple[str, str, str]]:
    try:
        arch = fields.Architecture.canonicalize(cpu_arch)
    except exception.InvalidArchitectureName:
        return []
    return [(arch, fields.HVType.BAREMETAL, fields.VMMode.HVM)] if arch else []


class ProviderOffer(NamedTuple):
    """What a node's resource provider is to have; not to be changed."""

    inventory: Mapping[str, Mapping[str, Any]]
    traits: frozenset[str]


def offer_of(nodename: str, offered: virt.NodeInventory) -> ProviderOffer:
    """What a node offers, in Placement's terms.

    :raises NoResourceClass: the node has none, so nothing can be scheduled to it.
    """
    if not offered.resource_class:
        raise exception.NoResourceClass(node=nodename)
    inventory = _inventory(offered.placement_class, offered.total, offered.reserved)
    return ProviderOffer(inventory, offered.traits)


@functools.lru_cache(maxsize=256)
def _inventory(placement_class: str, total: int, reserved: int) -> dict[str, dict[str, Any]]:
    """Of whichever nodes; there are few kinds of them."""
    if not total:
        # Placement knows no total of 0: a pool that has just lost its last node.
        return {}
    return {
        placement_class: {
            "total": total,
            "reserved": reserved,
            "min_unit": 1,
            "max_unit": 1,
            "step_size": 1,
            "allocation_ratio": 1.0,
        }
    }


def update_provider_tree(tree: Any, nodename: str, offer: ProviderOffer) -> None:
    """Write what a node offers into its resource provider, which takes a copy."""
    tree.update_inventory(nodename, offer.inventory)
    tree.update_traits(nodename, offer.traits)
