# SPDX-License-Identifier: Apache-2.0

"""Removes the protection that ``[ironic] protect_instances`` has put on nodes.

A driver without that option can neither delete nor rebuild the servers on such nodes.
A node that somebody else protects is never touched.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from ironic_virt import exceptions
from ironic_virt.baremetal.client import IronicClient
from ironic_virt.baremetal.node import Node
from ironic_virt.driver import claim, protection, resources
from ironic_virt.fleet.deployment import Deployment
from ironic_virt.fleet.plans.apply import Effect, Report


def unprotect_nodes(
    deployment: Deployment,
    hosts: Collection[str],
    client: IronicClient,
    check: Callable[[], None] | None,
) -> Iterator[Report[Node]]:
    """Unprotect the protected nodes of hosts, and report on each; no ``check``: a dry run."""
    for node in deployment.nodes.values():
        if node.protected and deployment.host_of(node) in hosts:
            if check is not None:
                check()
            yield Report(node, *_unprotected(node, client, dry_run=check is None))


def _unprotected(node: Node, client: IronicClient, *, dry_run: bool) -> tuple[Effect, str]:
    try:
        fresh = client.get_node(node.uuid)
        if not fresh.protected:
            return Effect.ALREADY, ""
        if not resources.is_protected_here(fresh):
            return Effect.REFUSED, f"somebody else protects it: {fresh.protected_reason}"
        if dry_run:
            return Effect.WOULD, ""
        # With the claim, Ironic refuses it if the node is another server's by now.
        patch = claim.claim_patch(fresh, fresh.instance_uuid or "")
        client.patch_node(node.uuid, patch + protection.unprotect_patch(fresh))
    except exceptions.IronicUnreachable:
        # Each try takes minutes.
        raise
    except exceptions.IronicVirtError as exc:
        return Effect.FAILED, str(exc)
    return Effect.DONE, ""
