# SPDX-License-Identifier: Apache-2.0

"""Filters that want what is free to be exactly what is asked for.

``resources:MEMORY_MB``, ``resources:VCPU`` and ``resources:DISK_GB`` in a flavor take
the place of its own sizes.  A size of 0 is not asked for: any node will do.
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
        asked = spec.asked_memory_mb
        if asked and host.free_ram_mb != asked:
            return f"{host.free_ram_mb} MiB of memory are free, not {asked}"
        return None

    def narrow(self, query: CandidateQuery, spec: RequestSpec) -> CandidateQuery:
        """See :class:`BaseHostFilter`."""
        exactly = _exactly(spec.asked_memory_mb)
        return dataclasses.replace(query, memory_mb=query.memory_mb & exactly)

    def wish(self, spec: RequestSpec) -> str:
        """See :class:`BaseHostFilter`."""
        return _wish(spec.asked_memory_mb, "MiB of memory")


class ExactCoreFilter(BaseHostFilter):
    """The flavor's cores are what is free.

    A host that doesn't say how many cores it has is rejected, with one warning.
    """

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        super().__init__(conf)
        self._told = logs.Told()

    def why_not(self, host: HostState, spec: RequestSpec) -> str | None:
        """See :class:`BaseHostFilter`."""
        asked = spec.asked_vcpus
        if not asked:
            return None
        if not host.vcpus_total:
            if self._told.is_news(host.nodename):
                LOG.warning(
                    "[node-without-cpus] Compute node %s of %s doesn't say how many cores it "
                    "has: ExactCoreFilter rejects it. Set the node's properties/cpus in Ironic",
                    host.nodename,
                    host.host,
                )
            return "it doesn't say how many cores it has"
        free = host.vcpus_total - host.vcpus_used
        return None if free == asked else f"{free} cores are free, not {asked}"

    def narrow(self, query: CandidateQuery, spec: RequestSpec) -> CandidateQuery:
        """See :class:`BaseHostFilter`."""
        return dataclasses.replace(query, vcpus=query.vcpus & _exactly(spec.asked_vcpus))

    def suspects(self, query: CandidateQuery, spec: RequestSpec) -> CandidateQuery | None:
        """See :class:`BaseHostFilter`."""
        return dataclasses.replace(query, vcpus=Span(0, 0)) if spec.asked_vcpus else None

    def wish(self, spec: RequestSpec) -> str:
        """See :class:`BaseHostFilter`."""
        return _wish(spec.asked_vcpus, "cores")


class ExactDiskFilter(BaseHostFilter):
    """The flavor's root, ephemeral and swap disk together are what is free."""

    def why_not(self, host: HostState, spec: RequestSpec) -> str | None:
        """See :class:`BaseHostFilter`."""
        asked = spec.asked_disk_mb
        if asked and host.free_disk_mb != asked:
            return f"{host.free_disk_mb} MiB of disk are free, not {asked}"
        return None

    def narrow(self, query: CandidateQuery, spec: RequestSpec) -> CandidateQuery:
        """See :class:`BaseHostFilter`."""
        exactly = _exactly(spec.asked_disk_mb, 1024)
        return dataclasses.replace(query, local_gb=query.local_gb & exactly)

    def wish(self, spec: RequestSpec) -> str:
        """See :class:`BaseHostFilter`."""
        return _wish(spec.asked_disk_mb, "MiB of disk")


def _exactly(asked: int, unit: int = 1) -> Span:
    """Return the sizes that will do; none if what is asked is no multiple of the unit."""
    return Span(-(-asked // unit), asked // unit) if asked else Span()


def _wish(asked: int, what: str) -> str:
    return f"exactly {asked} {what}" if asked else f"any {what}"
