# SPDX-License-Identifier: Apache-2.0

"""Filters that want what is free to be exactly what is asked for.

A pass sets the host's limit to its total, so that a second claim on the same host
fails.
"""

from __future__ import annotations

import dataclasses
import logging

from oslo_config import cfg

from ironic_virt import logs
from ironic_virt.request.spec import RequestSpec
from ironic_virt.scheduler.candidates import CandidateQuery, Span
from ironic_virt.scheduler.filters import BaseHostFilter
from ironic_virt.scheduler.host_state import HostState

LOG = logging.getLogger(__name__)


class ExactRamFilter(BaseHostFilter):
    """The flavor's memory is what is free."""

    def why_not(self, host: HostState, spec: RequestSpec) -> str | None:
        """See :class:`BaseHostFilter`."""
        if host.free_ram_mb != spec.memory_mb:
            return f"{host.free_ram_mb} MiB of memory are free, not {spec.memory_mb}"
        host.limits["memory_mb"] = host.total_usable_ram_mb
        return None

    def narrow(self, query: CandidateQuery, spec: RequestSpec) -> CandidateQuery:
        """See :class:`BaseHostFilter`."""
        exactly = Span(spec.memory_mb, spec.memory_mb)
        return dataclasses.replace(query, memory_mb=query.memory_mb & exactly)

    def wish(self, spec: RequestSpec) -> str:
        """See :class:`BaseHostFilter`."""
        return f"exactly {spec.memory_mb} MiB of memory"


class ExactCoreFilter(BaseHostFilter):
    """The flavor's cores are what is free.

    A host that doesn't say how many cores it has is rejected, with one warning.
    """

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        super().__init__(conf)
        self._told = logs.Told()

    def why_not(self, host: HostState, spec: RequestSpec) -> str | None:
        """See :class:`BaseHostFilter`."""
        if not host.vcpus_total:
            if self._told.is_news(host.nodename):
                LOG.warning(
                    "Compute node %s of %s doesn't say how many cores it has: ExactCoreFilter "
                    "rejects it. Set the node's properties/cpus in Ironic",
                    host.nodename,
                    host.host,
                )
            return "it doesn't say how many cores it has"
        free = host.vcpus_total - host.vcpus_used
        if free != spec.vcpus:
            return f"{free} cores are free, not {spec.vcpus}"
        host.limits["vcpu"] = host.vcpus_total
        return None

    def narrow(self, query: CandidateQuery, spec: RequestSpec) -> CandidateQuery:
        """See :class:`BaseHostFilter`."""
        exactly = Span(spec.vcpus, spec.vcpus)
        return dataclasses.replace(query, vcpus=query.vcpus & exactly)

    def wish(self, spec: RequestSpec) -> str:
        """See :class:`BaseHostFilter`."""
        return f"exactly {spec.vcpus} cores"


class ExactDiskFilter(BaseHostFilter):
    """The flavor's root, ephemeral and swap disk together are what is free."""

    def why_not(self, host: HostState, spec: RequestSpec) -> str | None:
        """See :class:`BaseHostFilter`."""
        if host.free_disk_mb != spec.disk_mb:
            return f"{host.free_disk_mb} MiB of disk are free, not {spec.disk_mb}"
        host.limits["disk_gb"] = host.total_usable_disk_gb
        return None

    def narrow(self, query: CandidateQuery, spec: RequestSpec) -> CandidateQuery:
        """See :class:`BaseHostFilter`."""
        # No whole number of GiB will do if swap is no multiple of one.
        exactly = Span(-(-spec.disk_mb // 1024), spec.disk_mb // 1024)
        return dataclasses.replace(query, local_gb=query.local_gb & exactly)

    def wish(self, spec: RequestSpec) -> str:
        """See :class:`BaseHostFilter`."""
        return f"exactly {spec.disk_mb} MiB of disk"
