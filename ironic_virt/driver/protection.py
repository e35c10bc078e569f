# SPDX-License-Identifier: Apache-2.0

"""Ironic's protection of the nodes of running instances: ``[ironic] protect_instances``.

Ironic neither tears down nor rebuilds a protected node, so a request of a former instance
that arrives late does nothing to the present one.  A separate patch protects the node as soon
as the instance is active, so no other change fails with it.  The protection is taken off right
before this package itself asks for such a change.  Protection by others stays.
"""

from __future__ import annotations

import contextlib
from typing import Any

from oslo_log import log as logging

from ironic_virt import exceptions
from ironic_virt.baremetal import states
from ironic_virt.baremetal.node import Node
from ironic_virt.driver import resources
from ironic_virt.driver.held import Held
from ironic_virt.driver.site import Site

LOG = logging.getLogger(__name__)

_PROTECTABLE = (states.ACTIVE, states.RESCUE)


def protect_node(site: Site, held: Held) -> Node:
    """Have Ironic refuse what would end an instance.  A refusal is a warning.

    :returns: the node as it is then, read again after a refusal: the instance may be gone.
    :raises NodeTaken, NodeNotAvailable, NodeNotOurs: it is not ours to act on any more.
    """
    node = held.node
    is_protectable = node.provision_state in _PROTECTABLE and not node.protected
    if not (site.conf.ironic.protect_instances and is_protectable):
        return node
    reason = resources.protection_of(held.instance.uuid)
    try:
        held.patch(
            [
                {"op": "add", "path": "/protected", "value": True},
                {"op": "add", "path": "/protected_reason", "value": reason},
            ]
        )
        site.nodes.note(held.node)
    except (exceptions.IronicError, exceptions.NodeError) as exc:
        LOG.warning(
            "[node-unprotected] Node %s of instance %s could not be protected: %s",
            *(held.uuid, held.instance.uuid, exc),
        )
        with contextlib.suppress(exceptions.IronicError):
            held.refresh()
    return held.node


def unprotect_patch(node: Node) -> list[dict[str, Any]]:
    """The operations that take our own protection off a node; none if it has none.

    :param node: as it was read last.
    """
    if not resources.is_protected_here(node):
        return []
    return [{"op": "add", "path": "/protected", "value": False}]
