# SPDX-License-Identifier: Apache-2.0

"""What a filter or a weigher looks at: a compute node as one request sees it.

A host state is made from a record, changes as requests consume it, and is thrown
away.  It belongs to one request: no two threads share one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from ironic_virt import exceptions
from ironic_virt.request.spec import RequestSpec, placement_class
from ironic_virt.scheduler.candidates import (
    IRONIC,
    ComputeNodeLike,
    free_nodes,
    is_free,
    use_of,
)

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
    """A compute node that can hold several instances.

    :ivar host: the compute service's name.
    :ivar nodename: the compute node's uuid, or the pool's name.
    :ivar free_nodes: how many more instances a pool takes; 1 for a single node.
    :ivar free_ram_mb: MiB; ``free_disk_mb`` in MiB, too; totals are in MiB and GiB.
    :ivar stats: capabilities by name.
    :ivar num_instances: how many instances the *compute service* has.
    :ivar instances: the instances on this very host, where they are tracked.
    :ivar limits: what all claims together must not exceed: ``memory_mb``, ``vcpu``,
        ``disk_gb``.  Set by filters.
    :ivar record: what this state was made from; ``None`` before the first
        :meth:`update`.
    """

    __slots__ = (
        "cpu_arch",
        "free_disk_mb",
        "free_nodes",
        "free_ram_mb",
        "host",
        "hypervisor_type",
        "instances",
        "is_free",
        "limits",
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

    def __init__(self, host: str, nodename: str) -> None:
        self.host = host
        self.nodename = nodename
        self.hypervisor_type = ""
        self.cpu_arch: str | None = None
        self.resource_class: str | None = None
        self.placement_class = ""
        self.traits: Collection[str] = frozenset()
        self.stats: Mapping[str, Any] = {}
        self.vcpus_total = 0
        self.vcpus_used = 0
        self.total_usable_ram_mb = 0
        self.total_usable_disk_gb = 0
        self.free_ram_mb = 0
        self.free_disk_mb = 0
        self.free_nodes = 1
        self.num_instances = 0
        self.instances: Collection[str] = ()
        self.limits: dict[str, int] = {}
        self.is_free = True
        self.record: ComputeNodeLike | None = None

    def update(self, record: ComputeNodeLike) -> None:
        """Take over what a record says.

        A record whose free disk is not known yet is ignored.
        """
        vcpus_used, free_ram_mb, free_disk_gb = use_of(record)
        if free_disk_gb is None:
            return
        self.hypervisor_type = record.hypervisor_type
        self.resource_class = record.resource_class
        self.placement_class = (
            placement_class(record.resource_class) if record.resource_class else ""
        )
        self.traits = record.traits
        self.stats = record.stats
        self.cpu_arch = self.stats.get("cpu_arch")
        self.vcpus_total = record.vcpus
        self.vcpus_used = vcpus_used
        self.total_usable_ram_mb = record.memory_mb
        self.total_usable_disk_gb = record.local_gb
        self.free_ram_mb = free_ram_mb
        self.free_disk_mb = 1024 * free_disk_gb
        self.is_free = is_free(record)
        self.free_nodes = free_nodes(record)
        self.record = record

    def why_over_limit(self, spec: RequestSpec) -> str | None:
        """Why a request together with what is used exceeds a limit; ``None`` if not."""
        for name, used, asked, unit in (
            (
                "memory_mb",
                self.total_usable_ram_mb - self.free_ram_mb,
                spec.memory_mb,
                "MiB of memory",
            ),
            ("vcpu", self.vcpus_used, spec.vcpus, "cores"),
            (
                "disk_gb",
                self.total_usable_disk_gb - self.free_disk_mb / 1024,
                spec.disk_mb / 1024,
                "GiB of disk",
            ),
        ):
            limit = self.limits.get(name)
            if limit is not None and used + asked > limit:
                return f"{used:g} {unit} are used and {asked:g} asked for, the limit is {limit}"
        return None

    def claim(self, spec: RequestSpec) -> None:
        """Consume a request, unless that would exceed a limit.

        :raises ClaimRefused: it would, or a node taken as a whole is taken; nothing
            was changed.
        """
        reason = self.why_over_limit(spec) if self.is_free else "it is taken or not available"
        if reason:
            raise exceptions.ClaimRefused(self.nodename, spec.instance_uuid, reason)
        self.consume_from_request(spec)

    def consume_from_request(self, spec: RequestSpec) -> None:
        """Count what a request asks for as used."""
        self.free_ram_mb -= spec.memory_mb
        self.free_disk_mb -= 1024 * (spec.root_gb + spec.ephemeral_gb)
        self.vcpus_used += spec.vcpus

    def __repr__(self) -> str:
        return (
            f"<{type(self).__name__} {self.nodename} of {self.host}: {self.free_ram_mb} MiB, "
            f"{self.free_disk_mb} MiB of disk, {self.vcpus_total - self.vcpus_used} cores free>"
        )


class IronicHostState(HostState):
    """A bare metal node, or a pool of them: one instance has all of a node."""

    __slots__ = ()

    def consume_from_request(self, spec: RequestSpec) -> None:
        """Take the whole node, whatever is asked for."""
        self.free_nodes -= 1
        if self.free_nodes > 0:
            # The pool's next node is like this one.
            return
        self.free_ram_mb = 0
        self.free_disk_mb = 0
        self.vcpus_used = self.vcpus_total
        self.is_free = False


def is_ironic(record: ComputeNodeLike) -> bool:
    """Whether a record is a bare metal node."""
    return record.hypervisor_type == IRONIC
