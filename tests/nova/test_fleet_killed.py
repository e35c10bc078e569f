# SPDX-License-Identifier: Apache-2.0

"""``ironic-virt-fleet apply`` and ``undo``, killed again and again, on a real MariaDB."""

import json
import random
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from benchmarks import fleet_world
from benchmarks.fleet_world import World
from tests import depth

pytestmark = pytest.mark.nightly

NODES = 600
DRAINED = fleet_world.HOSTS[0]
OTHERS = fleet_world.HOSTS[1:]
DEATHS = depth.choose(3, nightly=25)
_PATIENCE = 300.0


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with World(tmp_path_factory.mktemp("world"), NODES) as world:
        yield world


class Records:
    """What Nova's database and Ironic say."""

    nodes = NODES

    def __init__(self, world: World) -> None:
        self._engine = sa.create_engine(world.cell)
        self._ironic = world.ironic

    def execute(self, statement: str, **values: Any) -> Sequence[Any]:
        with self._engine.begin() as connection:
            found = connection.execute(sa.text(statement), values)
            return found.all() if found.returns_rows else []

    def stop(self, *hosts: str) -> None:
        """Say that services were stopped long ago, and that all others are up."""
        self.execute("UPDATE services SET forced_down = 0, last_seen_up = UTC_TIMESTAMP()")
        for host in hosts:
            self.execute(
                "UPDATE services SET forced_down = 1, last_seen_up = "
                "UTC_TIMESTAMP() - INTERVAL 1 HOUR WHERE host = :host",
                host=host,
            )

    def hosts(self) -> dict[str, str]:
        """Each node's host; its server has the same one."""
        apart = self.execute(
            "SELECT i.uuid FROM instances i JOIN compute_nodes c "
            "ON i.node = c.hypervisor_hostname WHERE i.host != c.host"
        )
        assert apart == []
        rows = self.execute("SELECT uuid, host FROM compute_nodes WHERE deleted = 0")
        assert len(rows) == self.nodes
        return {row.uuid: row.host for row in rows}

    def shards(self) -> dict[str, str]:
        """Each node's shard."""
        url = f"{self._ironic}/v1/nodes?fields=uuid,shard&limit=1000"
        headers = {"X-OpenStack-Ironic-API-Version": "1.82"}
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers)) as answer:
            return {node["uuid"]: node["shard"] for node in json.load(answer)["nodes"]}


def command(world: World, *arguments: str) -> list[str]:
    program = [sys.executable, "-m", "ironic_virt.cmd.fleet", "--config-file", str(world.conf)]
    return [*program, *arguments, "-f", "json"]


def run(world: World, *arguments: str) -> None:
    done = subprocess.run(command(world, *arguments), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def killed(world: World, journal: Path, rng: random.Random, *arguments: str) -> bool:
    """Start it, and kill it soon after it has begun to change nodes; whether it died of that."""
    before = journal.stat().st_size if journal.exists() else 0
    process = subprocess.Popen(
        command(world, *arguments), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + _PATIENCE
    while process.poll() is None and time.monotonic() < deadline:
        if journal.exists() and journal.stat().st_size > before:
            time.sleep(rng.uniform(0, 0.4))
            process.send_signal(signal.SIGKILL)
            break
        time.sleep(0.002)
    return process.wait() == -signal.SIGKILL


@pytest.mark.timeout(3600, method="thread")
def test_a_killed_run_loses_nothing_and_goes_on(world: World, tmp_path: Path) -> None:
    records, rng = Records(world), random.Random("killed")
    plan, before = str(tmp_path / "plan.yaml"), records.hosts()
    journal = Path(f"{plan}.journal")
    records.stop()
    run(world, "plan", "drain", DRAINED, "--output", plan, *world.service_files())
    for verb, stopped in (("apply", (DRAINED,)), ("undo", OTHERS)):
        deaths = 0
        for _ in range(DEATHS):
            # The services that are up would have reported since the last time.
            records.stop(*stopped)
            deaths += killed(world, journal, rng, verb, plan, "--yes")
            records.hosts()
        assert deaths
        records.stop(*stopped)
        run(world, verb, plan, "--yes")
        hosts = records.hosts()
        # The shard of each is that of its service, whose name it has.
        assert records.shards() == hosts
        if verb == "apply":
            assert DRAINED not in hosts.values()
            assert {n: h for n, h in hosts.items() if before[n] != DRAINED} == {
                n: h for n, h in before.items() if h != DRAINED
            }
        else:
            assert hosts == before
