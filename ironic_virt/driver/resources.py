# SPDX-License-Identifier: Apache-2.0

"""What a node is, what it offers, and whether it is free: pure functions."""

from __future__ import annotations

from collections.abc import Mapping

from ironic_virt.baremetal import states
from ironic_virt.baremetal.node import Node
from ironic_virt.baremetal.properties import NodeProperties
from ironic_virt.request.spec import placement_class as placement_class
from ironic_virt.virt import InstanceInfo, NodeInventory, NodeResource, PowerState

HYPERVISOR_TYPE = "ironic"
REBUILD_MARK = "ironic_virt_rebuild"
_PROTECTION = "Server {} runs on this node ([ironic] protect_instances)."

_POWER_STATES = {
    states.POWER_ON: PowerState.RUNNING,
    states.POWER_OFF: PowerState.SHUTDOWN,
}


def why_not_free(node: Node) -> str | None:
    """Why a node can't take a new instance; ``None`` if it can.

    An unknown state or an unreadable field never counts as free.
    """
    if node.instance_uuid is not None:
        return f"it belongs to server {node.instance_uuid}"
    return why_not_deployable(node)


def why_not_deployable(node: Node) -> str | None:
    """Why nothing can be deployed on a node, whether or not it carries an instance."""
    if node.malformed:
        return f"Ironic's data about it can't be read: {', '.join(node.malformed)}"
    if reason := why_in_maintenance(node):
        return f"it is {reason}"
    if node.retired:
        return "it is retired"
    if node.provision_state != states.AVAILABLE:
        return f"it is not available but in {node.states}"
    if node.power_state not in (states.POWER_ON, states.POWER_OFF):
        return f"its power can't be controlled: {node.states}"
    return None


def node_resource(node: Node) -> NodeResource:
    """What the node is; sizes as Ironic's ``properties`` have them."""
    properties = node.properties
    is_out_of_use = node.instance_uuid is not None or node.maintenance or node.retired
    return NodeResource(
        uuid=node.uuid,
        hypervisor_hostname=node.uuid,
        vcpus=properties.cpus,
        memory_mb=properties.memory_mb,
        local_gb=properties.local_gb,
        in_use=node.instance_uuid is not None,
        cpu_arch=properties.cpu_arch,
        resource_class=node.resource_class,
        stats=stats_of(properties),
        available=why_not_free(node) is None,
        name=node.name,
        cleaning=not is_out_of_use and node.provision_state in states.GIVEN_BACK,
        failure_domains=None if node.failure_domain is None else {node.failure_domain: 1},
    )


def stats_of(properties: NodeProperties) -> dict[str, str]:
    """Capabilities and ``cpu_arch`` by name."""
    arch = {} if properties.cpu_arch is None else {"cpu_arch": properties.cpu_arch}
    return dict(properties.capabilities) | arch


def asked_capabilities(extra_specs: Mapping[str, str]) -> dict[str, str]:
    """What a flavor asks of capabilities, by their names."""
    prefix = "capabilities:"
    return {
        key.removeprefix(prefix): requirement
        for key, requirement in extra_specs.items()
        if key.startswith(prefix)
    }


def node_inventory(node: Node) -> NodeInventory:
    """What the node offers: one, reserved unless it is free right now."""
    name = node.resource_class or ""
    return NodeInventory(
        resource_class=name,
        placement_class=placement_class(name) if name else "",
        total=1 if name else 0,
        reserved=1 if name and why_not_free(node) else 0,
        traits=node.traits,
    )


def power_of(node: Node) -> InstanceInfo:
    """The power state of the instance on a node, and whether it is what was deployed."""
    state = _POWER_STATES.get(node.power_state or "", PowerState.NOSTATE)
    return InstanceInfo(
        state,
        active=node.provision_state == states.ACTIVE,
        deploying=node.provision_state in states.DEPLOY_IN_PROGRESS,
        rebuild_pending=is_rebuild_pending(node),
    )


def is_rebuild_pending(node: Node) -> bool:
    """Whether Ironic has not begun with a rebuild: the node tells of an image that it lacks."""
    mark = (node.instance_info or {}).get(REBUILD_MARK)
    return (
        isinstance(mark, dict)
        and mark.get("provision_state") == node.provision_state
        and mark.get("provision_updated_at") == node.provision_updated_at
    )


# -- what an operator has said of a node ----------------------------------------


def why_in_maintenance(node: Node) -> str | None:
    """What to say of a node in maintenance; ``None`` if it isn't."""
    if not node.maintenance:
        return None
    return "in maintenance" + (f" ({node.maintenance_reason})" if node.maintenance_reason else "")


def protection_of(instance: str) -> str:
    """The ``protected_reason`` of a node that this package protects for an instance."""
    return (
        f"{_PROTECTION.format(instance)} Delete the server with its compute service, or take the "
        "protection off: openstack baremetal node unset --protected <node>"
    )


def is_protected_here(node: Node) -> bool:
    """Whether this package protects the instance that a node carries."""
    reason = node.protected_reason or ""
    return node.protected and reason.startswith(_PROTECTION.format(node.instance_uuid or ""))


def why_protected(node: Node) -> str | None:
    """What to say of a node that somebody else protects, with the remedy; else ``None``."""
    if not node.protected or is_protected_here(node):
        return None
    why = f" ({node.protected_reason})" if node.protected_reason else ""
    return (
        f"the node is protected{why}; take the protection off in Ironic first: "
        f"openstack baremetal node unset --protected {node.uuid}"
    )
