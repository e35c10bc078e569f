# SPDX-License-Identifier: Apache-2.0

"""From what is to a plan: pure functions of a deployment.

Each refuses a deployment in which a node's owner is not clear; ``ironic-virt-fleet check``
says how that is mended.
"""

from __future__ import annotations

import dataclasses
import heapq
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from ironic_virt.baremetal.node import Node
from ironic_virt.fleet import checks
from ironic_virt.fleet.deployment import Deployment
from ironic_virt.fleet.plans.plan import Change, Plan, PlanRefused

MAY_DIFFER = 0.05
"""By how much a service's load may be off the mean before nodes are moved."""

_OWNERS_CODES = ("node-in-two-records", "host-differs", "two-servers-on-a-node")
_FEW = 3

Weigh = Callable[[Node], int]


@dataclasses.dataclass(slots=True)
class _Unit:
    """What moves as a whole: a node, or a conductor group's nodes.

    :ivar host: the service that has most of it now; ``None``: none has any.
    """

    nodes: list[Node]
    weight: int
    host: str | None
    servers: int


def keep(deployment: Deployment) -> Plan:
    """Each node gets the shard of the service that has its record: no record moves.

    Nodes without a record go to the service that has least.

    :raises PlanRefused: a node's owner is not clear.
    """
    hosts = sorted({record.host for record in deployment.node_records.values()})
    plan = _plan(deployment, "keep", hosts, placed=_placed(deployment, hosts))
    if plan.moved:
        first = plan.moved[0]
        raise PlanRefused(
            f"node {first.node} is not in the conductor group of {first.host[0]}, which has its "
            "record; ironic-virt-fleet check says what mends it"
        )
    return plan


def balance(
    deployment: Deployment,
    hosts: Collection[str],
    *,
    weigh: Weigh = lambda node: 1,
    keep_groups: bool = False,
) -> Plan:
    """Each service has as much as the others, within 5 %, by the fewest moves.

    :param hosts: the services; what others have goes to these.
    :param weigh: how much a node counts.
    :param keep_groups: whether all nodes of a conductor group stay with one service.
    :raises PlanRefused: a node's owner is not clear, or no service may have it.
    """
    placed = _placed(deployment, hosts, weigh=weigh, keep_groups=keep_groups, balanced=True)
    return _plan(deployment, "balance", hosts, placed)


def drain(deployment: Deployment, host: str) -> Plan:
    """What a service has goes to the others that are up, and nothing else moves.

    :raises PlanRefused: there is no other service.
    """
    hosts = [
        one
        for one in sorted({record.host for record in deployment.node_records.values()} - {host})
        if one in deployment.service_of and deployment.service_of[one].up
    ]
    if host not in {record.host for record in deployment.records}:
        raise PlanRefused(f"{host} has no nodes")
    if not hosts:
        raise PlanRefused(f"no other service is up that could have the nodes of {host}")
    return _plan(deployment, f"drain {host}", hosts, _placed(deployment, hosts))


def add(deployment: Deployment, host: str) -> Plan:
    """A new service gets its part from those that have most, and nothing else moves."""
    hosts = {record.host for record in deployment.node_records.values()} | {host}
    placed = _placed(deployment, hosts, balanced=True, only_to=host)
    return _plan(deployment, f"add {host}", hosts, placed)


def shard_of(deployment: Deployment, host: str) -> str:
    """The shard of a service: what its file says, or its name."""
    options = deployment.options.get(host)
    return options.shard if options is not None and options.shard else host


# -- who gets what ------------------------------------------------------------


def _plan(
    deployment: Deployment, strategy: str, hosts: Collection[str], placed: Mapping[str, str]
) -> Plan:
    shards = {host: shard_of(deployment, host) for host in sorted(hosts)}
    twice = {shard for shard in shards.values() if list(shards.values()).count(shard) > 1}
    if twice:
        raise PlanRefused(f"two services have the shard {', '.join(sorted(twice))}")
    changes = []
    for uuid, host in sorted(placed.items()):
        record = deployment.node_records.get(uuid)
        node = deployment.nodes[uuid]
        servers = deployment.servers_by_place.get(uuid, ())
        change = Change(
            uuid,
            (node.shard, shards[host]),
            (record.host if record is not None else None, host),
            servers[0].uuid if servers else None,
        )
        if change.is_needed:
            changes.append(change)
    return Plan(strategy, deployment.read_at, shards, changes)


def _placed(
    deployment: Deployment,
    hosts: Collection[str],
    *,
    weigh: Weigh = lambda node: 1,
    keep_groups: bool = False,
    balanced: bool = False,
    only_to: str | None = None,
) -> dict[str, str]:
    """Each node's service afterwards."""
    _refuse_unclear(deployment)
    if not hosts:
        raise PlanRefused("there are no services with nodes; name some with --service")
    found: dict[str, str] = {}
    # Services with different conductor groups share no nodes.
    for able, nodes in _by_able_hosts(deployment, hosts).items():
        units = list(_units(deployment, nodes, able, weigh, keep_groups=keep_groups))
        where = _settle(units, able)
        if balanced:
            _level(units, where, able, only_to)
        found.update((node.uuid, where[i]) for i, unit in enumerate(units) for node in unit.nodes)
    return found


def _refuse_unclear(deployment: Deployment) -> None:
    if unclear := checks.run(deployment, _OWNERS_CODES):
        shown = "; ".join(f"{one.about}: {one.words}" for one in unclear[:_FEW])
        more = f", and {len(unclear) - _FEW} more" if len(unclear) > _FEW else ""
        raise PlanRefused(
            f"it is not clear whose these are: {shown}{more}. ironic-virt-fleet check says what "
            "mends it"
        )
    if deployment.pool_records:
        raise PlanRefused(
            f"host {deployment.pool_records[0].host} reports pools and not nodes: its nodes have "
            "no records that could be moved"
        )


def _by_able_hosts(
    deployment: Deployment, hosts: Collection[str]
) -> dict[tuple[str, ...], list[Node]]:
    """The nodes by the services that may have them, whose conductor group they are in."""
    found: dict[tuple[str, ...], list[Node]] = defaultdict(list)
    cache: dict[str, tuple[str, ...]] = {}
    cells = {service.host: service.cell for service in deployment.services}
    for node in deployment.nodes.values():
        group = (node.conductor_group or "").lower()
        if group not in cache:
            cache[group] = tuple(sorted(host for host in hosts if _takes(deployment, host, group)))
        able = cache[group]
        record = deployment.node_records.get(node.uuid)
        if record is not None:
            # A record can't go to the database of another cell.
            able = tuple(host for host in able if cells.get(host, record.cell) == record.cell)
        if not able:
            raise PlanRefused(
                f"no service may have node {node.uuid}: its conductor group is {group!r}"
            )
        found[able].append(node)
    return found


def _takes(deployment: Deployment, host: str, group: str) -> bool:
    options = deployment.options.get(host)
    wanted = options.conductor_group if options is not None else None
    return wanted is None or wanted.lower() == group


def _units(
    deployment: Deployment,
    nodes: Sequence[Node],
    able: Sequence[str],
    weigh: Weigh,
    *,
    keep_groups: bool,
) -> Iterable[_Unit]:
    groups: dict[str, list[Node]] = defaultdict(list)
    for node in nodes:
        groups[(node.conductor_group or "").lower() if keep_groups else node.uuid].append(node)
    for members in groups.values():
        has: dict[str, int] = defaultdict(int)
        servers = 0
        for node in members:
            record = deployment.node_records.get(node.uuid)
            if record is not None and record.host in able:
                has[record.host] += weigh(node)
            servers += bool(deployment.servers_by_place.get(node.uuid))
        host = max(sorted(has), key=lambda name: has[name]) if has else None
        yield _Unit(members, sum(map(weigh, members)), host, servers)


def _settle(units: Sequence[_Unit], able: Sequence[str]) -> list[str]:
    """Units stay where they are; those that are nowhere go where least is, the heavy first."""
    loads = dict.fromkeys(able, 0)
    for unit in units:
        if unit.host is not None:
            loads[unit.host] += unit.weight
    where = [unit.host or "" for unit in units]
    heap = [(load, host) for host, load in loads.items()]
    heapq.heapify(heap)
    homeless = [i for i, unit in enumerate(units) if unit.host is None]
    for i in sorted(homeless, key=lambda i: (-units[i].weight, units[i].nodes[0].uuid)):
        load, host = heap[0]
        heapq.heapreplace(heap, (load + units[i].weight, host))
        where[i] = host
    return where


def _level(
    units: Sequence[_Unit], where: list[str], able: Sequence[str], only_to: str | None
) -> None:
    """Move units from where most is to where least is, until all are near the mean.

    A move takes the heaviest unit that still leaves the giver with no less than the taker, and
    of those one without a server.
    """
    if only_to is not None and only_to not in able:
        return
    loads = dict.fromkeys(able, 0)
    stock: dict[str, dict[int, list[int]]] = {host: defaultdict(list) for host in able}
    order = sorted(
        range(len(units)),
        # The last of a list is taken first: one that moves anyhow, then one without a server.
        key=lambda i: (units[i].host is not None, units[i].servers, units[i].nodes[0].uuid),
        reverse=True,
    )
    for i in order:
        loads[where[i]] += units[i].weight
        stock[where[i]][units[i].weight].append(i)
    mean = sum(loads.values()) / len(loads)
    most, least = mean * (1 + MAY_DIFFER), mean * (1 - MAY_DIFFER)
    takers = list(loads) if only_to is None else [only_to]
    while True:
        giver = max(loads, key=lambda host: (loads[host], host))
        taker = min(takers, key=lambda host: (loads[host], host))
        if only_to is not None and loads[taker] >= least:
            return
        if loads[giver] <= most and loads[taker] >= least:
            return
        gap = loads[giver] - loads[taker]
        fitting = [weight for weight, kept in stock[giver].items() if kept and weight < gap]
        if not fitting:
            return
        halves = [weight for weight in fitting if 2 * weight <= gap]
        weight = max(halves) if halves else min(fitting)
        i = stock[giver][weight].pop()
        stock[taker][weight].append(i)
        where[i] = taker
        loads[giver] -= weight
        loads[taker] += weight
