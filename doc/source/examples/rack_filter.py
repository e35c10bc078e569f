# SPDX-License-Identifier: Apache-2.0

"""A filter: nodes of the rack that a flavor names, as ``rack:name = r12``."""

from __future__ import annotations

from oslo_config import cfg

from ironic_virt.request.spec import RequestSpec
from ironic_virt.scheduler.filters import Filter
from ironic_virt.scheduler.host_state import HostState


def rack(conf: cfg.ConfigOpts) -> Filter:
    """The node's capability ``rack`` is the flavor's ``rack:name``."""

    def why_not(host: HostState, spec: RequestSpec) -> str | None:
        name, asked = host.stats.get("rack", "unknown"), spec.extra_specs.get("rack:name")
        return f"it is in rack {name}, not {asked}" if asked and name != asked else None

    return Filter(why_not, lambda spec: f"rack {spec.extra_specs.get('rack:name', 'any')}")
