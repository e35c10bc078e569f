# SPDX-License-Identifier: Apache-2.0

"""Which nodes an instance may get: the candidates that Ironic is given to choose from.

A node fits if it is free, of the flavor's resource class, has the traits that are
required and none that are forbidden, and fulfils what else the flavor asks.  Of
those that fit only the plainest are candidates: Ironic takes any of them, so there
must be no node with a GPU among them while one without would do.

Pure functions; the random number generator comes in as an argument.
"""

from __future__ import annotations

import dataclasses
import random
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence

from ironic_virt.baremetal.inventory.snapshot import Kind
from ironic_virt.baremetal.node import Node
from ironic_virt.baremetal.properties import NodeProperties
from ironic_virt.driver.resources import HYPERVISOR_TYPE, asked_capabilities, stats_of
from ironic_virt.request import requirements
from ironic_virt.request.spec import RequestSpec, placement_class

EXACT = "exact"
"""The sizes are those of the request (``[ironic] match``); otherwise at least those."""


@dataclasses.dataclass(frozen=True, slots=True)
class Choice:
    """Candidates, and how they were found.

    :ivar nodes: all of one resource class, and all alike in how plain they are.
    :ivar fitting: how many nodes fit, plain or not.
    :ivar remaining: condition by condition, in words, how many free nodes it left.
    :ivar about: what else decided which nodes may be taken, in words.
    """

    nodes: tuple[Node, ...]
    fitting: int
    remaining: tuple[tuple[str, int], ...]
    about: str | None = None

    @property
    def reason(self) -> str:
        """How many nodes were left by what, in words."""
        return "; ".join(f"{condition}: {number}" for condition, number in self.remaining)


def choose_nodes(
    free: Mapping[Kind, Sequence[Node]],
    spec: RequestSpec,
    *,
    match: str,
    most: int,
    rng: random.Random,
    prefer: Callable[[Kind], bool] = lambda kind: False,
    allowed: Collection[str] | None = None,
) -> Choice:
    """The candidates for a request.

    :param free: nodes that look free, by resource class and traits.
    :param spec: what is asked for; ``exclude_nodes`` are left out.
    :param match: ``exact`` or ``at_least``.
    :param most: so many candidates at most; which ones is left to ``rng``, so that two
        services that choose at the same time seldom choose the same.
    :param prefer: the kind whose nodes come first among those that are as plain.
    :param allowed: uuids of the nodes that may be taken; ``None``: all.
    """
    kinds = {kind: nodes for kind, nodes in free.items() if kind[0]}
    remaining = [("free", _number(kinds))]
    if requested := spec.resource_classes:
        # A node has one class, and one of it.
        kinds = {k: nodes for k, nodes in kinds.items() if requested == {placement_class(k[0]): 1}}
    classes = [f"{amount} {name}" for name, amount in sorted(requested.items())]
    remaining.append((f"of resource class {' and '.join(classes) or 'any'}", _number(kinds)))
    kinds = {
        kind: nodes
        for kind, nodes in kinds.items()
        if spec.required_traits <= kind[1] and not spec.forbidden_traits & kind[1]
    }
    remaining.append((_traits_condition(spec), _number(kinds)))
    # Nodes that are alike share one value, which lives as long as they do.
    known: dict[int, bool] = {}

    def fits(node: Node) -> bool:
        key = id(node.properties)
        if key not in known:
            known[key] = _fits(node.properties, spec, match)
        return known[key]

    matches = {
        kind: fitting
        for kind, nodes in kinds.items()
        if (fitting := [node for node in nodes if fits(node)])
    }
    remaining.append((_sizes_condition(spec, match), _number(matches)))
    matches = {
        kind: rest
        for kind, nodes in matches.items()
        if (rest := [node for node in nodes if _is_allowed(node, spec, allowed)])
    }
    remaining.append(("not tried before, and this service's", _number(matches)))
    plainest = _plainest(matches, spec, Counter({kind: len(n) for kind, n in free.items()}))
    ordered = sorted(plainest, key=lambda kind: (not prefer(kind), kind[0] or "", sorted(kind[1])))
    nodes: list[Node] = []
    for kind in ordered:
        # An allocation is for one resource class.
        if nodes and nodes[0].resource_class != kind[0]:
            continue
        rest = matches[kind]
        nodes += rng.sample(rest, min(len(rest), most - len(nodes)))
    return Choice(tuple(nodes), _number(matches), tuple(remaining))


def asked_sizes(spec: RequestSpec) -> dict[str, int]:
    """The sizes that a request asks for: cores, MiB of memory, MiB of disk.

    A flavor for bare metal says ``resources:VCPU=0`` and so on, so that its resource
    class alone decides; such a size is left out.
    """
    request = spec.asked
    sizes = {"cpus": request.vcpus, "memory_mb": request.memory_mb, "disk_mb": request.disk_mb}
    return {name: size for name, size in sizes.items() if size > 0}


def _number(kinds: Mapping[Kind, Sequence[Node]]) -> int:
    return sum(len(nodes) for nodes in kinds.values())


def _traits_condition(spec: RequestSpec) -> str:
    conditions = [f"with {name}" for name in sorted(spec.required_traits)]
    conditions += [f"without {name}" for name in sorted(spec.forbidden_traits)]
    return ", ".join(conditions) or "of any traits"


def _sizes_condition(spec: RequestSpec, match: str) -> str:
    sign = "=" if match == EXACT else ">="
    conditions = [f"{name} {sign} {size}" for name, size in asked_sizes(spec).items()]
    conditions += [
        f"{name} {value}" for name, value in sorted(asked_capabilities(spec.extra_specs).items())
    ]
    return ", ".join(conditions) or "of any size"


def _fits(properties: NodeProperties, spec: RequestSpec, match: str) -> bool:
    """Whether a node's properties do for a request."""
    has = {
        "cpus": properties.cpus,
        "memory_mb": properties.memory_mb,
        "disk_mb": 1024 * properties.local_gb,
    }
    for name, size in asked_sizes(spec).items():
        if has[name] != size if match == EXACT else has[name] < size:
            return False
    capabilities = {"hypervisor_type": HYPERVISOR_TYPE} | stats_of(properties)
    return all(
        name in capabilities and requirements.matches(capabilities[name], requirement)
        for name, requirement in asked_capabilities(spec.extra_specs).items()
    )


def _is_allowed(node: Node, spec: RequestSpec, allowed: Collection[str] | None) -> bool:
    return node.uuid not in spec.exclude_nodes and (allowed is None or node.uuid in allowed)


def _plainest(
    found: Mapping[Kind, Sequence[Node]], spec: RequestSpec, free: Counter[Kind]
) -> list[Kind]:
    """The kinds that are wasted least on the request.

    A trait that wasn't asked for costs the more, the fewer free nodes have it, so a
    kind that has all of another one's traits and more always costs more.
    """
    having: Counter[str] = Counter()
    for (_, traits), number in free.items():
        for trait in traits:
            having[trait] += number
    costs = {
        kind: sum(1 / having[trait] for trait in sorted(kind[1] - spec.required_traits))
        for kind in found
    }
    least = min(costs.values(), default=0.0)
    return [kind for kind, cost in costs.items() if cost == least]
