# SPDX-License-Identifier: Apache-2.0

"""A fake Ironic with many nodes, that both sides talk to over HTTP.

It is run in its own process (:mod:`benchmarks.side`), so that what it costs
is in nobody's figures but the time on the wall.  Its clock is virtual and stands
still but for :meth:`Fleet.live`: a minute of the fleet's life takes no minute.

All is derived from the seed: the same calls give the same fleet.
"""

from __future__ import annotations

import random
import time
import uuid

from benchmarks import measure
from ironic_virt.testing.fake_ironic import FakeIronic, FakeIronicServer

# A fleet has few kinds of hardware.
KINDS = tuple(
    {
        "cpus": 8 * 2 ** (kind % 4),
        "memory_mb": 65536 * (1 + kind % 5),
        "local_gb": 480 * (1 + kind % 3),
        "cpu_arch": "aarch64" if kind % 6 == 5 else "x86_64",
        "vendor": ("dell", "hpe", "lenovo", "supermicro")[kind % 4],
        "capabilities": f"boot_mode:uefi,cpu_vt:true,disk_label:gpt,profile:kind-{kind}",
    }
    for kind in range(12)
)
TRAITS = ("CUSTOM_GOLD", "CUSTOM_NVME", "HW_CPU_X86_AVX2")


class Fleet:
    """The fake Ironic and its nodes, a quarter of them with an instance.

    :param nodes: how many.
    :param page: the most of them in an answer.
    """

    def __init__(self, nodes: int, seed: str = "fleet", page: int = 1000) -> None:
        self._rng = random.Random(seed)
        self._fake = FakeIronic(journal_size=10_000, max_limit=page)
        self._uuids = [self._add(number) for number in range(nodes)]
        self._instances: dict[str, str] = {}
        for uuid_ in self._uuids[::4]:
            self._deploy(uuid_)
        # What has just been made looks like what has just changed.
        self._fake.advance(3600)
        self._server = FakeIronicServer(self._fake).start()

    def _add(self, number: int) -> str:
        kind = number % len(KINDS)
        return self._fake.add_node(
            ports=0,
            properties=KINDS[kind],
            resource_class=f"baremetal.kind-{kind}",
            traits=TRAITS,
        )

    def _deploy(self, node: str) -> None:
        instance = str(uuid.UUID(int=self._rng.getrandbits(128), version=4))
        self._instances[node] = instance
        self._fake.set_node(
            node, instance_uuid=instance, provision_state="active", power_state="power on"
        )

    def _release(self, node: str) -> None:
        del self._instances[node]
        self._fake.set_node(
            node, instance_uuid=None, provision_state="available", power_state="power off"
        )

    def url(self) -> str:
        """Where it listens."""
        return self._server.url

    def close(self) -> None:
        """Stop listening."""
        self._server.stop()

    def live(self, seconds: float, changes: int) -> None:
        """Let time pass in which nodes change, evenly spread over it.

        One in three changes is an instance that comes or goes, the others are power
        states.

        :param changes: how many different nodes.
        """
        for node in self._rng.sample(self._uuids, changes):
            self._fake.advance(seconds / changes)
            if self._rng.random() < 1 / 3:
                change = self._release if node in self._instances else self._deploy
                change(node)
            else:
                on = self._fake.node(node)["power_state"] == "power on"
                self._fake.set_node(node, power_state="power off" if on else "power on")
        if not changes:
            self._fake.advance(seconds)

    def instances(self) -> list[str]:
        """The uuids of all instances."""
        return list(self._instances.values())

    def content(self) -> str:
        """Each node's uuid, instance, provision state and power state, as a digest."""
        fields = ("uuid", "instance_uuid", "provision_state", "power_state")
        nodes = (self._fake.node(node) for node in self._uuids)
        return measure.digest(sorted([node[name] for name in fields] for node in nodes))

    def requests(self) -> list[str]:
        """The requests since the last call, as ``GET /v1/nodes?query``."""
        entries = list(self._fake.requests)
        self._fake.requests.clear()
        return [f"{entry.method} {entry.path}?{entry.query}" for entry in entries]

    def processor_time(self) -> float:
        """Seconds of processor time that the server has used so far."""
        return time.process_time()
