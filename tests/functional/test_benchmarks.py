# SPDX-License-Identifier: Apache-2.0

"""The benchmarks' fleet, and our side of the benchmarks of refreshes.

The peer is in the environment of the benchmarks only; ``--quick`` runs all of them
there, each side in a process of its own.  Here only the fleet is in one, as what it
receives would be counted.
"""

from __future__ import annotations

import gc
import socket
from collections.abc import Iterator
from typing import Any

import pytest
import requests

from benchmarks import measure, refresh, refresh_sides
from benchmarks.fleet import Fleet
from benchmarks.side import Side

NODES, PAGE = refresh.FEW["nodes"], refresh.FEW["page"]


class Here(Side):
    """A side in this process."""

    def __init__(self, side: Any) -> None:
        self._side = side

    def call(self, method: str, *arguments: Any) -> Any:
        return getattr(self._side, method)(*arguments)


@pytest.fixture(scope="module")
def fleet() -> Iterator[Side]:
    with Side("benchmarks.fleet:Fleet", nodes=NODES, page=PAGE) as found:
        yield found


@pytest.fixture
def traffic(monkeypatch: pytest.MonkeyPatch) -> None:
    """What counts is taken away again."""
    monkeypatch.setattr(socket.socket, "recv_into", socket.socket.recv_into)


@pytest.fixture
def little_garbage() -> Iterator[None]:
    """Each figure begins with a collection, which would look at all that other tests have left."""
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture
def stage(fleet: Side, traffic: None, little_garbage: None) -> refresh.Stage:
    # So that the making of the fleet, and what a test before has changed, is long ago.
    fleet.call("live", 3600, 2)
    return refresh.Stage(fleet, {"ours": Here(refresh_sides.Ours(fleet.call("url")))})


def lived(seed: str) -> tuple[str, list[str]]:
    fleet = Fleet(nodes=24, seed=seed)
    try:
        fleet.live(60, 12)
        return fleet.content(), fleet.instances()
    finally:
        fleet.close()


def test_the_same_seed_gives_the_same_fleet_and_the_same_changes() -> None:
    assert lived("a") == lived("a") != lived("b")


def test_a_period_is_a_full_list_a_sweep_and_eight_refreshes_without(
    stage: refresh.Stage,
) -> None:
    first: dict[str, Any] = stage.first("ours")
    assert first["bytes"] > NODES * 100
    assert first["requests"] > NODES / PAGE
    assert first["memory"] >= 0
    stage.compare()
    refreshes = refresh.period(stage, changes=2, first=True)["ours"]
    stage.compare()
    received = [figures["bytes"] for figures in refreshes]
    others = [received[at] for at in range(1, 10) if at != 5]
    assert received[0] > received[5] > 2 * max(others)
    again = refresh.period(stage, changes=2, first=False)["ours"]
    assert [figures["bytes"] for figures in again] == pytest.approx(received, rel=0.2)


@pytest.mark.usefixtures("traffic")
def test_traffic_is_what_came_over_the_wire(fleet: Side) -> None:
    url = f"{fleet.call('url')}/v1/nodes"
    requests.get(url, timeout=30)
    traffic = measure.Traffic()
    answers: list[requests.Response] = []
    figures = traffic.during(lambda: answers.append(requests.get(url, timeout=30)))
    body = len(answers[0].content)
    head = sum(len(name) + len(value) + 4 for name, value in answers[0].headers.items())
    # Beside headers and body there are the status line and an empty line.
    assert body > 20_000
    assert 0 < figures["bytes"] - body - head < 40


def test_a_side_that_does_not_know_the_nodes_as_they_are_is_noticed(stage: refresh.Stage) -> None:
    stage.refresh_all(0)
    stage.pass_time(60, 50)
    with pytest.raises(AssertionError, match="ours doesn't know"):
        stage.compare()
