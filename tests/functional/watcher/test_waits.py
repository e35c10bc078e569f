# SPDX-License-Identifier: Apache-2.0

"""What hundreds of waits ask, and how each ends."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable

from ironic_virt import exceptions
from tests.functional.watcher.stage import (
    COUNT,
    INTERVAL,
    Limits,
    Stage,
    new_threads,
    wait_for_pollers_to_end,
)


def test_a_tick_is_one_list_and_a_look_at_each_node_that_left(stage: Stage) -> None:
    fake, nodes, waiting = stage.fake, stage.nodes, stage.begin()
    assert stage.tick() == (["deploying"], [])
    assert stage.tick() == (["deploying"], [])

    for node in nodes[:5]:
        fake.set_node(node, provision_state="active")
    fake.set_node(nodes[5], provision_state="deploy failed", last_error="no such image")
    fake.remove_node(nodes[6])
    lists, gets = stage.tick()
    assert lists == ["deploying"]
    assert sorted(gets) == sorted(nodes[:7])
    ended = waiting.end_of(nodes[:7])
    assert ended[:5] == nodes[:5]
    assert isinstance(ended[5], exceptions.DeployFailed)
    assert ended[5].last_error == "no such image"
    assert isinstance(ended[6], LookupError)
    assert len(waiting.ended) == 7

    assert stage.tick() == (["deploying"], []), "who has ended costs nothing any more"


def test_nodes_that_go_on_together_are_found_by_a_list(stage: Stage) -> None:
    stage.begin()
    for node in stage.nodes[:150]:
        stage.fake.set_node(node, provision_state="wait call-back")
    lists, gets = stage.tick()
    assert lists == ["deploying", "wait call-back"]
    assert len(gets) == 1
    lists, gets = stage.tick()
    assert len(lists) == 2
    assert gets == []


def test_500_waits_end_each_in_its_own_way_and_leave_nothing_behind(stage: Stage) -> None:
    """Active, failed, deleted, cancelled and too late, all through the deployment."""
    rng = random.Random(500)
    nodes = rng.sample(stage.nodes, COUNT)
    active, failed, gone = nodes[:420], nodes[420:440], nodes[440:450]
    cancelled, late, last = nodes[450:475], nodes[475:498], nodes[498:]
    limits = {node: Limits() for node in active + cancelled}
    limits |= {node: Limits(timeout=rng.uniform(20, 100)) for node in late}
    before = threading.enumerate()
    waiting = stage.begin(limits)
    assert len(new_threads(before)) == COUNT + 1

    def cancel(node: str) -> None:
        limits[node].cancelled = "the instance was deleted"

    acts: list[tuple[float, str, Callable[[str], None], bool]] = []
    for group, act, leaves in (
        (active, lambda node: stage.fake.set_node(node, provision_state="active"), True),
        (failed, lambda node: stage.fake.set_node(node, provision_state="deploy failed"), True),
        (gone, stage.fake.remove_node, True),
        (cancelled, cancel, False),
    ):
        acts += [(rng.uniform(0, 120), node, act, leaves) for node in group]
    acts.sort(key=lambda entry: entry[:2], reverse=True)

    passed = requests = 0.0
    while passed < 130:
        left = []
        while acts and acts[-1][0] <= passed:
            _, node, act, leaves = acts.pop()
            act(node)
            left += [node] if leaves else []
        lists, gets = stage.tick()
        passed += INTERVAL
        assert lists == ["deploying"]
        assert sorted(gets) == sorted(left)
        requests += 1 + len(gets)
        waiting.end_of(left)
    assert not acts
    assert requests <= 450 + 17

    assert waiting.end_of(active) == active
    for group, kind in (
        (failed, exceptions.DeployFailed),
        (gone, LookupError),
        (cancelled, exceptions.BuildAborted),
        (late, exceptions.WaitTimeout),
    ):
        assert {type(end) for end in waiting.end_of(group)} == {kind}
    assert set(waiting.ended) == set(nodes) - set(last)

    for node in last:
        stage.fake.set_node(node, provision_state="active")
    stage.fake.requests.clear()
    stage.clock.advance(INTERVAL)
    assert waiting.end_of(last) == last
    assert len(stage.fake.requests) == 3, "a list and two looks"
    wait_for_pollers_to_end()
    assert not new_threads(before)


def test_500_cancelled_at_once_cost_no_request_and_keep_no_thread(stage: Stage) -> None:
    before = threading.enumerate()
    limits = {node: Limits() for node in stage.nodes}
    waiting = stage.begin(limits)
    for limit in limits.values():
        limit.cancelled = "the service was told to drop everything"
    stage.clock.advance(INTERVAL)
    ended = waiting.end_of(stage.nodes)
    assert {type(end) for end in ended} == {exceptions.BuildAborted}
    wait_for_pollers_to_end()
    assert not new_threads(before)
    assert len(stage.fake.requests) <= 1, "the look that was due at the same time"
