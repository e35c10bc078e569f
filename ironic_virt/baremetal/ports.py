# SPDX-License-Identifier: Apache-2.0

"""A node's network ports and port groups, and the VIFs that are attached to them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ironic_virt.baremetal.http import answers, paging
from ironic_virt.baremetal.http.requests import Call, Sender, path_of


class _WithVif(msgspec.Struct, frozen=True):
    uuid: str
    address: str | None = None
    internal_info: Mapping[str, Any] | None = None
    extra: Mapping[str, Any] | None = None
    node_uuid: str | None = None

    @property
    def vif(self) -> str | None:
        """The VIF attached to it; where older servers noted it counts too."""
        internal, extra = self.internal_info or {}, self.extra or {}
        vif = internal.get("tenant_vif_port_id") or extra.get("vif_port_id")
        # Anything can be written there.
        return vif if isinstance(vif, str) else None


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


class _Vif(msgspec.Struct):
    id: str


class _Vifs(msgspec.Struct):
    vifs: list[_Vif]


_PORTS = paging.make_reader("ports", Port, "ports")
_PORTGROUPS = paging.make_reader("portgroups", Portgroup, "port groups")
_VIFS = answers.make_reader(_Vifs, "a list of VIFs")


class NetworkPorts:
    """The network ports of one Ironic's nodes.

    :param sender: sends the requests.
    """

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def listed(self, node: str) -> list[Port]:
        """A node's ports.

        :param node: its uuid, as everywhere here.
        """
        call = Call("GET", "/ports", {"node": node}, Port.__struct_fields__, node=node)
        return paging.read_all(self._sender, call, _PORTS)

    def groups(self, node: str) -> list[Portgroup]:
        """A node's port groups."""
        call = Call("GET", "/portgroups", {"node": node}, Portgroup.__struct_fields__, node=node)
        return paging.read_all(self._sender, call, _PORTGROUPS)

    def vifs(self, node: str) -> list[str]:
        """The ids of the VIFs that are attached to a node."""
        call = Call("GET", _path_of(node), node=node)
        return [vif.id for vif in self._sender.read(call, _VIFS).vifs]

    def attach(self, node: str, vif: str) -> None:
        """Attach a VIF.

        Ironic looks at this node's ports only: one that another node has is taken, too.

        It notes which port has the VIF before it tells Neutron (39.0.0).  So after an error
        of status 500 the VIF may be there, though unconnected; and where a reply was lost,
        a VIF that is there counts as attached, because nothing tells whether Neutron took it.

        :raises Conflict: it is attached to this node already.
        :raises BadRequest: the node has no port left for it.
        """
        self._sender.change(
            Call("POST", _path_of(node), json={"id": vif}, node=node),
            lambda: vif in self.vifs(node) or None,
            answers.accepted,
            # It was tried, and what has come of it is not attached.
            final=lambda error: error.status is not None and error.status >= 500,
        )

    def detach(self, node: str, vif: str) -> None:
        """Detach a VIF.

        :raises BadRequest: it isn't attached to this node.
        """
        self._sender.change(
            Call("DELETE", _path_of(node, vif), node=node),
            lambda: vif not in self.vifs(node) or None,
            answers.accepted,
        )


def _path_of(node: str, *vif: str) -> str:
    return path_of("nodes", node, "vifs", *vif)
