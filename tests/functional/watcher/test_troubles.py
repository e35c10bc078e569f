# SPDX-License-Identifier: Apache-2.0

"""Hundreds of waits while Ironic, or the host, has troubles of its own."""

from __future__ import annotations

import dataclasses
import threading

import pytest

from ironic_virt import exceptions
from tests.clock import PATIENCE
from tests.functional.watcher.stage import (
    INTERVAL,
    Stage,
    new_threads,
    wait_for_pollers_to_end,
)


def test_an_ironic_that_never_answers_keeps_nobody_from_stopping(stage: Stage) -> None:
    waiting = stage.begin()
    asked = threading.Event()
    stage.fake.faults.hang(count=None, when=lambda *request: asked.set() is None)
    stage.clock.advance(INTERVAL)
    assert asked.wait(PATIENCE)
    stage.watcher.stop()
    ended = waiting.end_of(stage.nodes)
    assert all(isinstance(end, exceptions.WaitCancelled) for end in ended)


@pytest.mark.parametrize("page", [1, 2, 5])
def test_a_list_of_which_a_page_fails_tells_nothing(stage: Stage, page: int) -> None:
    stage.fake.settings = stage.fake.bm.settings = dataclasses.replace(
        stage.fake.settings, max_limit=120
    )
    waiting = stage.begin()
    assert stage.tick() == (["deploying"] * 5, [])
    for node in stage.nodes[:3]:
        stage.fake.set_node(node, provision_state="active")
    stage.fake.faults.status(500, path="/v1/nodes$", nth=page)
    assert stage.tick() == (["deploying"] * page, [])
    assert waiting.ended == {}
    lists, gets = stage.tick()
    assert (lists, sorted(gets)) == (["deploying"] * 5, sorted(stage.nodes[:3]))
    assert waiting.end_of(stage.nodes[:3]) == stage.nodes[:3]


def test_nodes_that_leave_while_pages_are_read_are_not_lost(stage: Stage) -> None:
    """The last node of a page is where the next one begins."""
    stage.fake.settings = stage.fake.bm.settings = dataclasses.replace(
        stage.fake.settings, max_limit=120
    )
    waiting = stage.begin()
    gone = iter((stage.nodes[119], stage.nodes[239], stage.nodes[450]))

    def leave(*request: object) -> bool:
        node = next(gone, None)
        if node is not None:
            stage.fake.set_node(node, provision_state="active")
        return False

    stage.fake.faults.status(500, path="/v1/nodes$", when=leave)
    lists, gets = stage.tick()
    assert lists == ["deploying"] * 5
    assert set(gets) <= {stage.nodes[119], stage.nodes[239], stage.nodes[450]}
    stage.fake.faults.clear()
    stage.tick()
    assert len(waiting.end_of([stage.nodes[index] for index in (119, 239, 450)])) == 3
    assert len(waiting.ended) == 3


def test_a_watcher_that_stops_ends_500_waits_and_takes_no_new_one(stage: Stage) -> None:
    before = threading.enumerate()
    waiting = stage.begin()
    stage.watcher.stop()
    ended = waiting.end_of(stage.nodes)
    assert {type(end) for end in ended} == {exceptions.WaitCancelled}
    wait_for_pollers_to_end()
    assert not new_threads(before)
    with pytest.raises(exceptions.WaitCancelled):
        stage.watcher.wait(stage.nodes[0], lambda node: node, what="be there", timeout=0)
    assert len(stage.fake.requests) == 0
