# SPDX-License-Identifier: Apache-2.0

"""Volume connectors and volume targets of nodes.

A connector says who a node is to a storage: its IQN, WWPN and so on.  A target says
which volume the node is to have, and how to get at it; its properties hold
credentials, which Ironic masks when it is asked for them, and which are never logged.

A target is made with a uuid of our choice, so a request whose reply was lost can be
looked for.  Ironic takes a new one at any time, but deletes one only while its node is
powered off.
"""

from __future__ import annotations

import uuid as uuids
from collections.abc import Mapping
from typing import Any

import msgspec

from ironic_virt import exceptions
from ironic_virt.baremetal.http import answers, paging
from ironic_virt.baremetal.http.requests import Call, Sender, path_of

_CONNECTORS = "/volume/connectors"
_TARGETS = "/volume/targets"


class VolumeConnector(msgspec.Struct, frozen=True):
    """How a storage knows a node.

    :ivar type: ``iqn``, ``ip``, ``mac``, ``wwnn``, ``wwpn``, ``port`` or ``portgroup``.
    :ivar connector_id: the IQN, the address and so on.
    """

    uuid: str
    type: str
    connector_id: str
    node_uuid: str | None = None


class VolumeTarget(msgspec.Struct, frozen=True):
    """A volume that a node is to have.

    :ivar volume_type: ``iscsi`` or ``fibre_channel``.
    :ivar boot_index: 0 is booted from; no two targets of a node have the same.
    :ivar properties: how to get at the volume, what is secret in it masked.
    :ivar extra: what its maker has noted.
    """

    uuid: str
    volume_type: str | None = None
    volume_id: str | None = None
    boot_index: int | None = None
    properties: dict[str, Any] | None = None
    extra: dict[str, Any] | None = None
    node_uuid: str | None = None

    def __repr__(self) -> str:
        return f"VolumeTarget({self.uuid}, volume {self.volume_id}, index {self.boot_index})"


_CONNECTOR_PAGE = paging.make_reader("connectors", VolumeConnector, "a page of volume connectors")
_TARGET_PAGE = paging.make_reader("targets", VolumeTarget, "a page of volume targets")
_TARGET = answers.make_reader(VolumeTarget, "a volume target")


class NodeVolumes:
    """The volume connectors and targets in one Ironic.

    :param sender: sends the requests.
    """

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def connectors(self, node: str) -> list[VolumeConnector]:
        """A node's connectors.

        :raises NodeNotFound: Ironic has no such node.
        """
        return paging.read_all(self._sender, _list_of(_CONNECTORS, node), _CONNECTOR_PAGE)

    def targets(self, node: str | None = None) -> list[VolumeTarget]:
        """A node's targets; the targets of all nodes if none is named.

        :raises NodeNotFound: Ironic has no such node.
        """
        return paging.read_all(self._sender, _list_of(_TARGETS, node), _TARGET_PAGE)

    def create_target(
        self,
        node: str,
        *,
        volume_type: str,
        volume_id: str,
        boot_index: int,
        properties: Mapping[str, Any],
        extra: Mapping[str, Any],
        uuid: str | None = None,
    ) -> VolumeTarget:
        """Give a node a volume.

        :param properties: as the volume service has given them, credentials too.
        :param extra: to be noted with it.
        :param uuid: of the new target, if it is not to be a random one.
        :raises Conflict: the node has another target with this boot index.
        """
        made = uuid or str(uuids.uuid4())
        body = {
            "uuid": made,
            "node_uuid": node,
            "volume_type": volume_type,
            "volume_id": volume_id,
            "boot_index": boot_index,
            "properties": dict(properties),
            "extra": dict(extra),
        }
        call = Call("POST", _TARGETS, json=body, node=node)
        return self._sender.change(call, lambda: self._target(made, node), _TARGET)

    def delete_target(self, uuid: str, node: str) -> bool:
        """Take a volume from a node.

        :returns: whether there was one.
        :raises BadRequest: the node is not powered off.
        :raises NodeLocked: the node was locked all the time.
        """
        try:
            return self._sender.change(
                Call("DELETE", _path_of(uuid), node=node),
                lambda: True if self._target(uuid, node) is None else None,
                answers.accepted,
            )
        except exceptions.NotFound as exc:
            answers.confirm_absent(exc, f"Volume target {uuid}")
            return False

    def _target(self, uuid: str, node: str) -> VolumeTarget | None:
        try:
            return self._sender.read(Call("GET", _path_of(uuid), node=node), _TARGET)
        except exceptions.NotFound as exc:
            answers.confirm_absent(exc, f"Volume target {uuid}")
            return None


def _list_of(path: str, node: str | None) -> Call:
    return Call("GET", path, {"detail": "true"} | ({"node": node} if node else {}), node=node)


def _path_of(uuid: str) -> str:
    return path_of("volume", "targets", uuid)
