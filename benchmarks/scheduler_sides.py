# SPDX-License-Identifier: Apache-2.0

"""The two sides of ``scheduler``; each runs in its own process."""

from __future__ import annotations

import abc
import contextlib
import dataclasses
import itertools
import statistics
import time
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

SERVICES = 20
KINDS = 12


@dataclasses.dataclass(frozen=True, slots=True)
class Node:
    """A free node's record, which both sides have."""

    uuid: str
    host: str
    vcpus: int
    memory_mb: int
    local_gb: int
    resource_class: str
    traits: frozenset[str]
    stats: Mapping[str, str]
    hypervisor_type: str = "ironic"
    in_use: bool = False
    available: bool = True
    instance_uuid: str | None = None


def sizes(kind: int) -> tuple[int, int, int]:
    """Cores, MiB and GiB, different for each kind."""
    return 8 * 2 ** (kind % 4), 65536 * (1 + kind % 3), 480 * (1 + kind // 6)


def fleet(nodes: int) -> Iterator[Node]:
    """So many nodes, the same for both sides."""
    traits = (frozenset({"CUSTOM_NVME"}), frozenset({"CUSTOM_NVME", "CUSTOM_GPU"}))
    stats = {"boot_mode": "uefi", "cpu_arch": "x86_64", "cpu_vt": "true"}
    for number in range(nodes):
        kind = number % KINDS
        vcpus, memory_mb, local_gb = sizes(kind)
        yield Node(
            uuid=str(uuid.UUID(int=number * 0x9E3779B97F4A7C15 % 2**128)),
            host=f"compute-{number // KINDS % SERVICES}",
            vcpus=vcpus,
            memory_mb=memory_mb,
            local_gb=local_gb,
            resource_class=f"baremetal.kind-{kind}",
            traits=traits[number // 7 % 2],
            stats=stats,
        )


class Picker(abc.ABC):
    """A scheduler that knows so many nodes, and picks so often in a round."""

    def __init__(self, nodes: int, picks: int) -> None:
        self._picks = picks
        self._kinds = itertools.cycle(range(KINDS))
        self.learn(nodes)

    @abc.abstractmethod
    def learn(self, nodes: int) -> None:
        """Take in the fleet, and make the requests."""

    @abc.abstractmethod
    def passing(self, kind: int) -> int:
        """How many nodes all filters pass for a kind."""

    @abc.abstractmethod
    def pick(self, kind: int) -> Any:
        """Pick a node of a kind, so that no other request gets it."""

    @abc.abstractmethod
    def give_back(self, picked: Any) -> None:
        """Make what was picked free again."""

    def fitting(self) -> list[int]:
        """By kind, how many nodes would do."""
        return [self.passing(kind) for kind in range(KINDS)]

    def picks(self) -> dict[str, float]:
        """A round of picks."""
        on_the_wall, processor = [], []
        for kind in itertools.islice(self._kinds, self._picks):
            used, begun = time.process_time(), time.perf_counter()
            picked = self.pick(kind)
            on_the_wall.append(time.perf_counter() - begun)
            processor.append(time.process_time() - used)
            self.give_back(picked)
        return {"pick": statistics.median(processor), "wall": statistics.median(on_the_wall)}


class Ours(Picker):
    """A client of ironic_virt's reference service, with the records in an SQLite file."""

    def learn(self, nodes: int) -> None:
        from benchmarks import claims
        from ironic_virt.compute import api, db
        from ironic_virt.conf import database
        from tests import databases

        self._stack = contextlib.ExitStack()
        server = self._stack.enter_context(databases.server(databases.SQLITE))
        self._conf = database.load([self._stack.enter_context(claims.filled(server, nodes))])
        self._db = db.Database(self._conf)
        self._stack.enter_context(contextlib.closing(self._db.open()))
        self._client = api.Requests(self._conf, self._db)
        self._wanted = claims.wanted
        self._nodes = {node.uuid: node for node in fleet(nodes)}

    def close(self) -> None:
        """Take the records away."""
        self._stack.close()

    def passing(self, kind: int) -> int:
        from ironic_virt.request.spec import RequestSpec
        from ironic_virt.scheduler.filter_scheduler import FilterScheduler

        manager = FilterScheduler.from_conf(self._conf).host_manager
        spec = RequestSpec.from_flavor(self._wanted(kind).flavor)
        offer = self._db.candidates.offer(classes=spec.resource_classes)
        return len(manager.get_filtered_hosts(manager.host_states(offer.records), spec))

    def pick(self, kind: int) -> Any:
        (request,) = self._client.create(self._wanted(kind))
        return request

    def give_back(self, picked: Any) -> None:
        from benchmarks import claims
        from ironic_virt.compute.actions import Settled
        from ironic_virt.compute.states import TaskState, VmState

        deleting = self._db.instances.request(picked.uuid, TaskState.DELETING)
        self._db.instances.settle(deleting, Settled(VmState.DELETED))
        self._db.compute_nodes.save(picked.host, [claims.report(self._nodes[picked.node])])


class NovaFilters(Picker):
    """Nova's filters and weighers over its host states."""

    def learn(self, nodes: int) -> None:
        from nova import conf, objects
        from nova.scheduler import filters, weights
        from nova.scheduler.filters import compute_capabilities_filter
        from nova.scheduler.host_manager import HostState
        from nova.scheduler.weights import num_instances, ram

        objects.register_all()
        conf.CONF([], project="nova", default_config_files=[])
        # As ours: even spread over services, and no larger node than needed.
        conf.CONF.set_override("num_instances_weight_multiplier", -1.0, "filter_scheduler")
        conf.CONF.set_override("ram_weight_multiplier", -2.0, "filter_scheduler")
        self.filter_handler = filters.HostFilterHandler()
        self.filters = [compute_capabilities_filter.ComputeCapabilitiesFilter()]
        self.weight_handler = weights.HostWeightHandler()
        self.weighers = [num_instances.NumInstancesWeigher(), ram.RAMWeigher()]
        self.hosts = []
        for node in fleet(nodes):
            host = HostState(node.host, node.uuid, None)
            host.update(compute=self._compute_node(node))
            self.hosts.append(host)
        self.specs = [self._spec(kind) for kind in range(KINDS)]

    @staticmethod
    def _compute_node(node: Node) -> Any:
        from nova import objects

        return objects.ComputeNode(
            uuid=node.uuid,
            host=node.host,
            hypervisor_hostname=node.uuid,
            hypervisor_type=node.hypervisor_type,
            hypervisor_version=1,
            vcpus=node.vcpus,
            vcpus_used=0,
            memory_mb=node.memory_mb,
            free_ram_mb=node.memory_mb,
            local_gb=node.local_gb,
            local_gb_used=0,
            free_disk_gb=node.local_gb,
            disk_available_least=node.local_gb,
            cpu_info="",
            host_ip=None,
            supported_hv_specs=[],
            stats=dict(node.stats),
            metrics="[]",
            numa_topology=None,
            pci_device_pools=None,
            cpu_allocation_ratio=1.0,
            ram_allocation_ratio=1.0,
            disk_allocation_ratio=1.0,
            updated_at=None,
        )

    @staticmethod
    def _spec(kind: int) -> Any:
        from nova import objects

        vcpus, memory_mb, local_gb = sizes(kind)
        flavor = objects.Flavor(
            name=f"kind-{kind}",
            vcpus=vcpus,
            memory_mb=memory_mb,
            root_gb=local_gb,
            ephemeral_gb=0,
            swap=0,
            extra_specs={
                "free_ram_mb": f"== {memory_mb}",
                "vcpus_total": f"== {vcpus}",
                "free_disk_mb": f"== {local_gb * 1024}",
                "capabilities:boot_mode": "uefi",
            },
        )
        return objects.RequestSpec(
            flavor=flavor,
            instance_uuid=str(uuid.uuid4()),
            pci_requests=None,
            numa_topology=None,
            scheduler_hints={},
        )

    def _passing(self, kind: int) -> list[Any]:
        passing: list[Any] = self.filter_handler.get_filtered_objects(
            self.filters, self.hosts, self.specs[kind]
        )
        return passing

    def passing(self, kind: int) -> int:
        return len(self._passing(kind))

    def pick(self, kind: int) -> Any:
        spec = self.specs[kind]
        weighed = self.weight_handler.get_weighed_objects(self.weighers, self._passing(kind), spec)
        host = weighed[0].obj
        host.consume_from_request(spec)
        return host, kind

    def give_back(self, picked: Any) -> None:
        host, kind = picked
        _, memory_mb, local_gb = sizes(kind)
        host.vcpus_used, host.free_ram_mb, host.free_disk_mb = 0, memory_mb, local_gb * 1024
        host.num_instances -= 1
