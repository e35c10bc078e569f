# SPDX-License-Identifier: Apache-2.0

"""What a filter or a weigher looks at: a compute node as one request sees it.

It changes as a request consumes it, belongs to that request, and is thrown away.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from ironic_virt.request.sizes import Sizes
from ironic_virt.request.spec import placement_class

# What a flavor's extra spec without a scope may name, besides what is in stats.
FACTS = (
    *("host", "nodename", "hypervisor_type", "cpu_arch", "resource_class", "num_instances"),
    *("vcpus_total", "vcpus_used", "total_usable_ram_mb", "total_usable_disk_gb"),
    *("free_ram_mb", "free_disk_mb"),
)


class ComputeNodeLike(Protocol):
    """A compute node's record: a bare metal node, free or taken as a whole.

    ``vcpus``, ``memory_mb`` (MiB) and ``local_gb`` (GiB) are 0 if not known.  ``in_use``: an
    instance has it in Ironic; ``available``: Ironic could deploy on it, as of the last refresh;
    ``instance_uuid``: the instance that has claimed it.

    A pool of nodes that are alike says with attributes ``total``, ``used`` and ``free``
    how many nodes it has, how many of its host's instances have one, and how many more
    instances it takes.  Its sizes are those of each of its nodes, and its ``uuid`` is
    its name.
    """

    @property
    def uuid(self) -> str: ...
    @property
    def host(self) -> str: ...
    @property
    def vcpus(self) -> int: ...
    @property
    def memory_mb(self) -> int: ...
    @property
    def local_gb(self) -> int: ...
    @property
    def resource_class(self) -> str | None: ...
    @property
    def traits(self) -> Collection[str]: ...
    @property
    def stats(self) -> Mapping[str, str]: ...
    @property
    def in_use(self) -> bool: ...
    @property
    def available(self) -> bool: ...
    @property
    def instance_uuid(self) -> str | None: ...


class HostState:
    """A bare metal node, or a pool of them: one instance has all of a node.

    :param record: what it is made from.
    :param num_instances: how many instances the *compute service* has.

    :ivar host: the compute service's name.
    :ivar nodename: the compute node's uuid, or the pool's name.
    :ivar free: the sizes that are free: all of the node, or nothing.
    :ivar free_nodes: how many more instances it takes: of a pool several.
    """

    def __init__(self, record: ComputeNodeLike, num_instances: int = 0) -> None:
        self.record = record
        self.host = record.host
        self.nodename = record.uuid
        self.num_instances = num_instances
        self.hypervisor_type = "ironic"
        self.resource_class = record.resource_class
        self.placement_class = placement_class(self.resource_class) if self.resource_class else ""
        self.traits = record.traits
        self.stats: Mapping[str, str] = record.stats
        self.cpu_arch = self.stats.get("cpu_arch")
        self.vcpus_total = record.vcpus
        self.total_usable_ram_mb = record.memory_mb
        self.total_usable_disk_gb = record.local_gb
        taken = record.in_use or record.instance_uuid is not None
        self.free_nodes = int(getattr(record, "free", 1)) if record.available and not taken else 0
        sizes = Sizes(record.vcpus, record.memory_mb, 1024 * record.local_gb)
        self._set_free(Sizes() if taken else sizes)

    @property
    def is_free(self) -> bool:
        """Whether it takes a further instance."""
        return self.free_nodes > 0

    def consume(self) -> None:
        """Take a whole node for an instance, even if the instance needs less."""
        self.free_nodes -= 1
        # Otherwise the pool's next node is like this one.
        if not self.is_free:
            self._set_free(Sizes())

    def _set_free(self, sizes: Sizes) -> None:
        self.free = sizes
        self.vcpus_used = self.vcpus_total - sizes.vcpus
        self.free_ram_mb, self.free_disk_mb = sizes.memory_mb, sizes.disk_mb
