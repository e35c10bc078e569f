# SPDX-License-Identifier: Apache-2.0

"""The checker of histories: it accepts what some order explains, and nothing else."""

from typing import Any

import pytest

from tests.simulation.history import (
    ABSENT,
    LATE,
    History,
    Operation,
    linearization,
    node_step,
    server_step,
)


def of(
    verb: str, asked: float, ended: float, outcome: str = "done", value: Any = None
) -> Operation:
    return Operation(verb, "server", asked, ended, outcome, value)


def seen(when: float, **what: Any) -> Operation:
    return of("look", when, when, value=what)


def explained(*operations: Operation) -> bool:
    return linearization(operations, server_step, ABSENT) is not None


CREATED = of("create", 0, 10, value="a")


def test_a_quiet_life_is_explained() -> None:
    assert explained(
        CREATED,
        seen(10, image="a", power="on", rescued=False),
        of("stop", 20, 25, value="off"),
        seen(25, power="off"),
        of("rebuild", 30, 60, value="b"),
        seen(60, image="b"),
        of("delete", 70, 80),
    )


PLANTED = {
    "another image": [CREATED, seen(10, image="b")],
    "stopped and still on": [CREATED, of("stop", 20, 25, value="off"), seen(26, power="on")],
    "a lost rebuild": [CREATED, of("rebuild", 20, 30, value="b"), seen(40, image="a")],
    "refused and done": [CREATED, of("rebuild", 20, 30, "refused", "b"), seen(40, image="b")],
    "there again": [CREATED, of("delete", 20, 30), seen(40, image="a")],
    "built twice": [CREATED, of("create", 20, 30, value="a")],
    "rescued again": [
        CREATED,
        of("rescue", 20, 30),
        of("unrescue", 40, 50),
        seen(60, rescued=True),
    ],
    "stopped before it was there": [of("stop", 0, 5, value="off")],
}


@pytest.mark.parametrize("planted", PLANTED.values(), ids=PLANTED.keys())
def test_what_nothing_explains_is_found(planted: list[Operation]) -> None:
    assert not explained(*planted)


@pytest.mark.parametrize("image", ["a", "b"])
def test_what_failed_may_have_had_its_effect_or_not(image: str) -> None:
    assert explained(CREATED, of("rebuild", 20, 30, "failed", "b"), seen(40, image=image))


def test_what_failed_may_still_be_on_its_way() -> None:
    failed = of("stop", 20, 30, "failed", "off")
    assert explained(CREATED, failed, seen(35, power="on"), seen(45, power="off"))
    late = seen(40 + LATE, power="off")
    assert not explained(CREATED, failed, seen(31 + LATE, power="on"), late)


def test_what_overlaps_may_come_in_either_order() -> None:
    on, off = of("start", 20, 40, value="on"), of("stop", 21, 39, value="off")
    for power in ("on", "off"):
        assert explained(CREATED, on, off, seen(50, power=power))


def locked(*operations: Operation) -> bool:
    return linearization(operations, node_step, None) is not None


def test_a_node_has_one_server_at_a_time() -> None:
    acquired = Operation("acquire", "x", 0, 5)
    assert locked(acquired, Operation("release", "x", 6, 9), Operation("acquire", "y", 7, 12))
    assert not locked(acquired, Operation("acquire", "y", 6, 9))
    overlapping = Operation("release", "x", 10, 12)
    assert not locked(acquired, Operation("acquire", "y", 6, 9), overlapping)


def test_a_history_names_what_nothing_explains() -> None:
    history = History()
    for one in (CREATED, of("delete", 20, 30), seen(40, image="a")):
        history.ended(one)
    history.held("node", Operation("acquire", "x", 0, 1))
    (said,) = history.unexplained()
    assert said.startswith("no order explains the history of server server:")
    assert "look" in said
