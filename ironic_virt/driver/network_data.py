# SPDX-License-Identifier: Apache-2.0

"""Which physical link a VIF has on a node, and ``network_data.json``.  Pure functions.

That document says how the system on a node finds its networks.

The form is OpenStack's (``links``, ``networks``, ``services``), which cloud-init and others
read.  Links are the node's own ports with their MAC addresses; a port group is a link of
type ``bond``, whose members are links as well.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ironic_virt.baremetal.ports import Port, Portgroup
from ironic_virt.virt import NetworkInfo

NetworkData = dict[str, Any]

USUAL_MTU = 1500
"""The MTU of a network that doesn't state one: Ethernet's, in bytes."""


@dataclasses.dataclass(frozen=True, slots=True)
class Link:
    """The port, or the bonded ports, that a VIF is attached to.

    :param address: the MAC address that the system sees; ``None`` if it is the VIF's.
    :param bond: the port group; ``None``: it is a single port.
    :param ports: the bond's members.
    """

    address: str | None
    bond: Portgroup | None = None
    ports: tuple[Port, ...] = ()


def links_of(
    ports: Sequence[Port], portgroups: Iterable[Portgroup]
) -> tuple[dict[str, Link], list[Link]]:
    """The links of a node by VIF, and those without one.

    Of these, port groups are first, as Ironic gives them away.
    """
    by_vif = {port.vif: Link(port.address) for port in ports if port.vif}
    free = []
    for group in portgroups:
        members = tuple(port for port in ports if port.portgroup_uuid == group.uuid)
        link = Link(group.address, group, members)
        if group.vif:
            by_vif[group.vif] = link
        elif members:
            free.append(link)
    single = [port for port in ports if not (port.vif or port.portgroup_uuid)]
    return by_vif, free + [Link(port.address) for port in single if port.address]


def network_data(network_info: NetworkInfo, links: Mapping[str, Link]) -> NetworkData | None:
    """Network data of a service that knows nothing of its VIFs but their ids.

    Each is a network with DHCP.  A VIF without a link, as on a node whose network
    interface is ``noop``, is left out: the system would not find it.

    :param links: the physical link of each VIF.
    :returns: ``None`` if there is nothing to tell.
    """
    vifs = [vif for vif in network_info if vif.id in links]
    if not vifs:
        return None
    plain = {
        "links": [
            {"id": vif.id, "vif_id": vif.id, "type": "phy", "ethernet_mac_address": vif.address}
            for vif in vifs
        ],
        "networks": [
            {"id": f"network{number}", "link": vif.id, "type": "ipv4_dhcp"}
            for number, vif in enumerate(vifs)
        ],
        "services": [],
    }
    return with_links(plain, links)


def with_links(
    data: Mapping[str, Any], links: Mapping[str, Link], free: Sequence[Link] = ()
) -> NetworkData:
    """Network data with physical addresses, and with bonds spelled out.

    :param data: one of its ``links`` whose VIF has no physical link stays as it is, as does one
        with an address and no ``vif_id``.
    :param links: the physical link of each VIF.
    :param free: for those that name neither, one after the other; see :func:`links_of`.
    :raises ValueError: there are too few.
    """
    count = sum(map(_is_on_any_port, data["links"]))
    if count > len(free):
        raise ValueError(
            f"{count} networks are wanted, and the node has {len(free)} ports and port groups "
            "without a VIF"
        )
    unused = iter(free)
    described: list[Mapping[str, Any]] = []
    members: list[Mapping[str, Any]] = []
    for link in data["links"]:
        is_on_any = _is_on_any_port(link)
        physical = next(unused) if is_on_any else links.get(link.get("vif_id", ""))
        if physical is None:
            described.append(link)
        elif physical.bond is not None:
            described.append(_bond(link, physical, physical.bond))
            members += [
                {"id": port.uuid, "type": "phy", "ethernet_mac_address": port.address}
                for port in physical.ports
            ]
        else:
            described.append({**link, "type": "phy", **_address(physical.address)})
    return {**data, "links": [*described, *members]}


def _is_on_any_port(link: Mapping[str, Any]) -> bool:
    """Whether a link names neither a VIF nor an address."""
    return link.get("type") == "phy" and not {"vif_id", "ethernet_mac_address"} & link.keys()


def with_mtus(data: Mapping[str, Any]) -> NetworkData:
    """Network data in which each link has an MTU; a bond's members have that of the bond.

    From release 30 on Ironic replaces the whole document if a link has none, and what hooks
    have written is lost.

    :param data: a link without an MTU in it gets :data:`USUAL_MTU`.
    """
    links = data.get("links") or []
    of_bonds = {
        member: link.get("mtu") for link in links for member in link.get("bond_links") or ()
    }
    return {
        **data,
        "links": [
            link
            if link.get("mtu") is not None
            else {**link, "mtu": of_bonds.get(link.get("id")) or USUAL_MTU}
            for link in links
        ],
    }


def _bond(link: Mapping[str, Any], physical: Link, bond: Portgroup) -> dict[str, Any]:
    """A bond; its options are the kernel's, which cloud-init takes with a prefix.

    A bond without a MAC address gets the VIF's, which Ironic leaves as it is then.  In a service
    without Neutron that may be missing, too: then it gets its first member's, as the kernel
    would choose.
    """
    address = physical.address
    if not address and not link.get("ethernet_mac_address"):
        address = next((port.address for port in physical.ports if port.address), None)
    options = {
        name if name.startswith("bond") else f"bond_{name}": value
        for name, value in (bond.properties or {}).items()
    }
    return {
        **link,
        "type": "bond",
        **_address(address),
        "bond_mode": bond.mode,
        "bond_links": [port.uuid for port in physical.ports],
        **options,
    }


def _address(address: str | None) -> dict[str, str]:
    return {"ethernet_mac_address": address} if address else {}
