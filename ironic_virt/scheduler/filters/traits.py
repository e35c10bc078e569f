# SPDX-License-Identifier: Apache-2.0

"""``TraitsFilter``: traits that a node must have, and traits that it must not have."""

from __future__ import annotations

import dataclasses

from ironic_virt.request.spec import RequestSpec
from ironic_virt.scheduler.candidates import CandidateQuery
from ironic_virt.scheduler.filters import BaseHostFilter
from ironic_virt.scheduler.host_state import HostState


class TraitsFilter(BaseHostFilter):
    """The node has all required traits and none of the forbidden ones.

    An image may require traits of its own, also when an instance is rebuilt with it.
    """

    run_on_rebuild = True

    def why_not(self, host: HostState, spec: RequestSpec) -> str | None:
        """See :class:`BaseHostFilter`."""
        if missing := spec.required_traits.difference(host.traits):
            return f"it lacks {', '.join(sorted(missing))}"
        if present := spec.forbidden_traits.intersection(host.traits):
            return f"it has {', '.join(sorted(present))}"
        return None

    def narrow(self, query: CandidateQuery, spec: RequestSpec) -> CandidateQuery:
        """See :class:`BaseHostFilter`."""
        return dataclasses.replace(
            query,
            required_traits=query.required_traits | spec.required_traits,
            forbidden_traits=query.forbidden_traits | spec.forbidden_traits,
        )

    def wish(self, spec: RequestSpec) -> str:
        """See :class:`BaseHostFilter`."""
        wishes = [f"with {name}" for name in sorted(spec.required_traits)]
        wishes += [f"without {name}" for name in sorted(spec.forbidden_traits)]
        return ", ".join(wishes) or "any traits"
