# SPDX-License-Identifier: Apache-2.0

"""``NumInstancesFilter``: no compute service gets too many instances."""

from __future__ import annotations

from oslo_config import cfg

from ironic_virt.request.spec import RequestSpec
from ironic_virt.scheduler.filters import BaseHostFilter
from ironic_virt.scheduler.host_state import HostState


class NumInstancesFilter(BaseHostFilter):
    """The compute service has fewer instances than ``max_instances_per_host``."""

    uses_instance_counts = True

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        super().__init__(conf)
        self._most: int = conf.scheduler.max_instances_per_host

    def why_not(self, host: HostState, spec: RequestSpec) -> str | None:
        """See :class:`BaseHostFilter`."""
        if host.num_instances >= self._most:
            return f"{host.host} has {host.num_instances} servers, {self._most} are allowed"
        return None

    def wish(self, spec: RequestSpec) -> str:
        """See :class:`BaseHostFilter`."""
        return f"fewer than {self._most} servers on the compute service"
