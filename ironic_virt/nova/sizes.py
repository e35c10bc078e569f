# SPDX-License-Identifier: Apache-2.0

"""The real sizes of bare metal nodes, as scheduler filters and weighers find them.

Nova's compute nodes of bare metal have none.  Ours keep them in ``stats``
(:data:`STATS_PREFIX`), which the scheduler reads.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from ironic_virt.driver.resources import HYPERVISOR_TYPE

STATS_PREFIX = "ironic_virt."
TRAITS = f"{STATS_PREFIX}traits"
"""Where a pool's traits are, with commas between them."""


@dataclasses.dataclass(frozen=True, slots=True)
class Sizes:
    """Cores, MiB of memory and MiB of disk; 0: unknown."""

    vcpus: int
    memory_mb: int
    disk_mb: int


def is_bare_metal(host: Any) -> bool:
    """Whether a host state is of a bare metal node, of any driver."""
    return bool(host.hypervisor_type == HYPERVISOR_TYPE)


def of_host(host: Any) -> Sizes:
    """What a node has; all of it is free, or Placement would not have offered it."""
    return Sizes(_stat(host, "vcpus"), _stat(host, "memory_mb"), 1024 * _stat(host, "local_gb"))


def of_request(spec: Any) -> Sizes:
    """What a flavor asks for; its disks together."""
    disk_mb = 1024 * (spec.root_gb + spec.ephemeral_gb) + spec.swap
    return Sizes(spec.vcpus, spec.memory_mb, disk_mb)


def _stat(host: Any, name: str) -> int:
    text = (host.stats or {}).get(STATS_PREFIX + name)
    return int(text) if text and text.isdecimal() else 0
