# SPDX-License-Identifier: Apache-2.0

"""``creates``: 200 servers that are asked for at once, on one service, and deployed at once.

The reference service, the fake Ironic and MariaDB are separate processes on one machine, and
a deployment takes no time, so what is measured is what the service itself does for a server:
its processor time, and the time on the wall until the last server is active.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from typing import NamedTuple

from benchmarks.registry import Progress
from benchmarks.results import Outcome
from benchmarks.rounds import Figures
from ironic_virt import virt
from ironic_virt.compute import api, db
from ironic_virt.compute.db import records
from ironic_virt.compute.states import VmState
from ironic_virt.conf import database
from tests import databases

SERVERS = 200
FEW = 4
_SPARE = 20
_SECONDS = 180.0
_TICKS = os.sysconf("SC_CLK_TCK")
UNITS = {
    "wall": "seconds on the wall for each server",
    "cpu": "seconds of the service's processor time for each server",
    "server_cpu": "seconds of the fake Ironic's processor time for each server",
}


class _World(NamedTuple):
    """A service that has seen its nodes."""

    requests: api.Requests
    database: db.Database
    service: subprocess.Popen[bytes]
    ironic: subprocess.Popen[str]
    log: str


def run(rounds: int, progress: Progress, *, servers: int = SERVERS) -> Outcome:
    """Measure; see the module."""
    found: list[Figures] = []
    with databases.server(databases.MARIADB) as server:
        for number in range(1, rounds + 1):
            with _world(server, servers) as world:
                found.append(_measured(world, servers))
            took = found[-1]
            progress(
                f"round {number} of {rounds}: {1 / took['wall']:.0f} servers a second, "
                f"{took['cpu'] * 1000:.1f} ms of the service's processor time for each"
            )
    return Outcome("creates", found, [], UNITS, {"servers": servers})


def quick(progress: Progress) -> Outcome:
    """See that it can be run."""
    return run(1, progress, servers=FEW)


@contextlib.contextmanager
def _world(server: databases.Server, servers: int) -> Iterator[_World]:
    with contextlib.ExitStack() as stack:
        directory = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        url = stack.enter_context(server.fresh(directory))
        nodes = servers + _SPARE
        ironic = stack.enter_context(
            subprocess.Popen(
                [
                    *(sys.executable, "-m", "ironic_virt.cmd.fake_ironic", "--json", "--quiet"),
                    *("--port", "0", "--nodes", str(nodes), "--ports", "1"),
                    *("--resource-class", "gold"),
                ],
                stdout=subprocess.PIPE,
                text=True,
            )
        )
        stack.callback(ironic.terminate)
        assert ironic.stdout is not None
        serves = json.loads(ironic.stdout.readline())["url"]
        path = directory / "ironic-virt.conf"
        path.write_text(
            f"[DEFAULT]\nhost = compute1\nstate_path = {directory}\n"
            f"[database]\nconnection = {url}\n"
            f"[ironic]\nauth_type = none\nendpoint_override = {serves}\n"
        )
        conf = database.load([str(path)])
        opened = db.Database(conf)
        stack.enter_context(contextlib.closing(opened.open(make=True)))
        log = stack.enter_context((directory / "log").open("wb"))
        service = stack.enter_context(
            subprocess.Popen(
                [sys.executable, "-m", "ironic_virt.cmd.compute", "--config-file", str(path)],
                stdout=log,
                stderr=log,
            )
        )
        stack.callback(service.terminate)
        _wait(service, log.name, lambda: len(opened.compute_nodes.uuids("compute1")) == nodes)
        yield _World(api.Requests(conf, opened), opened, service, ironic, log.name)


def _measured(world: _World, servers: int) -> Figures:
    wanted = records.NewInstance(
        str(uuid.uuid4()),
        virt.Flavor("bm", extra_specs={"resources:CUSTOM_GOLD": "1"}),
        virt.ImageMeta("https://images.example.test/a.raw", checksum="ab" * 16),
        "web",
    )
    world.requests.create(wanted, count=servers)
    began, before = time.monotonic(), [_used(world.service), _used(world.ironic)]

    def built() -> bool:
        return all(one.vm_state != VmState.BUILDING for one in world.database.instances.list())

    _wait(world.service, world.log, built)
    wall = time.monotonic() - began
    after = [_used(world.service), _used(world.ironic)]
    states = {one.vm_state for one in world.database.instances.list()}
    if states != {VmState.ACTIVE}:
        raise AssertionError(f"not all are active: {states}")
    used = [now - then for now, then in zip(after, before, strict=True)]
    return {
        "wall": wall / servers,
        "cpu": used[0] / servers,
        "server_cpu": used[1] / servers,
    }


def _used(process: subprocess.Popen[bytes] | subprocess.Popen[str]) -> float:
    """The seconds of processor time that a process has used (Linux)."""
    after_name = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(after_name[11]) + int(after_name[12])) / _TICKS


def _wait(service: subprocess.Popen[bytes], log: str, done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _SECONDS
    while not done():
        if service.poll() is not None or time.monotonic() > deadline:
            said = pathlib.Path(log).read_text()
            raise AssertionError(f"the service has ended, or takes too long: {said[-3000:]}")
        time.sleep(0.1)
