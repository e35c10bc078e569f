# SPDX-License-Identifier: Apache-2.0

"""Tears down nodes that were deployed without an instance.

The deletion of an allocation takes the instance off its node, and nothing else of it.  One that
arrives late may do that right before the deployment, which names nobody, so that Ironic deploys
the node all the same.  Such a node, at rest, has the key of an instance (:mod:`.driver.claim`).
It is torn down when the records say twice in a row that this instance is deleted, or another node
carries it.  One that they never had may be another cell's, and run there.

Lists have no key, so a node that is deployed without an instance is read by itself: each time
if it is one, else once until it changes.
"""

from __future__ import annotations

from oslo_log import log as logging

from ironic_virt import exceptions
from ironic_virt.baremetal import states
from ironic_virt.baremetal.inventory.snapshot import Snapshot
from ironic_virt.baremetal.node import Node
from ironic_virt.driver.claim import find_claimant
from ironic_virt.driver.site import Site

LOG = logging.getLogger(__name__)

_DEPLOYED = (states.ACTIVE, states.DEPLOY_FAILED)


class Strays:
    """Looks for such nodes; called by one thread at a time."""

    def __init__(self, site: Site) -> None:
        self._site = site
        # By the node's uuid: others as they were listed, and the instance whose key it has.
        self._others: dict[str, Node] = {}
        self._owners: dict[str, str] = {}

    def look(self, snapshot: Snapshot, deadline: float) -> None:
        """Look, and tear down what was one at the last look, too.

        :param deadline: what can't be done by then is left to the next look.
        """
        suspects = {uuid: node for uuid, node in snapshot.nodes.items() if _may_be_one(node)}
        self._others = {k: v for k, v in self._others.items() if suspects.get(k) == v}
        owners: dict[str, str] = {}
        for uuid in sorted(suspects.keys() - self._others.keys()):
            if self._site.clock() >= deadline:
                break
            try:
                owner = self._owner(uuid)
            except (exceptions.NodeError, exceptions.IronicError) as exc:
                LOG.info("Whether node %s has lost an instance is not known: %s", uuid, exc)
                continue
            if owner:
                owners[uuid] = owner
            else:
                self._others[uuid] = suspects[uuid]
        # Read first: who is built meanwhile is in the records before it is in Ironic.
        gone = set(self._site.service.deleted_instances(set(owners.values()))) if owners else ()
        for uuid, owner in sorted(owners.items()):
            if owner not in gone and not snapshot.by_instance(owner):
                del owners[uuid]
            elif self._owners.get(uuid) == owner and self._site.clock() < deadline:
                self._tear_down(uuid, owner)
        self._owners = owners

    def _owner(self, uuid: str) -> str | None:
        """The instance whose key a node has, if it is on none and nobody protects it."""
        node = self._site.nodes.read(uuid)
        owner = find_claimant(node.instance_info or {}) if _may_be_one(node) else None
        if owner is not None:
            self._site.nodes.check_free(node, owner)
        return owner

    def _tear_down(self, uuid: str, owner: str) -> None:
        def check() -> None:
            if self._owner(uuid) != owner:
                raise exceptions.NodeNotAvailable(uuid, owner, "the node has changed")

        try:
            check()
            self._site.client.rechecking(check).set_provision_state(
                uuid, states.VERB_DELETED, applied=lambda node: not _may_be_one(node)
            )
        except (exceptions.NodeError, exceptions.IronicError) as exc:
            LOG.info("Node %s, lost by instance %s, stays deployed: %s", uuid, owner, exc)
            return
        LOG.warning(
            "[node-without-instance] Node %s was deployed for instance %s, which had lost it by "
            "then: it is torn down",
            *(uuid, owner),
        )


def _may_be_one(node: Node) -> bool:
    """Whether a node is deployed without an instance, and no operator has set it aside."""
    return node.provision_state in _DEPLOYED and not (
        node.instance_uuid or node.maintenance or node.protected
    )
