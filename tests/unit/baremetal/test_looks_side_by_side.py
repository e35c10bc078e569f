# SPDX-License-Identifier: Apache-2.0

"""Looks that take their time, and some that hang: when the end of each wait is seen.

Ironic, the clock and the threads are simulated, so that a thousand waits take no time.
"""

import heapq
import itertools
import random
from collections.abc import Callable

import pytest

from ironic_virt import exceptions
from ironic_virt.baremetal.node import Node
from ironic_virt.baremetal.waiting.poll import MOST_REQUESTS
from ironic_virt.baremetal.waiting.waiters import PollRequest
from ironic_virt.baremetal.waiting.watcher import PATIENCE
from tests.unit.baremetal.ironic import Request
from tests.unit.baremetal.test_poll import Bench

INTERVAL = 2.0
LATENCY = 0.02
TIMED_OUT = exceptions.IronicUnreachable("timed out")
GENERAL_TIMEOUT = 60.0


class Simulation(Bench):
    """A poll whose looks are under way for some time, as many at once as it likes."""

    def __init__(self, states: dict[str, str], *, seed: int = 0) -> None:
        super().__init__(states, INTERVAL, seed)
        self.clock.now = 0.0
        self.latency: Callable[[PollRequest], float] = lambda look: LATENCY
        self.most = 0
        self.seen: dict[str, float] = {}
        self._order = itertools.count()
        self._under_way: list[tuple[float, int, PollRequest, list[Node] | Exception]] = []

    def pass_time(self, until: float, end: Callable[[Node | None], bool]) -> None:
        """Let time pass; a wait is over when its node is as wanted."""
        while self.clock.now < until:
            look = self._take()
            if look is not None:
                self._send(look)
                continue
            landing = self._under_way[0][0] if self._under_way else until
            self.clock.now = max(self.clock.now, min(landing, self.next_due(), until))
            if self._under_way and landing <= self.clock.now:
                _, _, look, answer = heapq.heappop(self._under_way)
                self.poll.land(look, answer)
                self._see_off(end)

    def _send(self, look: PollRequest) -> None:
        answer = self.poll.ask(look)
        timeout = min(look.timeout, GENERAL_TIMEOUT)
        takes = timeout if answer is TIMED_OUT else self.latency(look)
        if takes >= timeout:
            answer, takes = TIMED_OUT, timeout
        heapq.heappush(self._under_way, (self.clock.now + takes, next(self._order), look, answer))
        self.most = max(self.most, len(self._under_way))

    def _see_off(self, end: Callable[[Node | None], bool]) -> None:
        for waiter in [waiter for waiter in self.poll.waiters if waiter.unread]:
            waiter.unread = False
            if end(waiter.seen):
                self.seen[waiter.node] = self.clock.now
                self.leave(waiter)


def is_available(node: Node | None) -> bool:
    return node is not None and node.provision_state == "available"


def every_third() -> Callable[[Request], Exception | None]:
    count = itertools.count(1)
    return lambda request: TIMED_OUT if next(count) % 3 == 0 else None


def at_random(seed: int) -> Callable[[Request], Exception | None]:
    rng = random.Random(seed)
    return lambda request: TIMED_OUT if rng.random() < 1 / 3 else None


@pytest.mark.parametrize(
    ("trouble", "bound"), [(every_third(), 10.0), *((at_random(seed), 20.0) for seed in range(5))]
)
def test_sixty_waits_end_soon_while_every_third_request_hangs(trouble, bound) -> None:
    """Of random ones, seven of a node in a row may hang; of every third, no two."""
    names = [f"node-{number}" for number in range(60)]
    simulation = Simulation(dict.fromkeys(names, "active"))
    simulation.ironic.trouble = trouble
    for name in names:
        simulation.wait(name, patience=PATIENCE)
    simulation.pass_time(20, is_available)
    for name in names:
        simulation.ironic.move(name, "available")
    simulation.pass_time(60, is_available)
    assert simulation.seen.keys() == set(names)
    assert max(simulation.seen.values()) <= 20 + bound
    assert simulation.most <= MOST_REQUESTS


def test_an_ironic_that_has_become_slow_is_heard() -> None:
    simulation = Simulation({"a": "active", "b": "deploying", "c": "deploying"})
    simulation.latency = lambda look: 20.0
    for node, state in (("a", "active"), ("b", "deploying"), ("c", "deploying")):
        simulation.wait(node, state, patience=PATIENCE)
    for node in "abc":
        simulation.ironic.move(node, "available")
    simulation.pass_time(400, is_available)
    assert simulation.seen.keys() == {"a", "b", "c"}


FORTH, BACK = ("deploying", "wait call-back"), ("wait call-back", "deploying")


@pytest.mark.parametrize(("count", "ways", "looks"), [(500, [FORTH], 1), (20, [FORTH, BACK], 0)])
def test_nodes_that_go_on_together_cost_lists_and_one_look(count, ways, looks) -> None:
    """Lists are under way together; a node that one lacks may be in the other."""
    simulation = Simulation({})
    nodes = {f"node-{number}": ways[number % len(ways)] for number in range(count)}
    for node, (before, _) in nodes.items():
        simulation.ironic.move(node, before)
        simulation.wait(node, before, patience=PATIENCE)
    simulation.pass_time(20, is_available)
    simulation.ironic.take_requests()
    for node, (_, after) in nodes.items():
        simulation.ironic.move(node, after)
    simulation.pass_time(40, is_available)
    kinds = [kind for kind, _ in simulation.ironic.requests]
    assert kinds.count("get") == looks
    assert "list" in kinds


@pytest.mark.parametrize("seed", range(3))
def test_a_thousand_looks_see_each_end_within_two_intervals(seed: int) -> None:
    rng = random.Random(seed)
    names = [f"node-{number}" for number in range(1000)]
    simulation = Simulation(dict.fromkeys(names, "active"), seed=seed)
    for name in names:
        simulation.wait(name, patience=PATIENCE)
    ends = {name: rng.uniform(3, 40) for name in names}
    for name in sorted(names, key=ends.__getitem__):
        simulation.pass_time(ends[name], is_available)
        simulation.ironic.move(name, "available")
    simulation.pass_time(60, is_available)
    late = [simulation.seen[name] - ends[name] for name in names]
    assert max(late) <= 2 * INTERVAL
    assert simulation.most <= MOST_REQUESTS
