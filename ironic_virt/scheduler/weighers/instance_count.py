# SPDX-License-Identifier: Apache-2.0

"""``InstanceCountWeigher``: instances spread evenly over compute services."""

from __future__ import annotations

from ironic_virt.request.spec import RequestSpec
from ironic_virt.scheduler.host_state import HostState
from ironic_virt.scheduler.weighers import BaseWeigher


class InstanceCountWeigher(BaseWeigher):
    """The fewer instances a compute service has, the better.

    With a negative multiplier, one service is filled before the next.
    """

    uses_instance_counts = True

    def weigh(self, host: HostState, spec: RequestSpec) -> float:
        """See :class:`BaseWeigher`."""
        return -host.num_instances
