# SPDX-License-Identifier: Apache-2.0

"""VIFs: which virtual interface is attached to which port of a node.

As in Ironic, a VIF is kept in the ``internal_info`` of the port or port group
that it is bound to, and the ``noop`` network interface accepts any and
remembers none.  It is kept before Neutron is asked, and stays when Neutron refuses.
"""

import contextlib
from collections.abc import Iterator

from ironic_virt.testing.fake_ironic import errors, states
from ironic_virt.testing.fake_ironic.baremetal import Baremetal
from ironic_virt.testing.fake_ironic.records import Node, Port, Portgroup

VIF_KEY = "tenant_vif_port_id"


def _holders(bm: Baremetal, node: Node) -> list[Port | Portgroup]:
    return [*bm.store.ports_of(node), *bm.store.portgroups_of(node)]


def vif_of(holder: Port | Portgroup) -> str | None:
    vif: str | None = holder.internal_info.get(VIF_KEY)
    return vif


def vifs(bm: Baremetal, node: Node) -> list[str]:
    """The ids of the VIFs attached to a node."""
    return [vif for holder in _holders(bm, node) if (vif := vif_of(holder))]


def _clear(bm: Baremetal, holder: Port | Portgroup) -> None:
    info = {key: value for key, value in holder.internal_info.items() if key != VIF_KEY}
    bm.update(holder, internal_info=info)


def _is_usable(node: Node, port: Port) -> bool:
    """Whether a port says where it is plugged in, as far as Neutron has to know."""
    if port.extra.get("client-id"):
        return True
    link = port.local_link_connection
    if node.network_interface == "neutron" and not link:
        return False
    return port.is_smartnic == ("port_id" in link and "hostname" in link)


def _has_another(holder: Port | Portgroup, vif: str) -> bool:
    """Whether a port or port group has a VIF.

    :raises ApiError: 409 if it is this one.
    """
    if vif_of(holder) == vif:
        raise errors.conflict(
            f"Unable to attach VIF because VIF {vif} is already attached to Ironic"
            f" {type(holder).__name__} {holder.uuid}"
        )
    return vif_of(holder) is not None


def _choose(
    bm: Baremetal, node: Node, vif: str, port_uuid: str | None, portgroup_uuid: str | None
) -> Port | Portgroup:
    """The free port or port group that a VIF goes to: port groups first, then PXE ports."""
    free: list[Port | Portgroup] = []
    members: dict[str | None, list[Port]] = {}
    with_vif = set()
    for port in bm.store.ports_of(node):
        if port_uuid not in (None, port.uuid) or not _is_usable(node, port):
            continue
        if _has_another(port, vif):
            with_vif.add(port.portgroup_uuid)
        elif port.portgroup is None and not portgroup_uuid:
            free.append(port)
        else:
            members.setdefault(port.portgroup_uuid, []).append(port)
    for group in [] if port_uuid else bm.store.portgroups_of(node):
        if portgroup_uuid not in (None, group.uuid) or _has_another(group, vif):
            continue
        if group.uuid not in with_vif:
            free += [group] if group.uuid in members else []
        elif not portgroup_uuid:
            free += members.get(group.uuid, [])
    if not free:
        raise errors.invalid(f"Unable to attach VIF {vif}, not enough free physical ports.")
    return max(
        free, key=lambda port: (isinstance(port, Portgroup), getattr(port, "pxe_enabled", 0))
    )


@contextlib.contextmanager
def _recorded(bm: Baremetal, node: Node, failure: str) -> Iterator[None]:
    """Put an error of the block into the node's history; its ``last_error`` stays as it is."""
    try:
        yield
    except errors.ApiError as error:
        bm.record(node, f"{failure} Error: {error.message}", node.provision_state, "ERROR")
        raise


def attach_vif(
    bm: Baremetal,
    node: Node,
    vif: str,
    port_uuid: str | None = None,
    portgroup_uuid: str | None = None,
) -> None:
    """Bind a VIF to a free port or port group of a node.

    :raises ApiError: 409 if it is attached already or the node is locked, 400
        if no port is free, 500 if Neutron refuses it, which has been noted by then.
    """
    bm.acquire(node, unserved=400)
    if node.network_interface == "noop":
        return
    with _recorded(bm, node, f"Failed to attach VIF {vif} to node {node.uuid}."):
        holder = _choose(bm, node, vif, port_uuid, portgroup_uuid)
        bm.update(holder, internal_info={**holder.internal_info, VIF_KEY: vif})
        if vif in bm.refused_vifs:
            active = node.provision_state == states.ACTIVE
            raise errors.vif_refused(vif, node.uuid, bm.refused_vifs[vif], active=active)


def detach_vif(bm: Baremetal, node: Node, vif: str) -> None:
    """Unbind a VIF from a node.

    :raises ApiError: 400 if it is not attached, 409 if the node is locked.
    """
    bm.acquire(node, unserved=400)
    if node.network_interface == "noop":
        return
    for holder in _holders(bm, node):
        if vif_of(holder) == vif:
            _clear(bm, holder)
            return
    with _recorded(bm, node, f"Failed to detach VIF {vif} from node {node.uuid},"):
        raise errors.invalid(
            f"Unable to detach VIF {vif} from node {node.uuid} because it is not attached to it."
        )


def detach_all(bm: Baremetal, node: Node) -> None:
    """Unbind every VIF, as tearing down an instance does."""
    for holder in _holders(bm, node):
        if vif_of(holder):
            _clear(bm, holder)
