# SPDX-License-Identifier: Apache-2.0

"""How the demo keeps and words what is going on."""

import dataclasses

import pytest

from ironic_virt.compute.progress import rows
from ironic_virt.compute.progress.board import Board, Outcome, Track


class Clock:
    """A clock that stands still until told."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def board(clock: Clock) -> Board:
    board = Board(clock)
    board.begin({"a": ("demo-1", "node-1"), "b": ("demo-2", "node-2")})
    return board


def steps(board: Board) -> list[tuple[str, str]]:
    return [(track.step, track.detail) for track in board.tracks()]


def test_each_track_has_its_own_step(board: Board) -> None:
    board.report("b", "deploying", "wait call-back")
    assert steps(board) == [("waiting", ""), ("deploying", "wait call-back")]


def test_what_is_not_on_the_board_is_not_noted(board: Board) -> None:
    board.report("c", "deploying")
    assert steps(board) == [("waiting", ""), ("waiting", "")]


@pytest.mark.parametrize("outcome", [Outcome.DONE, Outcome.FAILED])
def test_a_track_that_has_ended_stays_as_it_is(
    board: Board, clock: Clock, outcome: Outcome
) -> None:
    clock.now += 2
    if outcome is Outcome.DONE:
        board.finish("a", "active")
    else:
        board.fail("a", "no such image")
    ended = board.tracks()[0]
    clock.now += 5
    board.report("a", "deploying")
    assert board.tracks()[0] == ended
    assert ended.outcome is outcome
    assert ended.seconds(clock.now) == 2


def test_a_listener_is_told_each_change_and_only_changes(board: Board) -> None:
    told: list[str] = []
    board.listen(lambda track: told.append(f"{track.name} {track.step}"))
    board.report("a", "validating")
    board.report("a", "validating")
    board.finish("a", "active")
    board.listen(None)
    board.report("b", "validating")
    assert told == ["demo-1 validating", "demo-1 active"]


def track(**changes: object) -> Track:
    plain = Track("a", "demo-1", "node-1", 100.0)
    return dataclasses.replace(plain, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "doing"),
    [
        ({"step": "reserving", "detail": "available"}, "reserving"),
        ({"step": "deploying", "detail": ""}, "deploying"),
        ({"step": "deploying", "detail": "deploying"}, "deploying"),
        ({"step": "deploying", "detail": "wait call-back"}, "deploying (wait call-back)"),
    ],
)
def test_the_provision_state_is_shown_when_it_says_more(
    changes: dict[str, object], doing: str
) -> None:
    assert rows.track_cells(track(**changes), 101.25) == ("demo-1", "node-1", doing, "1.2 s")


def test_a_track_without_a_node_is_a_line_without_one() -> None:
    assert rows.track_line("node-1", "", "cleaning", "0.5 s") == "node-1: cleaning, 0.5 s"
    assert rows.track_line("demo-1", "node-1", "active", "2.0 s") == (
        "demo-1 on node-1: active, 2.0 s"
    )


def test_the_share_grows_until_nobody_can_tell_and_is_whole_at_the_end() -> None:
    path = ["waiting", "reserving", "configuring", "validating"]
    shares = [rows.share_done(track(step=step)) for step in path]
    assert shares == sorted(share for share in shares if share is not None)
    assert shares[-1] is not None
    assert shares[-1] < 1
    assert rows.share_done(track(step="deploying")) is None
    assert rows.share_done(track(step="a step of next year")) is None
    assert rows.share_done(track(step="active", outcome=Outcome.DONE)) == 1


def test_a_table_is_as_wide_as_it_must_be() -> None:
    assert rows.text_table(("Node", "Power"), [("node-1", "on"), ("n", "power off")]) == [
        "Node    Power",
        "------  ---------",
        "node-1  on",
        "n       power off",
    ]


def test_an_empty_table_has_its_head() -> None:
    assert rows.text_table(("Node", "Power"), []) == ["Node  Power", "----  -----"]
