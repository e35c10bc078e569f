# SPDX-License-Identifier: Apache-2.0

"""Nodes as an action needs them: read fresh, and past the guard.

Every module that changes a node goes through here, so there is one place that
says "this node is ours to act on".
"""

from __future__ import annotations

from collections.abc import Callable

from oslo_log import log as logging

from ironic_virt import exceptions
from ironic_virt.baremetal.client import IronicClient
from ironic_virt.baremetal.inventory.cache import Inventory
from ironic_virt.baremetal.node import Node
from ironic_virt.sharding.ownership import Ownership
from ironic_virt.sharding.selector import TargetSet
from ironic_virt.virt import InstanceLike

LOG = logging.getLogger(__name__)


class NodeAccess:
    """Reads nodes for actions.  Thread-safe: it keeps nothing."""

    def __init__(self, client: IronicClient, inventory: Inventory, ownership: Ownership) -> None:
        self._ownership = ownership
        self._client = client
        self._inventory = inventory

    @property
    def target(self) -> TargetSet:
        """The target set in force."""
        return self._ownership.target

    def fresh(self, node: str, instance: str | None = None) -> Node:
        """A node as it is now, whosever it is.

        :raises NodeNotAvailable: Ironic has no such node.
        """
        try:
            return self._client.get_node(node)
        except exceptions.NodeNotFound as exc:
            raise exceptions.NodeNotAvailable(
                node,
                instance,
                f"Ironic has no such node ({exc.message})",
                request_id=exc.request_id,
            ) from exc

    def held(self, instance: InstanceLike, node: str) -> Node:
        """The node that carries the instance, fresh and past the guard.

        :raises NodeTaken, NodeNotAvailable, NodeNotOurs: it is not ours to act on.
        """
        found = self.fresh(node, instance.uuid)
        self.guard(found, instance)
        return found

    def still_held(self, instance: InstanceLike, node: str) -> Callable[[], None]:
        """For a request that may have to wait for the node's lock: look before the next try.

        By then the node may be another's, or on its way there.

        :returns: raises what :meth:`held` does.
        """

        def again() -> None:
            self.held(instance, node)

        return again

    def guard(self, node: Node, instance: InstanceLike) -> None:
        """Let an action on a node that carries the instance pass, or refuse it."""
        self._ownership.check(node, instance=instance.uuid, carries=instance.uuid)

    def guard_free(self, node: Node, instance: InstanceLike) -> None:
        """Let an action for an instance on a node that carries none pass, or refuse it."""
        self.check_free(node, instance.uuid)

    def check_free(self, node: Node, instance: str) -> None:
        """The same by the instance's uuid."""
        self._ownership.check(node, instance=instance, carries=None)

    def of_instance(self, instance: InstanceLike) -> Node:
        """The node that carries the instance, wherever it is; not guarded.

        :raises InstanceNotFound: no node does.
        """
        node = self._client.node_of_instance(instance.uuid)
        if node is None:
            raise exceptions.InstanceNotFound(instance.uuid)
        return node

    def guarded(self, instance: InstanceLike) -> Node:
        """The same, past the guard.

        :raises InstanceNotFound: no node carries it.
        :raises NodeNotOurs: the node is outside the target set.
        """
        node = self.of_instance(instance)
        self.guard(node, instance)
        return node

    def note(self, node: Node) -> None:
        """Let inventory and claim know what was read or changed."""
        if node.instance_uuid is None and self.target.why_outside(node):
            # Nothing ties it to this service any more; a list would only show that later.
            self._inventory.discard(node.uuid)
        else:
            self._inventory.put(node)
        self._ownership.note(node)

    def note_seen(self, node: Node | None, uuid: str) -> Node | None:
        """The same for what a wait has shown, read again only where it showed a part.

        :param node: what was seen, ``None`` if Ironic had no such node.
        :returns: the node, ``None`` if it is gone or could not be read.
        """
        if node is None or not node.is_whole:
            return self._note_again(uuid)
        self.note(node)
        return node

    def _note_again(self, node: str) -> Node | None:
        """Read a node for the inventory's sake; a failure is the next refresh's matter."""
        try:
            now = self._client.get_node(node)
        except exceptions.IronicError as exc:
            LOG.debug("Node %s was not read again: %s", node, exc)
            return None
        self.note(now)
        return now
