# SPDX-License-Identifier: Apache-2.0

"""``fleet``: what each command of ``ironic-virt-fleet`` that only reads takes for 10,000 nodes.

Ours alone, each command as a process, with real MariaDB and Placement and the fake Ironic,
half of the nodes with a server.  What is measured is the command's process; the others share
the machine with it, and are in the time on the wall.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.fleet_world import HOSTS, World
from benchmarks.registry import Progress
from benchmarks.results import Outcome
from benchmarks.rounds import Figures

NODES = 10_000
FEW = 60
_KIB = 1024
_VERBS = ("check", "plan", "apply")
UNITS = {
    f"{verb}_{name}": unit
    for verb in _VERBS
    for name, unit in (
        ("wall", "seconds on the wall"),
        ("cpu", "seconds of processor time of the command"),
        ("memory", "bytes of the command's process, at most"),
    )
}


def run(rounds: int, progress: Progress, *, nodes: int = NODES) -> Outcome:
    """Measure; see the module."""
    found: list[Figures] = []
    with tempfile.TemporaryDirectory() as name:
        progress(f"making a deployment of {nodes} nodes")
        with World(Path(name), nodes) as world:
            for number in range(1, rounds + 1):
                figures: dict[str, float] = {}
                for verb, arguments in _commands(world, Path(name), number).items():
                    figures |= _measured(verb, world, arguments)
                    progress(f"round {number}: {verb}: {figures[f'{verb}_wall']:.1f} s")
                found.append(figures)
    return Outcome("fleet", found, [], UNITS, {"nodes": nodes, "services": len(HOSTS)})


def quick(progress: Progress) -> Outcome:
    """See that it can be run."""
    return run(1, progress, nodes=FEW)


def _commands(world: World, directory: Path, number: int) -> dict[str, list[str]]:
    plan = str(directory / f"plan-{number}.yaml")
    files = world.service_files()
    return {
        "check": ["check", *files],
        "plan": ["plan", "drain", HOSTS[-1], "--output", plan, *files],
        "apply": ["apply", plan, "--dry-run"],
    }


def _measured(verb: str, world: World, arguments: list[str]) -> Figures:
    """Run a command; a plan that is only looked at has all nodes wait for services to stop."""
    command = [sys.executable, "-m", "ironic_virt.cmd.fleet", "--config-file", str(world.conf)]
    with tempfile.TemporaryFile() as printed:
        began = time.monotonic()
        process = subprocess.Popen(
            [*command, *arguments, "-f", "json"], stdout=printed, stderr=printed
        )
        _, status, used = os.wait4(process.pid, 0)
        wall = time.monotonic() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        printed.seek(0)
        expected = 2 if verb == "apply" else 0
        assert process.returncode == expected, printed.read().decode(errors="replace")[-4000:]
    return {
        f"{verb}_wall": wall,
        f"{verb}_cpu": used.ru_utime + used.ru_stime,
        f"{verb}_memory": used.ru_maxrss * _KIB,
    }
