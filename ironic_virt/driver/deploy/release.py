# SPDX-License-Identifier: Apache-2.0

"""Taking an instance's data off a node on which nothing is deployed for it."""

from __future__ import annotations

from typing import Any

from oslo_log import log as logging

from ironic_virt import exceptions
from ironic_virt.baremetal import states
from ironic_virt.baremetal.node import Node
from ironic_virt.driver.claim import own_keys
from ironic_virt.driver.deploy import instance_info, project_fields
from ironic_virt.driver.held import Held
from ironic_virt.driver.network import Network
from ironic_virt.driver.site import Site
from ironic_virt.driver.volumes import Volumes
from ironic_virt.virt import Flavor, Instance, InstanceLike

LOG = logging.getLogger(__name__)


class InUse(exceptions.TearDownFailed):
    """Something is deployed on a node, or about to be, by now."""


class Release:
    """Releases nodes from their instances.  Thread-safe: it keeps nothing between calls."""

    def __init__(self, site: Site, network: Network, volumes: Volumes) -> None:
        self._site = site
        self._network = network
        self._volumes = volumes

    def take_off(self, uuid: str) -> bool:
        """Take an instance's data off a node on which nothing is deployed for it.

        :param uuid: the instance's; the records may not have it.
        :returns: ``False``: something is, or Ironic is at work; nothing was changed.
        :raises InstanceNotFound: no node carries it.
        :raises NodeNotOurs: the node is outside the target set; nothing was changed.
        """
        try:
            self.release_node(Held.of(self._site, Instance(uuid, uuid, Flavor("unknown"))))
        except InUse:
            return False
        return True

    def release_node(self, held: Held) -> None:
        """Take the instance's data off a node on which nothing is deployed.

        :raises InUse: something is, or Ironic is at work.
        :raises NodeNotAvailable: the instance went off the node meanwhile.
        """
        instance = held.instance
        _check_unused(held.node, instance)
        self._network.detach_all(held)
        self._volumes.detach_all(held)
        held = held.only_if(lambda node: _check_unused(node, instance))
        held.refresh()
        if not own_keys(held.node.instance_info or {}, instance.uuid):
            # Ironic would carry out a late release without a key on the next instance, too.
            held.patch([])
        node = held.node
        patch: list[dict[str, Any]] = instance_info.release_patch(
            node.instance_info or {}, instance.uuid
        )
        patch.append({"op": "remove", "path": "/instance_uuid"})
        patch += project_fields.release_patch(node)
        if node.instance_name is not None:
            # Ironic set it by itself, from the display_name, and keeps it otherwise.
            patch.append({"op": "remove", "path": "/instance_name"})
        try:
            released = held.client.patch_node(held.uuid, patch)
        except exceptions.Conflict as exc:
            released = self._release_with_allocation(held, patch, exc)
        except exceptions.BadRequest:
            # The key is missing: a copy of this request may have come in before.
            released = self._site.nodes.read(held.uuid, instance.uuid)
            if released.instance_uuid == instance.uuid:
                raise
        self._site.nodes.note(released)
        self._site.service.report_progress(instance, "released", released.provision_state)
        LOG.info("Node %s is released from instance %s", held.uuid, instance.uuid)

    def _release_with_allocation(
        self, held: Held, patch: list[dict[str, Any]], refusal: exceptions.Conflict
    ) -> Node:
        """Take the instance off by deleting its allocation.

        In the states for a failure, Ironic takes it off in no other way (39.0.0).
        """
        allocations, instance = self._site.client.allocations, held.instance.uuid
        if isinstance(refusal, exceptions.NodeLocked) or allocations.get(instance) is None:
            raise refusal
        rest = [operation for operation in patch if operation["path"] != "/instance_uuid"]
        held.client.patch_node(held.uuid, rest)
        allocations.delete(instance)
        return self._site.nodes.read(held.uuid, instance)


def _check_unused(node: Node, instance: InstanceLike) -> None:
    if states.tear_down_step(node.provision_state) is not states.TearDownStep.RELEASE:
        raise InUse(
            node.uuid,
            instance.uuid,
            f"the node went on to {node.provision_state!r} while the server was taken off it; "
            "delete the server again",
        )
