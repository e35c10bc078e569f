# SPDX-License-Identifier: Apache-2.0

"""Allocations: finding a node for one, and letting go of it.

As in Ironic, matching knows the resource class, the traits (a node may have
more) and the candidate nodes; it knows nothing of shards or conductor groups.
"""

from ironic_virt.testing.fake_ironic import errors, states
from ironic_virt.testing.fake_ironic.baremetal import Baremetal
from ironic_virt.testing.fake_ironic.records import Allocation, Node


def _is_free(node: Node, allocation: Allocation) -> bool:
    return (
        node.resource_class == allocation.resource_class
        and node.instance_uuid is None
        and node.power_state is not None
        and not node.maintenance
        and node.parent_node is None
        and (allocation.owner is None or allocation.owner in (node.owner, node.lessee))
    )


def _candidates(bm: Baremetal, allocation: Allocation) -> list[Node]:
    if allocation.candidate_nodes:
        candidates = map(bm.store.nodes.get, allocation.candidate_nodes)
        nodes = [node for node in candidates if node and node.provision_state == states.AVAILABLE]
    else:
        nodes = bm.store.nodes_in_state(states.AVAILABLE)
    return [node for node in nodes if _is_free(node, allocation)]


def _choose(bm: Baremetal, allocation: Allocation) -> Node | str:
    """The node to take, or why there is none."""
    nodes = _candidates(bm, allocation)
    if not nodes and allocation.candidate_nodes:
        return (
            "none of the requested nodes are available and match the resource class"
            f" {allocation.resource_class}"
        )
    if not nodes:
        return f"no available nodes match the resource class {allocation.resource_class}"
    traits = set(allocation.traits)
    nodes = [node for node in nodes if traits.issubset(node.traits)]
    if not nodes:
        return f"no suitable nodes have the requested traits {', '.join(sorted(traits))}"
    unlocked = [node for node in nodes if node.reservation is None]
    if not unlocked:
        return f"could not reserve any of {len(nodes)} suitable nodes"
    for node in unlocked:
        if allocation.name and node.name == allocation.name:
            return node
    return bm.rng.choice(unlocked)


def _take(bm: Baremetal, allocation: Allocation, node: Node) -> None:
    other = bm.store.node_by_instance(allocation.uuid)
    if other is not None and other is not node:
        raise errors.instance_associated(allocation.uuid, node.uuid)
    if node.instance_uuid not in (None, allocation.uuid):
        raise errors.node_associated(node.uuid, node.instance_uuid)
    bm.update(allocation, node=node, state=states.ACTIVE, last_error=None)
    bm.update(
        node,
        allocation_id=allocation.id,
        instance_uuid=allocation.uuid,
        instance_info={**node.instance_info, "traits": list(allocation.traits)},
    )


def _refuse(bm: Baremetal, allocation: Allocation, reason: str) -> None:
    bm.update(allocation, node=None, state=states.ERROR, last_error=reason)


def allocate(bm: Baremetal, allocation: Allocation) -> None:
    """Find a node for an allocation, when its time has come."""
    failure = next((f for f in bm.failures if f.operation == "allocate"), None)
    if failure is not None:
        failure.count -= 1
        if failure.count <= 0:
            bm.failures.remove(failure)

    def finish() -> None:
        if bm.store.allocations.get(allocation.uuid) is not allocation:
            return
        chosen = failure.error if failure is not None else _choose(bm, allocation)
        if isinstance(chosen, str):
            _refuse(bm, allocation, f"Failed to process allocation {allocation.uuid}: {chosen}.")
            return
        try:
            _take(bm, allocation, chosen)
        except errors.ApiError as exc:
            _refuse(bm, allocation, f"Unexpected exception during allocation: {exc.message}")

    bm.timeline.after(bm.seconds(bm.settings.durations.allocate), finish)


def backfill(bm: Baremetal, allocation: Allocation, node: Node) -> None:
    """Make an allocation for an instance that is on a node already.

    :raises ApiError: if they do not fit; the allocation is left in error.
    """
    problems = []
    if node.provision_state != states.ACTIVE:
        problems.append(
            'Node must be in the "active" state, but the current state is'
            f' "{node.provision_state}"'
        )
    if allocation.resource_class and node.resource_class != allocation.resource_class:
        problems.append(
            f"Resource class {node.resource_class} does not match the requested resource class"
            f" {allocation.resource_class}"
        )
    if allocation.traits and not set(allocation.traits).issubset(node.traits):
        problems.append(
            f"List of traits {list(node.traits)} does not match the requested traits"
            f" {allocation.traits}"
        )
    if allocation.candidate_nodes and node.uuid not in allocation.candidate_nodes:
        problems.append(
            "Candidate nodes must be empty or contain the target node, but got"
            f" {allocation.candidate_nodes}"
        )
    try:
        bm.acquire(node)
        if problems:
            raise errors.ApiError(
                500,
                f"Failed to process allocation {allocation.uuid}: Cannot backfill an allocation"
                f" for node {node.uuid}: {'; '.join(problems)}.",
            )
        _take(bm, allocation, node)
    except errors.ApiError as exc:
        _refuse(bm, allocation, exc.message)
        raise


def release(bm: Baremetal, allocation: Allocation) -> None:
    """Delete an allocation, which frees its node.

    :raises ApiError: 409 while the node is active, in transition or locked.
    """
    node = allocation.node
    if node is not None:
        bm.acquire(node)
        _check_releasable(node, allocation)
    bm.store.remove_allocation(allocation)


def _check_releasable(node: Node, allocation: Allocation) -> None:
    if node.maintenance:
        return
    if node.target_provision_state and node.provision_state not in states.UPDATE_ALLOWED:
        raise errors.conflict(
            f"Cannot remove allocation {allocation.uuid} for node {node.uuid}, because the node"
            f" is in state {node.provision_state} where updates are not allowed (and maintenance"
            " mode is off)"
        )
    if node.provision_state == states.ACTIVE:
        raise errors.conflict(
            f"Cannot remove allocation {allocation.uuid} for node {node.uuid}, because the node"
            " is active (and maintenance mode is off)"
        )
