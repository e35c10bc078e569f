# SPDX-License-Identifier: Apache-2.0

"""Takes off the protection that ``[ironic] protect_instances`` has put on nodes.

A driver that does not know of it can neither delete nor rebuild the servers on such nodes.
What somebody else protects is never touched.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from ironic_virt import exceptions
from ironic_virt.baremetal.client import IronicClient
from ironic_virt.baremetal.node import Node
from ironic_virt.driver import resources
from ironic_virt.driver.claim import claim
from ironic_virt.driver.protection import unprotect
from ironic_virt.fleet.deployment import Deployment
from ironic_virt.fleet.plans.apply import Outcome, Report


def unprotect_nodes(
    deployment: Deployment, hosts: Collection[str], client: IronicClient, *, dry_run: bool
) -> Iterator[Report[Node]]:
    """Take the protection off the nodes of hosts; a report for each that is protected."""
    for node in deployment.nodes.values():
        if node.protected and deployment.host_of(node) in hosts:
            yield Report(node, *_unprotected(node, client, dry_run=dry_run))


def _unprotected(node: Node, client: IronicClient, *, dry_run: bool) -> tuple[Outcome, str]:
    try:
        fresh = client.get_node(node.uuid)
        if not fresh.protected:
            return Outcome.ALREADY, ""
        if not resources.is_protected_here(fresh):
            return Outcome.REFUSED, f"somebody else protects it: {fresh.protected_reason}"
        if dry_run:
            return Outcome.WOULD, ""
        # With the claim, Ironic refuses it if the node is another server's by now.
        client.patch_node(node.uuid, [*claim(fresh, fresh.instance_uuid or ""), *unprotect(fresh)])
    except exceptions.IronicVirtError as exc:
        return Outcome.FAILED, str(exc)
    return Outcome.DONE, ""
