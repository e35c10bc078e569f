# SPDX-License-Identifier: Apache-2.0

"""What Ironic's storage interface for Cinder finds wrong with a node."""

from typing import Any

from oslo_utils import strutils

from ironic_virt.testing.fake_ironic.baremetal import Baremetal
from ironic_virt.testing.fake_ironic.records import Node


def why_invalid(bm: Baremetal, node: Node) -> str | None:
    """The reason why a node's storage interface does not validate, if it doesn't."""
    if node.storage_interface != "cinder":
        return None
    reason = _why_invalid(bm, node)
    if reason is None:
        return None
    return f"Failed to validate cinder storage interface for node {node.uuid}. {reason}"


def _why_invalid(bm: Baremetal, node: Node) -> str | None:
    types = {row.type for row in bm.store.connectors if row.node is node}
    has = {"iscsi": "iqn" in types, "fibre_channel": "wwpn" in types}
    boots = {kind: _is_capable(node, f"{kind}_boot") for kind in has}
    for kind, word, options in (
        ("iscsi", "iSCSI", "iqn"),
        ("fibre_channel", "Fibre Channel", "wwpn, wwnn"),
    ):
        if boots[kind] and not has[kind]:
            return (
                f"In order to enable the '{kind}_boot' capability for the node, an associated"
                f" volume_connector type must be valid for {word} ({options})."
            )
    for target in bm.store.targets:
        if target.node is node and (reason := _why_not(target, boots, has)):
            return reason
    return None


def _why_not(target: Any, boots: dict[str, bool], has: dict[str, bool]) -> str | None:
    kind = target.volume_type
    if kind not in has:
        return (
            f"Volume target {target.uuid} is of an unknown type '{kind}'. Supported types: 'iscsi'"
            " or 'fibre_channel'"
        )
    configured = f"Volume target {target.uuid} is configured for '{kind}', however "
    if target.boot_index == 0 and not boots[kind]:
        place = "for the node." if kind == "iscsi" else "on node."
        return f"{configured}the capability '{kind}_boot' is not set {place}"
    if not has[kind]:
        missing = (
            "no iSCSI connectors are configured for the node."
            if kind == "iscsi"
            else "no Fibre Channel WWPNs are configured for the node volume connectors."
        )
        return configured + missing
    return None


def _is_capable(node: Node, name: str) -> bool:
    listed = str(node.properties.get("capabilities") or "").split(",")
    pairs = (pair.split(":") for pair in listed if pair.count(":") == 1)
    flag = next((value.strip() for key, value in pairs if key.strip() == name), None)
    return strutils.bool_from_string(flag)
