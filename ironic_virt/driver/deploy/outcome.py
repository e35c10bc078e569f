# SPDX-License-Identifier: Apache-2.0

"""What a look at a node says of the deployment on it: done, on its way, or failed.

Pure functions of a node that was read just now.
"""

from __future__ import annotations

from ironic_virt import exceptions
from ironic_virt.baremetal import states
from ironic_virt.baremetal.node import Node
from ironic_virt.driver.deploy import instance_info
from ironic_virt.virt import InstanceLike


class InFailedState(exceptions.DeployFailed):
    """The deployment failed; see :func:`.history.with_reason` for why.

    :ivar failed: the node.
    """

    def __init__(self, node: Node, instance: InstanceLike) -> None:
        super().__init__(node.uuid, instance.uuid, f"the deployment failed: {node.why}")
        self.failed = node


def check_deployed(
    instance: InstanceLike, node: Node | None, uuid: str | None = None
) -> Node | None:
    """The node when it is deployed, ``None`` while it is on its way.

    :param node: as it was just seen; ``None``: Ironic has no such node.
    :param uuid: of the node, if it may be gone.
    :raises InFailedState: it has failed, and the reason may have to be looked for.
    :raises NodeError: it will never be, with this instance.
    """
    if node is None:
        raise exceptions.DeployFailed(
            uuid, instance.uuid, "the node was deleted from Ironic during the deployment"
        )
    if node.instance_uuid is None:
        raise exceptions.DeployFailed(
            node.uuid,
            instance.uuid,
            "somebody took the server off the node during the deployment",
            last_error=node.last_error,
        )
    if node.instance_uuid != instance.uuid:
        raise exceptions.NodeTaken(node.uuid, instance.uuid, node.instance_uuid)
    state = node.provision_state
    if state in states.DEPLOYED:
        return node
    if state in (states.DEPLOY_FAILED, states.ERROR):
        if node.owes_reason:
            return None
        raise InFailedState(node, instance)
    if state in states.DEPLOY_IN_PROGRESS or state not in states.ALL:
        # A state that is newer than our table may well lead to active.
        return None
    raise exceptions.DeployFailed(
        node.uuid,
        instance.uuid,
        f"the node is not being deployed any more but in {node.states}; somebody else has "
        "acted on it",
        last_error=node.last_error,
    )


def make_failure(
    node: Node,
    instance: InstanceLike,
    what: str,
    said: str | None,
    request_id: str | None = None,
) -> exceptions.DeployFailed:
    """The error for what Ironic said, of the kind that it blames: the image, or the rest."""
    blamed = instance_info.is_image_fault(said, node.instance_info)
    kind = exceptions.ImageRefused if blamed else exceptions.DeployFailed
    return kind(
        node.uuid,
        instance.uuid,
        f"{what}: {said or node.why}",
        last_error=said,
        request_id=request_id,
    )
