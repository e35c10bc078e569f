# SPDX-License-Identifier: Apache-2.0

"""Which mutants may survive, and what is said of a room."""

from pathlib import Path

from tests.mutants.rooms import Outcome, Room, needless, read, unexplained

POLICY = "ironic_virt.sharding.policy."
CLAIMS = "ironic_virt.sharding.claims.x_of_ring__mutmut_"
ROOM = Room("sharding", [], [], [], {"sharding.claims.of_ring": 1, "*.__str__": 9})


def test_of_a_function_as_many_may_survive_as_are_listed() -> None:
    text, other = f"{POLICY}xǁPolicyǁ__str____mutmut_1", f"{POLICY}x__read__mutmut_1"
    assert unexplained(ROOM, [f"{CLAIMS}1", text]) == []
    assert unexplained(ROOM, [f"{CLAIMS}2", f"{CLAIMS}1", text]) == [f"{CLAIMS}1", f"{CLAIMS}2"]
    assert unexplained(ROOM, [other]) == [other]


def test_a_listed_mutant_that_was_killed_is_named() -> None:
    tried = {f"{CLAIMS}1": True, f"{CLAIMS}2": False}
    assert list(needless(ROOM, Outcome(2, tried))) == ["*.__str__"]
    assert list(needless(ROOM, Outcome(3, tried))) == []


def test_the_rooms_name_files_and_tests_that_there_are() -> None:
    root = Path(__file__).parents[2]
    for room in read().values():
        for pattern in [*room.mutate, *room.leave, *room.tests]:
            assert list(root.glob(pattern.partition("::")[0])), pattern
