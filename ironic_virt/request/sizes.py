# SPDX-License-Identifier: Apache-2.0

"""Sizes of nodes and of flavors, and how schedulers compare them.

The reference scheduler and the filters and weighers for Nova's share this.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any


@dataclasses.dataclass(frozen=True, slots=True)
class Sizes:
    """Cores, MiB of memory and MiB of disk; 0: unknown, or not asked for."""

    vcpus: int = 0
    memory_mb: int = 0
    disk_mb: int = 0

    def left_over(self, needed: Sizes) -> float:
        """What is left over of a node, in doublings of what is asked for.

        Memory, cores and disk that are all twice as much count 3.
        """
        return (
            _doublings(self.vcpus, needed.vcpus)
            + _doublings(self.memory_mb, needed.memory_mb)
            + _doublings(self.disk_mb, needed.disk_mb)
        )


def of_flavor(flavor: Any) -> Sizes:
    """What a flavor, or a request that repeats its sizes, asks for; its disks together."""
    disk_mb = 1024 * (flavor.root_gb + flavor.ephemeral_gb) + flavor.swap
    return Sizes(flavor.vcpus, flavor.memory_mb, disk_mb)


def fits_exactly(size: int, needed: int) -> bool:
    """Whether a size is what is asked for; one that is unknown is not."""
    return size == needed and size > 0


def _doublings(size: int, needed: int) -> float:
    # An unknown size counts like one that fits exactly.
    return max(0.0, math.log2((size + 1) / (needed + 1))) if size > 0 else 0.0
