# SPDX-License-Identifier: Apache-2.0

"""``ResourceClassFilter``: a flavor names a resource class, a node has one."""

from __future__ import annotations

import dataclasses

from ironic_virt.request.spec import RequestSpec
from ironic_virt.scheduler.candidates import CandidateQuery
from ironic_virt.scheduler.filters import BaseHostFilter
from ironic_virt.scheduler.host_state import HostState


class ResourceClassFilter(BaseHostFilter):
    """The node's resource class is that of the flavor's ``resources:CUSTOM_...=1``.

    Ironic's name and Placement's mean the same: a node of class ``gold.8`` has
    ``CUSTOM_GOLD_8``, and has one of it.  A flavor without one takes any node.
    """

    def why_not(self, host: HostState, spec: RequestSpec) -> str | None:
        """See :class:`BaseHostFilter`."""
        for name, amount in spec.resource_classes.items():
            if host.placement_class != name:
                return f"its resource class is {host.resource_class or 'not set'}, not {name}"
            if amount > 1:
                return f"it has one {name}, not {amount}"
        return None

    def narrow(self, query: CandidateQuery, spec: RequestSpec) -> CandidateQuery:
        """See :class:`BaseHostFilter`."""
        wanted = spec.resource_classes
        if not wanted:
            return query
        # A node has one class, and one of it.
        possible = frozenset(wanted if len(wanted) == 1 and max(wanted.values()) == 1 else ())
        if query.resource_classes is not None:
            possible &= query.resource_classes
        return dataclasses.replace(query, resource_classes=possible)

    def wish(self, spec: RequestSpec) -> str:
        """See :class:`BaseHostFilter`."""
        listed = [f"{amount} {name}" for name, amount in sorted(spec.resource_classes.items())]
        return " and ".join(listed) or "any class"
