# SPDX-License-Identifier: Apache-2.0

"""The guard: may this service act on this node, for this instance?

Pure functions of a node that was read just now.  A refusal changes nothing and
says what to do.
"""

from __future__ import annotations

from ironic_virt import exceptions
from ironic_virt.baremetal.node import Node
from ironic_virt.sharding.selector import TargetSet
from ironic_virt.virt import VirtAPI


def check_node(
    node: Node,
    target: TargetSet,
    *,
    instance: str,
    carries: str | None,
    stays: bool = False,
    move_command: str = VirtAPI.move_command,
) -> None:
    """Let an action on a node pass, or refuse it.

    :param node: read fresh, by itself.
    :param instance: the uuid of the instance that the action is for.
    :param carries: the ``instance_uuid`` that the action expects on the node.
    :param stays: a node with this instance is ours wherever it is.
    :param move_command: see :class:`VirtAPI`.
    :raises NodeNotOurs: it is outside the target set.
    :raises NodeTaken: it carries another instance.
    :raises NodeNotAvailable: it carries no instance, but should carry this one.
    """
    if node.instance_uuid is not None and node.instance_uuid != carries:
        raise exceptions.NodeTaken(node.uuid, instance, node.instance_uuid)
    if node.instance_uuid != carries:
        raise exceptions.NodeNotAvailable(
            node.uuid, instance, "Ironic no longer has the server on this node"
        )
    if carries is not None and stays:
        return
    if reason := target.why_outside(node):
        raise exceptions.NodeNotOurs(
            node.uuid,
            instance,
            f"{reason}. Nothing was changed. Let the service of that shard or group act, or move "
            f"the node's record to it: {move_command.format(node=node.uuid, host='<its host>')}",
        )
