# SPDX-License-Identifier: Apache-2.0

"""How often, how long after, until when a request is sent again."""

import dataclasses
import pathlib
import random
from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from ironic_virt import conf, exceptions
from ironic_virt.baremetal.http.connection import Answer
from ironic_virt.baremetal.http.requests import Call, Sender
from ironic_virt.baremetal.http.retry import RetryPolicy
from ironic_virt.conf.ironic import SHORTEST_RETRY_INTERVAL
from tests.unit.baremetal.scripted import Clock, versions_answer

T = TypeVar("T")
BUSY = exceptions.IronicUnavailable("busy", status=503)
NONE = "[ironic]\nauth_type = none\nendpoint_override = http://ironic.invalid\n"


class Average(random.Random):
    """No jitter: always the middle."""

    def uniform(self, a: float, b: float) -> float:
        return (a + b) / 2


def policy(clock: Clock, rng: random.Random | None = None, **rules: float) -> RetryPolicy:
    return RetryPolicy(
        max_retries=int(rules.get("max_retries", 60)),
        interval=rules.get("interval", 2.0),
        clock=clock,
        sleep=clock.sleep,
        rng=rng or Average(),
    )


def run(rule: RetryPolicy, attempt: Callable[[], T]) -> T:
    """What a call returns, each of whose tries is an attempt."""

    class Channel:
        def send(self, method: str, path: str, **_: Any) -> Answer:
            return versions_answer("1.1", "1.90")

    return Sender(Channel(), rule).read(Call("GET", "/nodes"), lambda _: attempt())


def failing(
    clock: Clock, takes: Callable[[float], float] = lambda passed: 0.0
) -> tuple[Callable[[], None], list[float]]:
    """An attempt that never succeeds, and the seconds after which it was made.

    :param takes: given those seconds, how long it takes.
    """
    begun: list[float] = []

    def attempt() -> None:
        begun.append(clock.now - 1000)
        clock.now += takes(begun[-1])
        raise exceptions.IronicUnavailable("busy", status=503)

    return attempt, begun


def tried(rule: RetryPolicy, attempt: Callable[[], object]) -> None:
    with pytest.raises(exceptions.IronicUnavailable, match="busy"):
        run(rule, attempt)


def test_pauses_grow_by_half_up_to_five_times_with_jitter() -> None:
    rule = policy(Clock(), interval=2.0)
    pauses = [rule.delay(tries, BUSY) for tries in (*range(1, 8), 10**6)]
    assert pauses == pytest.approx([2.0, 3.0, 4.5, 6.75, 10.0, 10.0, 10.0, 10.0])
    rule = policy(Clock(), random.Random(7), interval=2.0)
    pauses = [rule.delay(1, BUSY) for _ in range(500)]
    assert 1.5 <= min(pauses) < 1.6
    assert 2.4 < max(pauses) <= 2.5


@pytest.mark.parametrize("seed", range(20))
def test_few_retries_are_all_made_and_none_past_the_budget(seed: int) -> None:
    # The first tries take a moment, and jitter may stretch a pause: neither
    # may eat up the one retry that an operator has allowed.
    for retries in (0, 1, 2):
        clock = Clock()
        attempt, begun = failing(clock, lambda passed: 0.01)
        tried(policy(clock, random.Random(seed), max_retries=retries), attempt)
        assert len(begun) == 1 + retries
    clock = Clock()
    attempt, begun = failing(clock, lambda passed: 0.5)
    rule = policy(clock, random.Random(seed), max_retries=10, interval=2.0)
    tried(rule, attempt)
    assert rule.budget == 20.0
    assert rule.budget - 0.5 <= max(begun) <= rule.budget, "and it is used up"


@pytest.mark.parametrize(
    ("rules", "takes", "last", "ends"),
    [
        ({}, lambda passed: 0.0, 120, 120),
        ({"max_retries": 5}, lambda passed: 60.0, 0, 60),
        ({"max_retries": 1, "interval": 0.5}, lambda passed: 60.0, 0, 60),
        # The first takes half of the two minutes, the second begins before their end.
        ({}, lambda passed: 60.0, 62, 122),
        ({}, lambda passed: 60.0 if passed >= 119 else 0.0, 120, 180),
    ],
    ids=[
        "two minutes",
        "one takes all",
        "one takes all of little",
        "it ends by itself",
        "it begins at the bound",
    ],
)
def test_the_last_try_begins_within_the_bound_and_ends_by_itself(rules, takes, last, ends) -> None:
    clock = Clock()
    attempt, begun = failing(clock, takes)
    tried(policy(clock, **rules), attempt)
    assert (begun[-1], clock.now - 1000) == (pytest.approx(last), pytest.approx(ends))


def test_a_look_within_the_last_try_has_no_bound_of_its_own() -> None:
    clock = Clock()
    rule = policy(clock)
    look, asked = failing(clock, lambda passed: 60.0)

    def attempt() -> None:
        if clock.now < 1119.0:
            raise exceptions.NodeLocked("locked", status=409)
        run(rule, look)

    tried(rule, attempt)
    assert asked == [pytest.approx(120.0)]
    assert clock.now == pytest.approx(1180.0)
    # By itself it is retried as before.
    asked.clear()
    tried(rule, look)
    assert len(asked) == 2


def busy(clock: Clock, *errors: Exception) -> tuple[Callable[[], str], list[float]]:
    """An attempt that fails so, one after the other, and then succeeds."""
    left, begun = list(errors), []

    def attempt() -> str:
        begun.append(clock.now - 1000)
        if left:
            raise left.pop(0)
        return "done"

    return attempt, begun


def unavailable(status: int = 503, retry_after: float | None = None) -> exceptions.IronicError:
    return exceptions.IronicUnavailable("busy", status=status, retry_after=retry_after)


@pytest.mark.parametrize(
    ("after", "rules", "times"),
    [
        ([30, 5], {}, [0, 33.75, 33.75 + 5.625]),
        # A date in the past counts as 0, and comes no sooner than another.
        ([0] * 2, {}, [0, 2.0, 5.0]),
        # A last try at the end of the budget.
        ([86400], {}, [0, 120]),
        ([86400], {"max_retries": 1, "interval": 0.5}, [0, 0.5]),
    ],
)
def test_who_says_when_is_not_asked_before_nor_after_the_budget(after, rules, times) -> None:
    clock = Clock()
    attempt, begun = busy(clock, *(unavailable(429, retry_after=seconds) for seconds in after))
    assert run(policy(clock, **rules), attempt) == "done"
    assert begun == times
    clock = Clock()
    attempt, begun = busy(clock, *[unavailable(retry_after=after[0])] * 70)
    with pytest.raises(exceptions.IronicUnavailable):
        run(policy(clock, **rules), attempt)
    assert begun[-1] <= policy(clock, **rules).budget


def test_the_policy_is_that_of_the_options_with_novas_delays(tmp_path: pathlib.Path) -> None:
    clock = Clock()
    rule = configured(tmp_path, "api_max_retries = 7\napi_retry_interval = 3", clock)
    assert (rule.max_retries, rule.interval, rule.budget) == (7, 3.0, 21.0)
    attempt, begun = busy(clock, exceptions.IronicUnreachable("no"), unavailable(), unavailable())
    lines = "connect_retry_delay = 0.5\nstatus_code_retry_delay = 7"
    assert run(configured(tmp_path, lines, clock), attempt) == "done"
    assert begun == [0, 0.5, 7.5, 14.5]


def test_an_interval_of_0_is_no_busy_loop(tmp_path: pathlib.Path) -> None:
    clock = Clock()
    lines = "api_retry_interval = 0\nconnect_retry_delay = 0"
    rule = configured(tmp_path, lines, clock)
    attempt, begun = busy(clock, *[unavailable(), exceptions.IronicUnreachable("no")] * 40)
    with pytest.raises(exceptions.IronicError):
        run(rule, attempt)
    assert len(begun) <= 61
    assert min(clock.slept[:-1]) >= SHORTEST_RETRY_INTERVAL


def configured(tmp_path: pathlib.Path, lines: str, clock: Clock) -> RetryPolicy:
    path = tmp_path / "ironic-virt.conf"
    path.write_text(f"{NONE}{lines}\n")
    made = RetryPolicy.from_conf(conf.load([str(path)]))
    return dataclasses.replace(made, clock=clock, sleep=clock.sleep, rng=Average())


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("retriable_status_codes = 500,503", "500"),
        ("connect_retry_delay = -1", "less than 0"),
        ("status_code_retry_delay = -1", "less than 0"),
    ],
)
def test_what_is_not_done_is_refused(tmp_path: pathlib.Path, line: str, says: str) -> None:
    with pytest.raises(exceptions.InvalidConfiguration, match=f"{line.split()[0]}.*{says}"):
        configured(tmp_path, line, Clock())
