# SPDX-License-Identifier: Apache-2.0

"""What is looked at before a plan is carried out."""

import datetime

import pytest

from ironic_virt.fleet.deployment import Deployment
from ironic_virt.fleet.hosts import Aggregate
from ironic_virt.fleet.plans import preflight, strategies
from ironic_virt.fleet.plans.plan import Plan
from ironic_virt.fleet.stopped import Watched
from tests.unit.fleet.deployments import (
    changed,
    fleet,
    node_uuid,
    with_node,
    with_options,
    with_service,
)

A, B = "compute-a", "compute-b"


def sound() -> Deployment:
    """Two services; the first is stopped."""
    return with_service(fleet({A: 2, B: 1}), A, forced_down=True)


def planned(deployment: Deployment) -> Plan:
    return strategies.drain(deployment, A, [B])


def looked(plan: Plan, deployment: Deployment, *begun: str, undo: bool = False) -> dict[str, str]:
    """What was looked at, by its words, with its mark."""
    watched = Watched({A: sound().service_of[A]}, unasked=[A])
    listed = preflight.items(plan, deployment, watched, oldest=24.0, begun=begun, undo=undo)
    return {item.words: str(item)[0] for item in listed}


def test_all_is_well() -> None:
    marks = looked(planned(sound()), sound())
    assert set(marks.values()) == {"✓"}
    assert "compute-a is stopped (it could not be asked over RPC)" in marks
    running = changed(sound(), services=fleet({A: 2, B: 1}).services)
    marks = looked(planned(sound()), running)
    assert marks["stop nova-compute on compute-a, and force it down"] == "·"
    assert "✗" not in marks.values()


def test_a_plan_of_some_cells_or_by_a_fast_clock_fits() -> None:
    both = changed(sound(), cells={"cell1": "cell1", "x": "other"})
    assert "✗" not in looked(planned(sound()), both).values()
    # Neither groups nor shards differ by capitals alone.
    grouped = with_options(
        fleet({A: 2, B: 1}, conductor_group="X"), B, shard=B, conductor_group="x"
    )
    capitals = with_options(grouped, B, shard=B.upper(), conductor_group="X")
    assert "✗" not in looked(planned(grouped), capitals).values()
    # Made on a machine whose clock is as far ahead as clocks may differ.
    early = changed(sound(), read_at=sound().read_at - datetime.timedelta(seconds=5))
    assert looked(planned(sound()), early)["the plan is -5 s old; at most 24 h is allowed"] == "✓"


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda d: changed(d, cells={"x": "cell1"}), "for another deployment"),
        (lambda d: changed(d, cloud=("http://x", "")), "for another deployment"),
        (
            lambda d: changed(d, read_at=d.read_at + datetime.timedelta(hours=25)),
            "the plan is 25.0 h old; at most 24 h is allowed",
        ),
        (lambda d: changed(d, read_at=d.read_at - datetime.timedelta(seconds=9)), "is -9 s old"),
        (lambda d: changed(d, clocks={"database": 60.0}), "clocks differ: database by 60 s"),
        (lambda d: with_service(d, B, disabled=True), "compute-b is disabled"),
        (
            lambda d: changed(
                d, hosts=changed(d.hosts, aggregates=[Aggregate("g", "u", frozenset({A}))])
            ),
            "in aggregate g",
        ),
        (
            lambda d: with_options(d, B, shard="x"),
            "the file of compute-b says conductor group any, shard 'x'",
        ),
        (lambda d: with_node(d, node_uuid(1), maintenance=True), "offered-unavailable"),
    ],
)
def test_what_keeps_a_plan_from_being_carried_out(spoil, words) -> None:
    marks = looked(planned(sound()), spoil(sound()))
    assert "✗" in {mark for text, mark in marks.items() if words in text}


def test_a_plan_that_is_begun_may_be_old_and_half_way() -> None:
    later = changed(sound(), read_at=sound().read_at + datetime.timedelta(days=9))
    half = with_node(later, node_uuid(1), shard=B)
    assert "✗" not in looked(planned(sound()), half, node_uuid(1)).values()
    assert "✗" in looked(planned(sound()), half).values()
    back = planned(sound()).undone({node_uuid(1): (A, A)})
    up = changed(later, services=fleet({A: 2, B: 1}).services)
    assert "✗" not in looked(back, up, undo=True).values()
