# SPDX-License-Identifier: Apache-2.0

"""Filters: each is a row that says why a request can't have a host, and what it asks for.

An entry point in ``ironic_virt.scheduler.filters`` names a function that makes a
:class:`Filter` from the options, and ``[scheduler] enabled_filters`` enables it by the entry
point's name.  One row serves all requests, from any thread.

``resources:MEMORY_MB``, ``resources:VCPU`` and ``resources:DISK_GB`` in a flavor replace the
flavor's sizes: 0 means that the size doesn't matter.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import logging
from collections.abc import Callable
from operator import attrgetter
from typing import Any

from oslo_config import cfg

from ironic_virt import logs
from ironic_virt.request import requirements
from ironic_virt.request.sizes import fits_exactly
from ironic_virt.request.spec import RequestSpec
from ironic_virt.scheduler.host_state import FACTS, HostState

LOG = logging.getLogger(__name__)

NAMESPACE = "ironic_virt.scheduler.filters"


@dataclasses.dataclass(frozen=True, slots=True)
class Filter:
    """Says of one host state at a time whether a request may have it.

    :param why_not: why the request can't have the host, in one line; ``None`` if it can.
        Changes nothing.
    :param wish: what the filter wants for a request, in a few words.
    :param uses_instance_counts: it depends on ``HostState.host`` and ``num_instances`` alone.
    """

    why_not: Callable[[HostState, RequestSpec], str | None]
    wish: Callable[[RequestSpec], str] = lambda _spec: ""
    uses_instance_counts: bool = False


# -- sizes --------------------------------------------------------------------

Make = Callable[[cfg.ConfigOpts], Filter]


def _size(size: str, unit: str, *, exact: bool) -> Make:
    """Make a filter: is at least as much free as the request needs, or exactly as much?"""
    of = attrgetter(size)

    def make(_conf: cfg.ConfigOpts) -> Filter:
        warned = logs.LogOnce()

        def why_not(host: HostState, spec: RequestSpec) -> str | None:
            free, need = of(host.free), of(spec.asked)
            if not need or (fits_exactly(free, need) if exact else free >= need):
                return None
            if exact and size == "vcpus" and not host.vcpus_total:
                if warned.is_news(host.nodename):
                    LOG.warning(
                        "[node-without-cpus] Compute node %s of %s doesn't say how many cores "
                        "it has: ExactCoreFilter rejects it. Set the node's properties/cpus in "
                        "Ironic",
                        *(host.nodename, host.host),
                    )
                return "it doesn't say how many cores it has"
            return f"{free} {unit} are free, not {need}"

        def wish(spec: RequestSpec) -> str:
            need = of(spec.asked)
            return f"{'exactly' if exact else 'at least'} {need} {unit}" if need else "any size"

        return Filter(why_not, wish)

    return make


_SIZES = (("memory_mb", "MiB of memory"), ("vcpus", "cores"), ("disk_mb", "MiB of disk"))
ram, core, disk = (_size(*size, exact=False) for size in _SIZES)
exact_ram, exact_core, exact_disk = (_size(*size, exact=True) for size in _SIZES)


# -- what a node is -----------------------------------------------------------


def resource_class(_conf: cfg.ConfigOpts) -> Filter:
    """The node's resource class is that of the flavor's ``resources:CUSTOM_...=1``.

    Ironic's name and Placement's mean the same: a node of class ``gold.8`` has
    ``CUSTOM_GOLD_8``, and has one of it.  A flavor without one takes any node.
    """

    def why_not(host: HostState, spec: RequestSpec) -> str | None:
        for name, amount in spec.resource_classes.items():
            if host.placement_class != name:
                return f"its resource class is {host.resource_class or 'not set'}, not {name}"
            if amount > 1:
                return f"it has one {name}, not {amount}"
        return None

    def wish(spec: RequestSpec) -> str:
        listed = [f"{amount} {name}" for name, amount in sorted(spec.resource_classes.items())]
        return " and ".join(listed) or "any class"

    return Filter(why_not, wish)


def traits(_conf: cfg.ConfigOpts) -> Filter:
    """The node has all required traits and none of the forbidden ones.

    An image may require additional traits, also when an instance is rebuilt with it.
    """

    def why_not(host: HostState, spec: RequestSpec) -> str | None:
        if missing := spec.required_traits.difference(host.traits):
            return f"it lacks {', '.join(sorted(missing))}"
        if present := spec.forbidden_traits.intersection(host.traits):
            return f"it has {', '.join(sorted(present))}"
        return None

    def wish(spec: RequestSpec) -> str:
        wishes = [f"with {name}" for name in sorted(spec.required_traits)]
        wishes += [f"without {name}" for name in sorted(spec.forbidden_traits)]
        return ", ".join(wishes) or "any traits"

    return Filter(why_not, wish)


def num_instances(conf: cfg.ConfigOpts) -> Filter:
    """The compute service has fewer instances than ``max_instances_per_host``."""
    most: int = conf.scheduler.max_instances_per_host

    def why_not(host: HostState, _spec: RequestSpec) -> str | None:
        if host.num_instances >= most:
            return f"{host.host} has {host.num_instances} servers, {most} are allowed"
        return None

    wish = f"fewer than {most} servers on the compute service"
    return Filter(why_not, lambda _spec: wish, uses_instance_counts=True)


def compute_capabilities(_conf: cfg.ConfigOpts) -> Filter:
    """The node's capabilities fulfil the flavor's extra specs.

    ``capabilities:boot_mode`` names a capability, which the node must have;
    ``capabilities:cpu_info:features`` one inside a capability that is JSON.  A key
    without a scope counts only for nodes that have such a capability or fact, and
    keys of other scopes don't count.
    """

    def why_not(host: HostState, spec: RequestSpec) -> str | None:
        for key, requirement in spec.extra_specs.items():
            path, scoped = _path(key)
            if not path or not (scoped or path[0] in FACTS or path[0] in host.stats):
                continue
            value = _value(host, path)
            if value is None:
                return f"it has no capability {':'.join(path)}"
            if not requirements.matches(str(value), requirement):
                return f"its {':'.join(path)} is {value}, not {requirement}"
        return None

    def wish(spec: RequestSpec) -> str:
        paths = ((*_path(key), requirement) for key, requirement in spec.extra_specs.items())
        wishes = [f"{':'.join(path)} {value}" for path, scoped, value in paths if path and scoped]
        return ", ".join(wishes) or "any capabilities"

    return Filter(why_not, wish)


@functools.lru_cache(maxsize=1024)
def _path(key: str) -> tuple[tuple[str, ...], bool]:
    """The capability that a key names, and whether by its scope; none: ``()``."""
    first, *rest = key.split(":")
    if not rest:
        return (first,), False
    return (tuple(rest) if first == "capabilities" else ()), True


def _value(host: HostState, path: tuple[str, ...]) -> Any:
    first, *rest = path
    value: Any = getattr(host, first, None) if first in FACTS else None
    if value is None:
        value = host.stats.get(first)
    for name in rest:
        if isinstance(value, str):
            try:
                value = json.loads(value)
            except ValueError:
                return None
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return value
