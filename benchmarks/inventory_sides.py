# SPDX-License-Identifier: Apache-2.0

"""The two processes of ``inventory``: a large and mixed fleet, and who keeps its nodes."""

from __future__ import annotations

import pathlib
import random
import tempfile
import uuid
from typing import Any

from benchmarks import measure
from ironic_virt import conf
from ironic_virt.baremetal.client import IronicClient
from ironic_virt.baremetal.inventory.cache import Inventory
from ironic_virt.baremetal.inventory.resync import Resync
from ironic_virt.baremetal.node_filter import NodeFilter
from ironic_virt.testing.fake_ironic import FakeIronic, FakeIronicServer

SHARD = "fleet"
KINDS = 24
OWN_PROPERTIES = 0.2
"""The share of nodes with properties like no other's: a serial number, a place."""
DEPLOYED = 0.25
_VENDORS = ("dell", "hpe", "lenovo", "supermicro", "inspur")
_SOME = ("GPU", "NVME", "SRIOV", "RAID10", "TPM2", "LIQUID", "DUAL_PSU", "100G", "FPGA", "SGX")


class Fleet:
    """A fake Ironic over HTTP, whose clock stands still but for :meth:`live`.

    All is derived from a seed: the same calls make the same fleet.

    :param nodes: how many.
    :param page: the most of them in an answer.
    """

    def __init__(self, nodes: int, page: int = 1000) -> None:
        self._rng = random.Random("inventory")
        self._fake = FakeIronic(journal_size=1000, max_limit=page)
        self._uuids = [self._add(number) for number in range(nodes)]
        # Every node has been changed since it was enrolled, by and by.
        for number, node in enumerate(self._uuids):
            self._fake.set_node(node, **self._deployment(number))
            if number % 10 == 9:
                self._fake.advance(1)
        self._fake.advance(3600)
        self._server = FakeIronicServer(self._fake).start()

    def _add(self, number: int) -> str:
        rng = self._rng
        # Of some kinds there are many: the smaller of two draws.
        kind = min(rng.randrange(KINDS), rng.randrange(KINDS))
        properties: dict[str, Any] = {
            "cpus": 16 * (1 + kind % 5),
            "memory_mb": 65536 * (1 + kind % 7),
            "local_gb": 480 * (1 + kind % 4),
            "cpu_arch": "aarch64" if kind % 8 == 7 else "x86_64",
            "vendor": _VENDORS[kind % len(_VENDORS)],
            "capabilities": f"boot_mode:uefi,cpu_vt:true,disk_label:gpt,profile:kind-{kind}",
        }
        if rng.random() < OWN_PROPERTIES:
            properties |= {"serial": f"{rng.getrandbits(48):012X}", "rack": f"r{number // 40}"}
        traits = {f"CUSTOM_KIND_{kind}", "HW_CPU_X86_AVX2"}
        traits.update(f"CUSTOM_{name}" for name in rng.sample(_SOME, rng.randrange(5)))
        return self._fake.add_node(
            ports=0,
            shard=SHARD,
            name=f"r{number // 40:04}-u{number % 40:02}",
            properties=properties,
            resource_class=f"baremetal.kind-{kind}",
            traits=sorted(traits),
        )

    def _deployment(self, number: int) -> dict[str, Any]:
        rng = self._rng
        if rng.random() >= DEPLOYED:
            return {}
        instance = str(uuid.UUID(int=rng.getrandbits(128), version=4))
        return {
            "instance_uuid": instance,
            "provision_state": "active",
            "power_state": "power on",
        }

    def url(self) -> str:
        """Where it listens."""
        return self._server.url

    def live(self, seconds: float, changes: int) -> None:
        """Let time pass in which nodes change, evenly spread over it.

        :param changes: how many different nodes.
        """
        for node in self._rng.sample(self._uuids, changes):
            self._fake.advance(seconds / changes)
            on = self._fake.node(node)["power_state"] == "power on"
            self._fake.set_node(node, power_state="power off" if on else "power on")
        if not changes:
            self._fake.advance(seconds)

    def content(self) -> str:
        """Each node's uuid, instance and power state, as a digest."""
        nodes = (self._fake.node(node) for node in self._uuids)
        names = ("uuid", "instance_uuid", "power_state")
        return measure.digest(sorted([node[name] for name in names] for node in nodes))

    def requests(self) -> list[str]:
        """What was asked since the last call, by the query's parameters that matter."""
        asked = []
        for entry in list(self._fake.requests):
            if not entry.path.endswith("/nodes"):
                asked.append("node")
            elif "detail" in entry.query:
                asked.append("newest")
            elif "sort_key" in entry.query and "sort_dir=desc" in entry.query:
                asked.append("updated" if "updated_at" in entry.query else "created")
            else:
                asked.append("full" if "traits" in entry.query else "sweep")
        self._fake.requests.clear()
        return asked


class Keeper:
    """The inventory of a service, on a clock that the benchmark moves.

    :param url: of Ironic.
    """

    def __init__(self, url: str) -> None:
        self._traffic = measure.Traffic()
        self._now = 0.0
        self._sweep_period = 1e9
        with tempfile.TemporaryDirectory() as directory:
            path = pathlib.Path(directory, "service.conf")
            path.write_text(f"[ironic]\nauth_type = none\nendpoint_override = {url}\n")
            client = IronicClient.from_conf(conf.load([str(path)]))
        # So that connections and versions are there.
        client.lists.last_created(NodeFilter(shard=SHARD), 1)
        resync = Resync(
            client,
            lambda: NodeFilter(shard=SHARD),
            full_period=1e12,
            sweep_period=lambda: self._sweep_period,
            clock=lambda: self._now,
        )
        self._inventory = Inventory(
            resync.list_nodes, changes=resync.changes, clock=lambda: self._now
        )

    def traced(self) -> float:
        """Bytes that the inventory takes, by tracing."""
        return measure.traced(self._inventory.refresh)

    def resident(self) -> float:
        """Bytes that the process grows by with its first refresh."""
        return measure.resident(self._inventory.refresh)

    def refresh(self, seconds: float, sweep: bool = False) -> dict[str, float]:
        """Refresh, some time after the last one.

        :returns: ``cpu`` and ``wall`` in seconds, ``bytes`` received.
        """
        self._now += seconds
        self._sweep_period = 0.0 if sweep else 1e9
        figures = self._traffic.during(self._inventory.refresh)
        figures["cpu"] = figures.pop("client_cpu")
        return figures

    def content(self) -> str:
        nodes = self._inventory.snapshot.nodes.values()
        return measure.digest(
            sorted([node.uuid, node.instance_uuid, node.power_state] for node in nodes)
        )
