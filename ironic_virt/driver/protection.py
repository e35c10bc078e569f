# SPDX-License-Identifier: Apache-2.0

"""Ironic's protection of the nodes of running instances: ``[ironic] protect_instances``.

Ironic neither tears down nor rebuilds a protected node, so a request of a former instance
that arrives late does nothing to the present one.  A patch of its own puts the protection on
as soon as the instance is active; no other change fails with it.  It is taken off right before
this package itself asks for such a change.  What somebody else has protected stays so.
"""

from __future__ import annotations

import contextlib
from typing import Any

from oslo_log import log as logging

from ironic_virt import exceptions
from ironic_virt.baremetal import states
from ironic_virt.baremetal.node import Node
from ironic_virt.driver import resources
from ironic_virt.driver.claim import claim
from ironic_virt.driver.site import Site
from ironic_virt.virt import InstanceLike

LOG = logging.getLogger(__name__)

_PROTECTABLE = (states.ACTIVE, states.RESCUE)


def protect_node(site: Site, node: Node, instance: InstanceLike) -> Node:
    """Have Ironic refuse what would end an instance.  A refusal is a warning.

    :param node: as it was read last.
    :returns: the node as it is then, read again after a refusal: the instance may be gone.
    :raises NodeTaken, NodeNotAvailable, NodeNotOurs: it is not ours to act on any more.
    """
    wanted = site.conf.ironic.protect_instances and not node.protected
    if not wanted or node.provision_state not in _PROTECTABLE:
        return node
    patch = [
        *claim(node, instance.uuid),
        {"op": "add", "path": "/protected", "value": True},
        {
            "op": "add",
            "path": "/protected_reason",
            "value": resources.protection_of(instance.uuid),
        },
    ]
    try:
        protected = site.client.patch_node(
            node.uuid, patch, again=site.access.still_held(instance, node.uuid)
        )
    except (exceptions.IronicError, exceptions.NodeError) as exc:
        LOG.warning(
            "[node-unprotected] Node %s of instance %s could not be protected: %s",
            *(node.uuid, instance.uuid, exc),
        )
        with contextlib.suppress(exceptions.IronicError):
            return site.access.held(instance, node.uuid)
        return node
    site.access.note(protected)
    return protected


def unprotect(node: Node) -> list[dict[str, Any]]:
    """The operations that take our own protection off a node, beside the claim; none: it has none.

    :param node: as it was read last.
    """
    if not resources.is_protected_here(node):
        return []
    return [{"op": "add", "path": "/protected", "value": False}]
