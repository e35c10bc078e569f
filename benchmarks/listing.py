# SPDX-License-Identifier: Apache-2.0

"""``listing``: all nodes of an Ironic, as a compute service reads them at each refresh.

Both sides list the same 2,000 nodes of the same real Ironic with the same
fields, those of Nova's in-tree driver, each in its own process:

* ours is :meth:`ironic_virt.baremetal.client.IronicClient.list_nodes`, made by
  the ``[ironic]`` options, with retries and all;
* the peer is Nova's own ``IronicDriver._get_node_list``, on the connection that
  Nova makes for it by its options: openstacksdk's ``nodes()``, as a list.

Time and memory are measured in different rounds.  Memory is that of what a list
leaves behind in a process that has just started and has read one node, so that
connections and imported modules don't count, but tables of shared values do.
"""

from __future__ import annotations

import contextlib
import functools
import random
import uuid
from collections.abc import Iterator
from importlib import metadata
from typing import Any

from benchmarks import ironic
from benchmarks.registry import Progress
from benchmarks.results import Outcome
from benchmarks.rounds import Figures, joined, take_turns
from benchmarks.side import Side
from tools import real_ironic

NODES = 2000
SIDES = {
    "ours": "benchmarks.listing_sides:Ours",
    "peer": "benchmarks.listing_sides:InTree",
}
UNITS = {
    "client_cpu": "seconds of processor time for one list",
    "wall": "seconds on the wall for one list",
    "memory": "bytes for each node held, as tracemalloc counts",
    "resident": "bytes for each node held, by the growth of the process",
}

# A fleet has few kinds of hardware, and most nodes are of one of them.
_KINDS = [
    {
        "cpus": 8 * 2 ** (kind % 4),
        "memory_mb": 65536 * (1 + kind % 5),
        "local_gb": 480 * (1 + kind % 3),
        "cpu_arch": "aarch64" if kind % 6 == 5 else "x86_64",
        "vendor": ("dell", "hpe", "lenovo", "supermicro")[kind % 4],
        "capabilities": f"boot_mode:uefi,cpu_vt:true,disk_label:gpt,profile:kind-{kind}",
    }
    for kind in range(12)
]
_TRAITS = ("CUSTOM_GOLD", "CUSTOM_NVME", "HW_CPU_X86_AVX2")


def run(rounds: int, progress: Progress, *, nodes: int = NODES) -> Outcome:
    """Measure both sides; see the module."""
    with _fleet(nodes, progress) as found:
        times = _times(found.url, nodes, rounds, progress)
        memory = _memory(found.url, nodes, rounds, progress)
        version = found.version
    return Outcome(
        "listing",
        ours=joined(times["ours"], memory["ours"]),
        peer=joined(times["peer"], memory["peer"]),
        units=UNITS,
        setting={
            "nodes": nodes,
            "ironic": version,
            "nova": metadata.version("nova"),
            "openstacksdk": metadata.version("openstacksdk"),
        },
    )


def quick(progress: Progress) -> Outcome:
    """Measure few nodes, once."""
    return run(1, progress, nodes=24)


@contextlib.contextmanager
def _fleet(nodes: int, progress: Progress) -> Iterator[real_ironic.RealIronic]:
    """A real Ironic with the nodes, a quarter of them deployed."""
    with ironic.without_nodes(progress) as found:
        progress(f"Making {nodes} nodes")
        (first,) = real_ironic.create_nodes(found, 1, real_ironic.NodeTemplate(traits=_TRAITS))
        rng = random.Random("listing")

        def differences(number: int) -> dict[str, Any]:
            kind = number % len(_KINDS)
            columns: dict[str, Any] = {
                "properties": _KINDS[kind],
                "resource_class": f"baremetal.kind-{kind}",
            }
            if number % 4 == 0:
                columns |= {
                    "instance_uuid": str(uuid.UUID(int=rng.getrandbits(128), version=4)),
                    "provision_state": "active",
                    "power_state": "power on",
                }
            return columns

        real_ironic.clone_nodes(found, first, nodes - 1, differences=differences)
        yield found


def _times(url: str, nodes: int, rounds: int, progress: Progress) -> dict[str, list[Figures]]:
    with contextlib.ExitStack() as stack:
        sides = {
            name: stack.enter_context(Side(target, url=url)) for name, target in SIDES.items()
        }
        # The warm-up: connections, imports, caches; and both must see the same.
        seen = {name: side.call("content") for name, side in sides.items()}
        if seen["ours"] != seen["peer"] or seen["ours"]["nodes"] != nodes:
            raise AssertionError(f"the sides don't list the same nodes: {seen}")

        def report(number: int, name: str, figures: Figures) -> None:
            progress(
                f"round {number} of {rounds}, {name}: {figures['client_cpu'] * 1000:.1f} ms of "
                f"processor time, {figures['wall'] * 1000:.0f} ms on the wall"
            )

        timed = {name: functools.partial(side.call, "times") for name, side in sides.items()}
        return take_turns(timed, rounds, report)


def _memory(url: str, nodes: int, rounds: int, progress: Progress) -> dict[str, list[Figures]]:
    def measure(target: str) -> Figures:
        with Side(target, url=url) as side:
            found: dict[str, float] = side.call("memory")
        return {name: value / nodes for name, value in found.items()}

    def report(number: int, name: str, figures: Figures) -> None:
        progress(f"round {number} of {rounds}, {name}: {figures['memory']:.0f} bytes a node")

    measured = {name: functools.partial(measure, target) for name, target in SIDES.items()}
    return take_turns(measured, rounds, report)
