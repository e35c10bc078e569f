# SPDX-License-Identifier: Apache-2.0

"""The sides of the benchmarks of refreshes; each runs in its own process.

A refresh is what a compute service does at every turn of its resource periodic:
it asks the driver for its nodes, and to look again.  The compute service's records
are stubs on both sides, which answer at once.
"""

from __future__ import annotations

import abc
import pathlib
import tempfile
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from benchmarks import measure
from ironic_virt import virt

HOST = "compute-1"


class Refresher(abc.ABC):
    """Refreshes, and tells what it cost.

    :param url: of Ironic.
    """

    def __init__(self, url: str) -> None:
        self.traffic = measure.Traffic()
        self.now = 0.0
        self.connect(url)

    @abc.abstractmethod
    def connect(self, url: str) -> None:
        """Make the driver, and let it see that Ironic is there."""

    @abc.abstractmethod
    def own(self, instances: Sequence[str]) -> None:
        """Let the records give these instances, and no others, to this host."""

    @abc.abstractmethod
    def available_nodes(self) -> list[str]:
        """Refresh."""

    @abc.abstractmethod
    def known(self) -> list[list[Any]]:
        """Each node's uuid, instance, provision state and power state."""

    def refresh(self, instances: Sequence[str], after: float) -> dict[str, float]:
        """Refresh once.

        :param instances: those of this host.
        :param after: seconds since the last time, by the clocks of services.
        :returns: ``cpu`` and ``wall`` in seconds, ``bytes`` received.
        """
        self.now += after
        self.own(instances)
        figures = self.traffic.during(self.available_nodes)
        figures["cpu"] = figures.pop("client_cpu")
        return figures

    def first(self, instances: Sequence[str]) -> dict[str, float]:
        """Refresh for the first time; ``memory`` is how many bytes the process grows by."""
        found: dict[str, float] = {}
        memory = measure.resident(lambda: found.update(self.refresh(instances, 0)))
        return found | {"memory": memory}

    def content(self) -> str:
        """What is known of the nodes now, as a digest."""
        return measure.digest(sorted(self.known()))


class Ours(Refresher):
    """ironic_virt's driver, with the default options, on a clock that the benchmark moves."""

    def connect(self, url: str) -> None:
        from ironic_virt import conf
        from ironic_virt.driver import IronicDriver

        self.records = Records()
        with tempfile.TemporaryDirectory() as directory:
            path = pathlib.Path(directory, "service.conf")
            path.write_text(f"[ironic]\nauth_type = none\nendpoint_override = {url}\n")
            # As load_compute_driver makes it, which has no argument for the clock.
            self.driver = IronicDriver(
                conf.load([str(path)]), self.records, clock=lambda: self.now
            )
            self.driver.init_host(HOST)

    def own(self, instances: Sequence[str]) -> None:
        self.records.instances = frozenset(instances)

    def available_nodes(self) -> list[str]:
        uuids = self.driver.get_available_nodes(refresh=True)
        self.records.nodes = dict.fromkeys(uuids, HOST)
        return uuids

    def known(self) -> list[list[Any]]:
        nodes = self.driver._site.nodes.inventory.snapshot.nodes.values()
        return [
            [node.uuid, node.instance_uuid, node.provision_state, node.power_state]
            for node in nodes
        ]


class Records(virt.VirtAPI):
    """The compute service's records: every node that it has seen is its own."""

    host = HOST

    def __init__(self) -> None:
        self.nodes: Mapping[str, str] = {}
        self.instances: Collection[str] = ()

    def live_hosts(self) -> Collection[str]:
        return (HOST,)

    def owned_instance_uuids(self) -> Collection[str]:
        return self.instances

    def node_owners(self, uuids: Collection[str]) -> Mapping[str, str]:
        return {uuid: self.nodes[uuid] for uuid in uuids if uuid in self.nodes}

    def abort_reason(self, instance: virt.InstanceLike) -> str | None:
        return None


class InTree(Refresher):
    """Nova's in-tree driver."""

    def connect(self, url: str) -> None:
        from benchmarks import intree

        self.peer = intree.InTree(url)

    def own(self, instances: Sequence[str]) -> None:
        self.peer.own(instances)

    def available_nodes(self) -> list[str]:
        uuids: list[str] = self.peer.driver.get_available_nodes(refresh=True)
        return uuids

    def known(self) -> list[list[Any]]:
        nodes = self.peer.driver.node_cache.values()
        return [
            [node.id, node.instance_id, node.provision_state, node.power_state] for node in nodes
        ]
