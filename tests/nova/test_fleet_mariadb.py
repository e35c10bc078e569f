# SPDX-License-Identifier: Apache-2.0

"""What ``apply`` does to Nova's records on a real MariaDB, whoever else is at work."""

import contextlib
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks import fleet_world
from benchmarks.fleet_world import World
from tests.nova import test_fleet_killed as killed

pytestmark = pytest.mark.nightly

NODES = 48
SEEDS = 50
A, B, C, *_ = fleet_world.HOSTS


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with World(tmp_path_factory.mktemp("world"), NODES) as world:
        yield world


class Records(killed.Records):
    """As there, with fewer nodes."""

    nodes = NODES


@pytest.fixture
def records(world: World) -> Records:
    return Records(world)


def run(world: World, *arguments: str, code: int = 0) -> tuple[Any, str]:
    """What a command has printed, and what it has said."""
    done = subprocess.run(
        killed.command(world, *arguments), capture_output=True, text=True, check=False
    )
    assert done.returncode == code, (done.stdout, done.stderr)
    return json.loads(done.stdout or "null"), done.stderr


def planned(world: World, path: Path, source: str, target: str) -> str:
    path.unlink(missing_ok=True)
    Path(f"{path}.journal").unlink(missing_ok=True)
    arguments = ("drain", source, "--to", target, "--output", str(path))
    run(world, "plan", *arguments, *world.service_files())
    return str(path)


def owned(records: Records, host: str) -> list[str]:
    return sorted(node for node, owner in records.hosts().items() if owner == host)


@contextlib.contextmanager
def reporting(records: Records, host: str) -> Iterator[None]:
    """Have a service report, though it is forced down."""
    ended = threading.Event()

    def report() -> None:
        while not ended.wait(0.2):
            records.execute(
                "UPDATE services SET report_count = report_count + 1 WHERE host = :host", host=host
            )

    thread = threading.Thread(target=report)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def test_a_reporting_service_is_running_and_halves_move_whole(world, records, tmp_path) -> None:
    records.stop()
    nodes = owned(records, A)
    plan = planned(world, tmp_path / "plan.yaml", A, B)
    records.stop(A)
    with reporting(records, A):
        rows, _ = run(world, "apply", plan, "--yes", code=2)
    assert {row["Reason"] for row in rows} == {f"{A} has reported while it was watched; stop it"}
    assert owned(records, A) == nodes
    # Nova's own command was cut off between its two writes, or was begun the other way round.
    servers = records.execute("SELECT node FROM instances WHERE deleted = 0")
    first, second = [node for node in nodes if (node,) in servers][:2]
    records.execute("UPDATE compute_nodes SET host = :host WHERE uuid = :node", host=B, node=first)
    records.execute("UPDATE instances SET host = :host WHERE node = :node", host=B, node=second)
    rows, said = run(world, "apply", plan, "--yes")
    assert owned(records, A) == []
    assert set(nodes) <= set(owned(records, B))
    assert {records.shards()[node] for node in nodes} == {B}
    assert "0 findings" in said
    records.stop(B)
    run(world, "undo", plan, "--yes")
    assert owned(records, A) == nodes
    assert {records.shards()[node] for node in nodes} == {A}


def test_two_operators_at_once(world: World, records: Records, tmp_path: Path) -> None:
    records.stop()
    plans = [planned(world, tmp_path / f"to-{host}.yaml", A, host) for host in (B, C)]
    records.stop(A)
    program = killed.command(world, "apply", plans[0], "--yes")
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as other:
        # It has its lock while its journal is open.
        while not Path(f"{plans[0]}.journal").exists():
            assert other.poll() is None
        _, said = run(world, "apply", plans[1], "--yes", code=1)
        other.communicate()
    assert "another ironic-virt-fleet is changing this deployment" in said
    assert other.returncode == 0
    rows, _ = run(world, "apply", plans[1], "--yes", code=2)
    assert all("is now" in row["Reason"] for row in rows)
    assert records.shards() == records.hosts()
    records.stop(B)
    run(world, "undo", plans[0], "--yes")


def test_two_operators_who_take_turns(world: World, records: Records) -> None:
    records.stop(A)
    command = [sys.executable, "-m", "tests.nova.two_operators", str(world.conf), str(SEEDS)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    assert len(done.stdout.splitlines()) == SEEDS
    assert records.shards() == records.hosts()
