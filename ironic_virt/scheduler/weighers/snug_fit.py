# SPDX-License-Identifier: Apache-2.0

"""``SnugFitWeigher``: no large node for a small request while a smaller one is free."""

from __future__ import annotations

import math

from ironic_virt.request.spec import RequestSpec
from ironic_virt.scheduler.host_state import HostState
from ironic_virt.scheduler.weighers import BaseWeigher


class SnugFitWeigher(BaseWeigher):
    """The less of a host is left over, the better.

    What is left over is counted in doublings of what is asked for: memory, cores and
    disk that are all twice as much count 3.  A trait that isn't asked for, as that of
    a GPU, counts 1.

    Counts twice as much as a weigher usually does: a large node isn't spent to spread
    instances over compute services.
    """

    multiplier = 2.0

    def weigh(self, host: HostState, spec: RequestSpec) -> float:
        """See :class:`BaseWeigher`."""
        return -(
            _doublings(host.free_ram_mb, spec.memory_mb)
            + _doublings(host.vcpus_total - host.vcpus_used, spec.vcpus)
            + _doublings(host.free_disk_mb, spec.disk_mb)
            + sum(trait not in spec.required_traits for trait in host.traits)
        )


def _doublings(free: int, asked: int) -> float:
    # A size that a node doesn't know is 0, and no better than a snug one.
    return max(0.0, math.log2((free + 1) / (asked + 1))) if free > 0 else 0.0
