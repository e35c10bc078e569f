# SPDX-License-Identifier: Apache-2.0

"""A hook: a second network for servers that were created with ``storage=wanted``."""

from __future__ import annotations

import ipaddress
from typing import Any

from oslo_config import cfg

from ironic_virt.driver import hooks

OPTIONS = [cfg.IntOpt("mtu", default=9000, help="Of the links into the storage network.")]


class StorageNetwork(hooks.Hook):
    """Describes the ports of the node that are plugged into the physical network "storage".

    Their addresses are in their ``extra`` in Ironic: ``storage_address = 10.7.0.4/24``.
    """

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        super().__init__(conf)
        conf.register_opts(OPTIONS, group="storage_network")
        self._conf = conf

    def before_deploy(self, deployment: hooks.Deployment) -> None:
        if is_wanted(deployment) and not ports(deployment):
            raise hooks.Refused("its node has no storage port", another_node=True)

    def network_data(self, data: dict[str, Any], deployment: hooks.Deployment) -> dict[str, Any]:
        if not is_wanted(deployment):
            return data
        for port in ports(deployment):
            address = ipaddress.ip_interface(port.extra["storage_address"])
            link = {
                "id": f"storage-{port.uuid}",
                "type": "phy",
                "ethernet_mac_address": port.address,
                "mtu": self._conf.storage_network.mtu,
            }
            network = {
                "id": f"storage-{port.uuid}",
                "type": "ipv4",
                "link": link["id"],
                "ip_address": str(address.ip),
                "netmask": str(address.netmask),
                "routes": [],
            }
            data["links"].append(link)
            data["networks"].append(network)
        return data


def is_wanted(deployment: hooks.Deployment) -> bool:
    return deployment.metadata.get("storage") == "wanted"


def ports(deployment: hooks.Deployment) -> list[hooks.Port]:
    return [
        port
        for port in deployment.ports()
        if port.physical_network == "storage" and "storage_address" in (port.extra or {})
    ]
