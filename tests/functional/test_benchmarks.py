# SPDX-License-Identifier: Apache-2.0

"""The benchmarks' fleet, and our side of the benchmarks of refreshes.

The peer is in the benchmarks' environment only; ``--quick`` runs both there.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest
import requests

from benchmarks import measure, refresh
from benchmarks.side import Side

NODES = 400


@pytest.fixture
def stage() -> Iterator[refresh.Stage]:
    with refresh.fleet(NODES, lambda _: None, names=("ours",)) as found:
        yield found


def lived(seed: str) -> tuple[str, list[str]]:
    with Side("benchmarks.fleet:Fleet", nodes=NODES, seed=seed) as fleet:
        fleet.call("live", 60, 40)
        return fleet.call("content"), fleet.call("instances")


def test_the_same_seed_gives_the_same_fleet_and_the_same_changes() -> None:
    assert lived("a") == lived("a") != lived("b")


def test_a_period_is_a_full_list_a_sweep_and_eight_refreshes_without(
    stage: refresh.Stage,
) -> None:
    stage.pass_time(60, 2)
    stage.refresh_all(0)
    stage.compare()
    refreshes = refresh.period(stage, changes=2, first=True)["ours"]
    stage.compare()
    received = [figures["bytes"] for figures in refreshes]
    others = [received[at] for at in range(1, 10) if at != 5]
    assert received[0] > received[5] > 2 * max(others)
    again = refresh.period(stage, changes=2, first=False)["ours"]
    assert [figures["bytes"] for figures in again] == pytest.approx(received, rel=0.2)


def test_a_first_refresh_tells_what_it_cost(stage: refresh.Stage) -> None:
    figures: dict[str, Any] = stage.first("ours")
    assert figures["bytes"] > NODES * 100
    assert figures["requests"] >= 2
    assert figures["cpu"] > 0
    assert figures["wall"] > 0
    assert figures["memory"] >= 0


def test_traffic_is_what_came_over_the_wire(monkeypatch: pytest.MonkeyPatch) -> None:
    # So that what counts is taken away again.
    monkeypatch.setattr(socket.socket, "recv_into", socket.socket.recv_into)
    with Side("benchmarks.fleet:Fleet", nodes=NODES) as fleet:
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
