# SPDX-License-Identifier: Apache-2.0

"""A node's network ports and port groups, as the driver reads them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

PORT_FIELDS = (
    "uuid",
    "address",
    "portgroup_uuid",
    "physical_network",
    "internal_info",
    "extra",
)
PORTGROUP_FIELDS = ("uuid", "address", "mode", "properties", "internal_info", "extra")


class _WithVif(msgspec.Struct, frozen=True):
    uuid: str
    address: str | None = None
    internal_info: Mapping[str, Any] | None = None
    extra: Mapping[str, Any] | None = None

    @property
    def vif(self) -> str | None:
        """The VIF attached to it; where older servers noted it counts too."""
        internal, extra = self.internal_info or {}, self.extra or {}
        return internal.get("tenant_vif_port_id") or extra.get("vif_port_id")


class Port(_WithVif, frozen=True):
    """A network port.

    :ivar address: its MAC address.
    :ivar portgroup_uuid: the port group that it is a member of.
    :ivar physical_network: the name of the network that it is plugged into.
    """

    portgroup_uuid: str | None = None
    physical_network: str | None = None


class Portgroup(_WithVif, frozen=True):
    """Ports that are bonded.

    :ivar address: the bond's MAC address; ``None`` if a port's is used.
    :ivar mode: how they are bonded.
    :ivar properties: further bonding options by name.
    """

    mode: str | None = None
    properties: Mapping[str, Any] | None = None


class Ports(msgspec.Struct):
    """A list of ports as it is sent."""

    ports: list[Port]


class Portgroups(msgspec.Struct):
    """A list of port groups as it is sent."""

    portgroups: list[Portgroup]
