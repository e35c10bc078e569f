# SPDX-License-Identifier: Apache-2.0

"""Finding the resource that a URL or an argument names."""

from typing import TypeVar

from ironic_virt.testing.fake_ironic import checks, errors, versions
from ironic_virt.testing.fake_ironic.records import Allocation, Chassis, Node, Port, Portgroup
from ironic_virt.testing.fake_ironic.store import Table
from ironic_virt.testing.fake_ironic.web import Request

RowT = TypeVar("RowT", Port, Portgroup, Allocation)


def find_node(request: Request, ident: str, missing: int = 404) -> Node:
    """The node with this uuid or name.

    :param missing: the status if there is none.
    :raises ApiError: ``missing``; 400 if it is neither a uuid nor a name.
    """
    if not checks.is_uuid(ident) and not checks.is_name(ident):
        raise errors.RoutingError(400, f"Expected UUID or name for node: {ident}")
    store = request.bm.store
    node = store.nodes.get(ident)
    if node is None and not checks.is_uuid(ident) and request.minor >= versions.NODE_NAMES:
        node = store.node_by_name(ident)
    if node is None and request.suffix:
        ident += request.suffix
        node = store.node_by_name(ident) if request.minor >= versions.NODE_NAMES else None
    if node is None:
        raise errors.node_not_found(ident, missing)
    return node


def find_parent(request: Request, ident: str) -> Node:
    """The node whose ports or port groups are asked for.

    Ironic 39.0.0 finds it by its uuid only, and says so in a strange way.

    :raises ApiError: 404.
    """
    node = request.bm.store.nodes.get(ident)
    if node is None:
        raise errors.not_found("Portgroup None could not be found.")
    return node


def find_chassis(request: Request, uuid: str, missing: int = 404) -> Chassis:
    chassis = request.bm.store.chassis.get(uuid)
    if chassis is None:
        raise errors.ApiError(missing, f"Chassis {uuid} could not be found.")
    return chassis


def _find(table: Table[RowT], ident: str) -> RowT | None:
    """A row by uuid, or by name if ``ident`` is not a uuid."""
    if checks.is_uuid(ident):
        return table.get(ident)
    return next((row for row in table if row.name == ident), None)


def find_port(request: Request, ident: str) -> Port:
    port = _find(request.bm.store.ports, ident)
    if port is None:
        raise errors.not_found(f"Port {ident} could not be found.")
    return port


def find_portgroup(request: Request, ident: str, missing: int = 404) -> Portgroup:
    group = _find(request.bm.store.portgroups, ident)
    if group is None:
        raise errors.ApiError(missing, f"Portgroup {ident} could not be found.")
    return group


def find_allocation(request: Request, ident: str) -> Allocation:
    if not checks.is_uuid(ident) and not checks.is_name(ident):
        raise errors.invalid(f"Expected a logical name or UUID but received {ident}.")
    allocation = _find(request.bm.store.allocations, ident)
    if allocation is None:
        raise errors.not_found(f"Allocation {ident} could not be found.")
    return allocation
