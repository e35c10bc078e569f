# SPDX-License-Identifier: Apache-2.0

"""What chaos does to processes and disks, and what its operator mends."""

from __future__ import annotations

import os
import random
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.chaos import conductors, disk
from tests.chaos.conductors import Conductors
from tests.chaos.weather import Deaths


class Process:
    """A service or a conductor that takes its time to stop after SIGTERM."""

    def __init__(self, host: str = "one") -> None:
        self.host = host
        self.running = True
        self.stopping = False
        self.did: list[str] = []

    def is_up(self) -> bool:
        return self.running

    def start(self) -> None:
        self.did.append("start")
        self.running, self.stopping = True, False

    def kill(self) -> None:
        self.did.append("kill")
        self.running = False

    def signal(self, signum: signal.Signals) -> None:
        assert signum == signal.SIGTERM
        self.stopping = True


@pytest.mark.parametrize("seed", range(10))
def test_in_the_end_all_processes_live_also_those_that_were_stopping(seed: int) -> None:
    process = Process()
    seconds = 0.0
    deaths = Deaths(random.Random(seed), "service", [process], lambda: seconds, lambda _: None)
    while process.running and not process.stopping:
        deaths.act()
        seconds += 1
    deaths.end()
    assert process.running
    assert not process.stopping


class Nodes:
    """Says which nodes are stuck."""

    def __init__(self) -> None:
        self.now: dict[str, str] = {}

    def stuck(self) -> dict[str, str]:
        return self.now


def test_a_conductor_is_started_again_when_its_node_has_been_stuck_for_long() -> None:
    first, second = Process("one"), Process("two")
    nodes: Any = Nodes()
    seconds = 0.0
    processes: Any = [first, second]
    told: list[str] = []
    operator = Conductors(random.Random(0), processes, nodes, lambda: seconds, told.append)
    nodes.now = {"node": "two"}
    operator.repair()
    # It was none in between.
    nodes.now = {}
    seconds = conductors.PATIENCE + 1
    operator.repair()
    nodes.now = {"node": "two"}
    operator.repair()
    assert told == []
    seconds += conductors.PATIENCE + 1
    operator.repair()
    assert (first.did, second.did) == ([], ["kill", "start"])
    assert told == ["two is started again by an operator: node is stuck"]
    operator.repair()
    assert len(told) == 1


@pytest.mark.parametrize("seed", range(5))
def test_a_disk_that_is_full_can_be_written_again_when_it_is_empty(
    seed: int, tmp_path: Path
) -> None:
    try:
        with disk.small(tmp_path) as place:
            seconds = 0.0
            weather = disk.Disk(random.Random(seed), place, lambda: seconds, lambda _: None)
            while not weather.met:
                weather.act()
                seconds += 1
            assert _free(place) <= 100 * 4096
            weather.end()
            assert _free(place) > 8 << 20
    except disk.NoDisk as error:
        pytest.skip(str(error))
    assert not list(tmp_path.glob("disk/*"))


def _free(place: Path) -> int:
    found = os.statvfs(place)
    return found.f_bavail * found.f_bsize


def test_where_nothing_can_be_mounted_it_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "mount"
    program.write_text("#!/bin/sh\necho 'must be superuser' >&2\nexit 32\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with pytest.raises(disk.NoDisk, match="must be superuser"), disk.small(tmp_path):
        pass
