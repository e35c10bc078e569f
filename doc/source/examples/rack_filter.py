# SPDX-License-Identifier: Apache-2.0

"""A filter: nodes of the rack that a flavor names, as ``rack:name = r12``."""

from __future__ import annotations

from ironic_virt.request.spec import RequestSpec
from ironic_virt.scheduler.filters import BaseHostFilter
from ironic_virt.scheduler.host_state import HostState


class RackFilter(BaseHostFilter):
    """The node's capability ``rack`` is the flavor's ``rack:name``."""

    def why_not(self, host: HostState, spec: RequestSpec) -> str | None:
        wanted = spec.extra_specs.get("rack:name")
        rack = host.stats.get("rack", "unknown")
        if wanted and rack != wanted:
            return f"it is in rack {rack}, not {wanted}"
        return None

    def wish(self, spec: RequestSpec) -> str:
        return f"rack {spec.extra_specs.get('rack:name', 'any')}"
