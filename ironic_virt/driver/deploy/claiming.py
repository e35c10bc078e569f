# SPDX-License-Identifier: Apache-2.0

"""Making a node an instance's, together with what else is written to it."""

from __future__ import annotations

from oslo_log import log as logging

from ironic_virt import exceptions
from ironic_virt.baremetal.node import Node
from ironic_virt.baremetal.patches import JsonPatch
from ironic_virt.driver.claim import claim_patch
from ironic_virt.driver.site import Site
from ironic_virt.virt import InstanceLike

LOG = logging.getLogger(__name__)


def claim_node(site: Site, node: Node, instance: InstanceLike, more: JsonPatch = ()) -> Node:
    """Set the node's ``instance_uuid``, and make further changes with it.

    :param node: as it was read last.
    :returns: the node as it is afterwards.
    """

    def recheck() -> None:
        current = site.nodes.read(node.uuid, instance.uuid)
        if current.instance_uuid is None:
            site.nodes.check_free(current, instance.uuid)
        else:
            site.nodes.check_carries(current, instance.uuid)

    try:
        # Ironic refuses this when another uuid is there: the claim is atomic.
        patch = [*claim_patch(node, instance.uuid), *more]
        return site.client.rechecking(recheck).patch_node(node.uuid, patch)
    except exceptions.NodeNotFound as exc:
        raise exceptions.NodeNotAvailable(
            node.uuid, instance.uuid, exc.message, request_id=exc.request_id
        ) from exc
    except exceptions.BodyRefused:
        raise
    except (exceptions.Conflict, exceptions.BadRequest) as exc:
        current = site.nodes.read(node.uuid, instance.uuid)
        if current.instance_uuid is not None and current.instance_uuid != instance.uuid:
            raise exceptions.NodeTaken(node.uuid, instance.uuid, current.instance_uuid) from exc
        if current.instance_uuid is not None and not more:
            LOG.info("Node %s: the claim of instance %s came in late", node.uuid, instance.uuid)
            return current
        raise exceptions.NodeNotAvailable(
            node.uuid,
            instance.uuid,
            f"Ironic refused the reservation: {exc.message}",
            request_id=exc.request_id,
        ) from exc
