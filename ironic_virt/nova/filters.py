# SPDX-License-Identifier: Apache-2.0

"""Filters for Nova's scheduler that match a node's sizes exactly.

They see to it that a flavor's cores, memory or disk are those of the node and not only a
part of them.  Hosts that are not bare metal pass.  A node of unknown size does not:
its ``properties`` in Ironic lack it, or it is reported by another driver.  They are not
run for a rebuild.

In ``nova.conf`` of the scheduler::

    [filter_scheduler]
    available_filters = nova.scheduler.filters.all_filters
    available_filters = ironic_virt.nova.filters.all_filters
    enabled_filters = ComputeFilter,...,ExactRamFilter,ExactCoreFilter,ExactDiskFilter
"""

from __future__ import annotations

from typing import Any

from nova.scheduler import filters

from ironic_virt.nova import sizes
from ironic_virt.request.sizes import fits_exactly, of_flavor


class _ExactFilter(filters.BaseHostFilter):  # type: ignore[misc]
    """A node passes if it has as much as is asked for, and no more."""

    RUN_ON_REBUILD = False
    size: str

    def host_passes(self, host_state: Any, spec_obj: Any) -> bool:
        """Whether the host has exactly the size that the flavor requires."""
        if not sizes.is_bare_metal(host_state):
            return True
        has = getattr(sizes.of_host(host_state), self.size)
        return fits_exactly(has, getattr(of_flavor(spec_obj), self.size))


class ExactRamFilter(_ExactFilter):
    """The flavor's memory is the node's ``memory_mb``."""

    size = "memory_mb"


class ExactCoreFilter(_ExactFilter):
    """The flavor's cores are the node's ``cpus``."""

    size = "vcpus"


class ExactDiskFilter(_ExactFilter):
    """The flavor's root, ephemeral and swap disk together are the node's ``local_gb``."""

    size = "disk_mb"


def all_filters() -> list[type[_ExactFilter]]:
    """What ``available_filters`` may name to have them all."""
    return [ExactRamFilter, ExactCoreFilter, ExactDiskFilter]
