# SPDX-License-Identifier: Apache-2.0

"""What hundreds of waits ask, and how each ends."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable

import pytest

from ironic_virt import exceptions
from tests.functional.watcher.stage import (
    COUNT,
    INTERVAL,
    Limits,
    Stage,
    new_threads,
    wait_for_pollers_to_end,
)


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


@pytest.mark.parametrize("end", [exceptions.BuildAborted, exceptions.WaitTimeout])
def test_500_waits_that_end_at_once_cost_no_request_and_keep_no_thread(
    stage: Stage, end: type[Exception]
) -> None:
    before = threading.enumerate()
    limits = {node: Limits(timeout=600) for node in stage.nodes}
    waiting = stage.begin(limits)
    if end is exceptions.BuildAborted:
        for limit in limits.values():
            limit.cancelled = "the service was told to drop everything"
        stage.clock.advance(INTERVAL)
    else:
        # The host has slept.
        stage.clock.advance(100_000)
    ended = waiting.end_of(stage.nodes)
    assert {type(one) for one in ended} == {end}
    wait_for_pollers_to_end()
    assert not new_threads(before)
    assert len(stage.fake.requests) <= 1, "the look that was due at the same time"
