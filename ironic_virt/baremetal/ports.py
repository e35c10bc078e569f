# SPDX-License-Identifier: Apache-2.0

"""A node's network ports and port groups, and the VIFs that are attached to them.

Thread-safe: it keeps nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from ironic_virt.baremetal.http import answers, paging
from ironic_virt.baremetal.http.connection import Answer
from ironic_virt.baremetal.http.paging import RowT
from ironic_virt.baremetal.http.sender import Sender, path_of

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


class _Ports(msgspec.Struct):
    ports: list[Port]
    next: str | None = None


class _Portgroups(msgspec.Struct):
    portgroups: list[Portgroup]
    next: str | None = None


class _Vif(msgspec.Struct):
    id: str


class _Vifs(msgspec.Struct):
    vifs: list[_Vif]


_PORTS = msgspec.json.Decoder(_Ports)
_PORTGROUPS = msgspec.json.Decoder(_Portgroups)
_VIFS = msgspec.json.Decoder(_Vifs)


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
        return self._of_node("/ports", node, PORT_FIELDS, "ports", _ports_in)

    def groups(self, node: str) -> list[Portgroup]:
        """A node's port groups."""
        return self._of_node("/portgroups", node, PORTGROUP_FIELDS, "port groups", _portgroups_in)

    def _of_node(
        self,
        path: str,
        node: str,
        fields: Sequence[str],
        what: str,
        decode: Callable[[bytes], tuple[list[RowT], str | None]],
    ) -> list[RowT]:

        def read(params: Mapping[str, str]) -> tuple[list[RowT], str | None]:
            answer = self._sender.read(path, fields=fields, params=params, node=node)
            return answers.content(answer, decode, what, path=path, node=node)

        return [row for rows in paging.pages(read, {"node": node}, path) for row in rows]

    def vifs(self, node: str) -> list[str]:
        """The ids of the VIFs that are attached to a node."""
        path = path_of("nodes", node, "vifs")
        return _vif_ids(self._sender.read(path, node=node), path, node)

    def attach(self, node: str, vif: str, *, again: Callable[[], None] | None = None) -> None:
        """Attach a VIF.

        Ironic looks at this node's ports only: one that another node has is taken, too.

        It notes which port has the VIF before it tells Neutron (39.0.0).  So after an error
        of status 500 the VIF may be there, though unconnected; and where a reply was lost,
        a VIF that is there counts as attached, because nothing tells whether Neutron took it.

        :param again: called before it is asked for again; raises if it is no longer right.
        :raises Conflict: it is attached to this node already.
        :raises BadRequest: the node has no port left for it.
        """
        path = path_of("nodes", node, "vifs")

        def applied() -> bool | None:
            answer = self._sender.once("GET", path, node=node)
            return vif in _vif_ids(answer, path, node) or None

        self._sender.change(
            "POST",
            path,
            json={"id": vif},
            node=node,
            applied=applied,
            result=lambda _: True,
            again=again,
            # It was tried, and what has come of it is not attached.
            final=lambda error: error.status is not None and error.status >= 500,
        )

    def detach(self, node: str, vif: str, *, again: Callable[[], None] | None = None) -> None:
        """Detach a VIF.

        :param again: called before it is asked for again; raises if it is no longer right.
        :raises BadRequest: it isn't attached to this node.
        """
        path = path_of("nodes", node, "vifs")

        def applied() -> bool | None:
            answer = self._sender.once("GET", path, node=node)
            return vif not in _vif_ids(answer, path, node) or None

        self._sender.change(
            "DELETE",
            path_of("nodes", node, "vifs", vif),
            node=node,
            applied=applied,
            result=lambda _: True,
            again=again,
        )


def _ports_in(body: bytes) -> tuple[list[Port], str | None]:
    page = answers.decode_leniently(_PORTS, body, "ports")
    return page.ports, page.next


def _portgroups_in(body: bytes) -> tuple[list[Portgroup], str | None]:
    page = answers.decode_leniently(_PORTGROUPS, body, "port groups")
    return page.portgroups, page.next


def _vif_ids(answer: Answer, path: str, node: str) -> list[str]:
    vifs = answers.content(answer, _VIFS.decode, "a list of VIFs", path=path, node=node).vifs
    return [vif.id for vif in vifs]
