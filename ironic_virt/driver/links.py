# SPDX-License-Identifier: Apache-2.0

"""Which physical link each VIF has on a node: what a config drive must tell the system."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from ironic_virt.baremetal.ports import Port, Portgroup


@dataclasses.dataclass(frozen=True, slots=True)
class Link:
    """The port, or the bonded ports, that a VIF is attached to.

    :param address: the MAC address that the system sees; ``None`` if it is the VIF's.
    :param ports: a bond's members; empty for a single port.
    :param bond_mode: how they are bonded.
    :param bond_properties: further bonding options by name.
    """

    address: str | None
    ports: tuple[Port, ...] = ()
    bond_mode: str | None = None
    bond_properties: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    is_bond: bool = False


def links(ports: Iterable[Port], portgroups: Iterable[Portgroup]) -> dict[str, Link]:
    """The links of a node by VIF."""
    ports = list(ports)
    found = {port.vif: Link(port.address) for port in ports if port.vif}
    for group in portgroups:
        if group.vif:
            found[group.vif] = Link(
                group.address,
                tuple(port for port in ports if port.portgroup_uuid == group.uuid),
                group.mode,
                group.properties or {},
                is_bond=True,
            )
    return found
