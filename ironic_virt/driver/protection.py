# SPDX-License-Identifier: Apache-2.0

"""Ironic's protection of the nodes of running instances: ``[ironic] protect_instances``.

Ironic neither tears down nor rebuilds a protected node, so a request of a former instance
that arrives late does nothing to the present one.  A separate patch protects the node as soon
as the instance is active, so no other change fails with it; and again when a user goes on with an
instance after a delete that failed, which may still arrive.  The protection is taken off right
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


def protect_node(site: Site, held: Held, *, again: bool = False) -> Node:
    """Have Ironic refuse what would end an instance.  A refusal is a warning.

    :param again: it was protected; the node is read first, and any state but a protected one
        is a warning.
    :returns: the node as it is then, read again after a refusal: the instance may be gone.
    :raises NodeTaken, NodeNotAvailable, NodeNotOurs: it is not ours to act on any more.
    """
    if not site.conf.ironic.protect_instances:
        return held.node
    reason = resources.protection_of(held.instance.uuid)
    try:
        node = held.refresh() if again else held.node
        is_protectable = node.provision_state in _PROTECTABLE
        if node.protected or not (is_protectable or again):
            return node
        if not is_protectable:
            raise held.error(exceptions.NodeNotAvailable, f"the node is in {node.states}")
        held.patch(
            [
                {"op": "add", "path": "/protected", "value": True},
                {"op": "add", "path": "/protected_reason", "value": reason},
            ]
        )
        site.nodes.note(held.node)
    except (exceptions.IronicError, exceptions.NodeError) as exc:
        LOG.warning(
            "[node-unprotected] Node %s of instance %s could not be protected: %s. When it can "
            "be: openstack baremetal node set --protected --protected-reason '%s' %s",
            *(held.uuid, held.instance.uuid, exc, reason, held.uuid),
        )
        with contextlib.suppress(exceptions.IronicError):
            held.refresh()
    return held.node


def unprotect_patch(node: Node) -> list[dict[str, Any]]:
    """The operations that take our own protection off a node; none if it has none.

    :param node: as it was read last.
    """
    operation = {"op": "add", "path": "/protected", "value": False}
    return [operation] if resources.is_protected_here(node) else []
