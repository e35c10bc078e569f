# SPDX-License-Identifier: Apache-2.0

"""Filters that want at least as much to be free as is asked for.

``resources:MEMORY_MB``, ``resources:VCPU`` and ``resources:DISK_GB`` in a flavor take
the place of its own sizes: 0 means that the size doesn't matter.
"""

from __future__ import annotations

import dataclasses

from ironic_virt.request.spec import RequestSpec
from ironic_virt.scheduler.candidates import CandidateQuery, Span
from ironic_virt.scheduler.filters import BaseHostFilter
from ironic_virt.scheduler.host_state import HostState


class RamFilter(BaseHostFilter):
    """At least the flavor's memory is free."""

    def why_not(self, host: HostState, spec: RequestSpec) -> str | None:
        """See :class:`BaseHostFilter`."""
        if host.free_ram_mb < spec.asked_memory_mb:
            return f"{host.free_ram_mb} MiB of memory are free, not {spec.asked_memory_mb}"
        return None

    def narrow(self, query: CandidateQuery, spec: RequestSpec) -> CandidateQuery:
        """See :class:`BaseHostFilter`."""
        return dataclasses.replace(query, memory_mb=query.memory_mb & Span(spec.asked_memory_mb))

    def wish(self, spec: RequestSpec) -> str:
        """See :class:`BaseHostFilter`."""
        return f"at least {spec.asked_memory_mb} MiB of memory"


class CoreFilter(BaseHostFilter):
    """At least the flavor's cores are free."""

    def why_not(self, host: HostState, spec: RequestSpec) -> str | None:
        """See :class:`BaseHostFilter`."""
        free = host.vcpus_total - host.vcpus_used
        if free < spec.asked_vcpus:
            return f"{free} cores are free, not {spec.asked_vcpus}"
        return None

    def narrow(self, query: CandidateQuery, spec: RequestSpec) -> CandidateQuery:
        """See :class:`BaseHostFilter`."""
        return dataclasses.replace(query, vcpus=query.vcpus & Span(spec.asked_vcpus))

    def wish(self, spec: RequestSpec) -> str:
        """See :class:`BaseHostFilter`."""
        return f"at least {spec.asked_vcpus} cores"


class DiskFilter(BaseHostFilter):
    """At least the flavor's root, ephemeral and swap disk together are free."""

    def why_not(self, host: HostState, spec: RequestSpec) -> str | None:
        """See :class:`BaseHostFilter`."""
        if host.free_disk_mb < spec.asked_disk_mb:
            return f"{host.free_disk_mb} MiB of disk are free, not {spec.asked_disk_mb}"
        return None

    def narrow(self, query: CandidateQuery, spec: RequestSpec) -> CandidateQuery:
        """See :class:`BaseHostFilter`."""
        at_least = Span(-(-spec.asked_disk_mb // 1024))
        return dataclasses.replace(query, local_gb=query.local_gb & at_least)

    def wish(self, spec: RequestSpec) -> str:
        """See :class:`BaseHostFilter`."""
        return f"at least {spec.asked_disk_mb} MiB of disk"
