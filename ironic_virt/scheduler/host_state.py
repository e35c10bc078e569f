# SPDX-License-Identifier: Apache-2.0

"""What a filter or a weigher looks at: a compute node as one request sees it.

A host state is made from a record, changes as requests consume it, and is thrown
away.  It belongs to one request: no two threads share one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ironic_virt.request.spec import placement_class
from ironic_virt.scheduler.candidates import ComputeNodeLike, free_nodes, is_free, is_taken

# What a flavor's extra spec without a scope may name, besides what is in stats.
FACTS = (
    "host",
    "nodename",
    "hypervisor_type",
    "cpu_arch",
    "resource_class",
    "vcpus_total",
    "vcpus_used",
    "total_usable_ram_mb",
    "total_usable_disk_gb",
    "free_ram_mb",
    "free_disk_mb",
    "num_instances",
)


class HostState:
    """A bare metal node, or a pool of them: one instance has all of a node.

    :param record: what it is made from.
    :param num_instances: how many instances the *compute service* has.

    :ivar host: the compute service's name.
    :ivar nodename: the compute node's uuid, or the pool's name.
    :ivar free_nodes: how many more instances a pool takes; 1 for a single node.
    :ivar free_ram_mb: MiB; ``free_disk_mb`` in MiB, too; totals are in MiB and GiB.
    :ivar stats: capabilities by name.
    """

    __slots__ = (
        "cpu_arch",
        "free_disk_mb",
        "free_nodes",
        "free_ram_mb",
        "host",
        "hypervisor_type",
        "is_free",
        "nodename",
        "num_instances",
        "placement_class",
        "record",
        "resource_class",
        "stats",
        "total_usable_disk_gb",
        "total_usable_ram_mb",
        "traits",
        "vcpus_total",
        "vcpus_used",
    )

    def __init__(self, record: ComputeNodeLike, num_instances: int = 0) -> None:
        self.record = record
        self.host = record.host
        self.nodename = record.uuid
        self.num_instances = num_instances
        self.hypervisor_type = record.hypervisor_type
        self.resource_class = record.resource_class
        self.placement_class = (
            placement_class(record.resource_class) if record.resource_class else ""
        )
        self.traits = record.traits
        self.stats: Mapping[str, Any] = record.stats
        self.cpu_arch: str | None = self.stats.get("cpu_arch")
        self.vcpus_total = record.vcpus
        self.total_usable_ram_mb = record.memory_mb
        self.total_usable_disk_gb = record.local_gb
        self.vcpus_used = 0
        self.free_ram_mb = record.memory_mb
        self.free_disk_mb = 1024 * record.local_gb
        self.free_nodes = free_nodes(record)
        self.is_free = is_free(record)
        if is_taken(record):
            self._use_up()

    def consume(self) -> None:
        """Take a whole node for an instance, whatever that asks for."""
        self.free_nodes -= 1
        # Otherwise the pool's next node is like this one.
        if self.free_nodes <= 0:
            self.is_free = False
            self._use_up()

    def _use_up(self) -> None:
        self.free_ram_mb = 0
        self.free_disk_mb = 0
        self.vcpus_used = self.vcpus_total

    def __repr__(self) -> str:
        return (
            f"<{type(self).__name__} {self.nodename} of {self.host}: {self.free_ram_mb} MiB, "
            f"{self.free_disk_mb} MiB of disk, {self.vcpus_total - self.vcpus_used} cores free>"
        )
