# SPDX-License-Identifier: Apache-2.0

"""Nodes that an operator has protected from being torn down or rebuilt, or from all use."""

from __future__ import annotations

from ironic_virt.baremetal.node import Node


def why_in_maintenance(node: Node) -> str | None:
    """What to say of a node in maintenance; ``None`` if it isn't."""
    if not node.maintenance:
        return None
    return "in maintenance" + (f" ({node.maintenance_reason})" if node.maintenance_reason else "")


def why_protected(node: Node) -> str | None:
    """What to say of a protected node, and how to unprotect it; ``None`` if it isn't."""
    if not node.protected:
        return None
    why = f" ({node.protected_reason})" if node.protected_reason else ""
    return (
        f"the node is protected{why}; take the protection off in Ironic first: "
        f"openstack baremetal node unset --protected {node.uuid}"
    )
