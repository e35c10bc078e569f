# SPDX-License-Identifier: Apache-2.0

"""Which mutants may survive, and what is said of a room."""

from pathlib import Path

import pytest

from tests.mutants.rooms import Outcome, Room, function, needless, read, unexplained

POLICY = "ironic_virt.sharding.policy."
CLAIMS = "ironic_virt.sharding.claims.x_of_ring__mutmut_"
ROOM = Room("sharding", [], [], [], {"sharding.claims.of_ring": 1, "*.__str__": 9})


@pytest.mark.parametrize(
    ("mutant", "name"),
    [
        (f"{CLAIMS}12", "sharding.claims.of_ring"),
        (f"{POLICY}x__read__mutmut_1", "sharding.policy._read"),
        (f"{POLICY}xǁPolicyǁfrom_conf__mutmut_3", "sharding.policy.Policy.from_conf"),
        (f"{POLICY}xǁPolicyǁ__str____mutmut_3", "sharding.policy.Policy.__str__"),
    ],
)
def test_a_mutant_is_of_a_function(mutant: str, name: str) -> None:
    assert function(mutant) == name


def test_of_a_function_as_many_may_survive_as_are_listed() -> None:
    text = f"{POLICY}xǁPolicyǁ__str____mutmut_1"
    assert unexplained(ROOM, [f"{CLAIMS}1", text]) == []
    assert unexplained(ROOM, [f"{CLAIMS}2", f"{CLAIMS}1", text]) == [f"{CLAIMS}1", f"{CLAIMS}2"]
    other = f"{POLICY}x__read__mutmut_1"
    assert unexplained(ROOM, [other]) == [other]


def test_what_is_listed_and_does_not_survive_is_named_once_all_were_tried() -> None:
    tried = {f"{CLAIMS}1": True, f"{CLAIMS}2": False}
    assert list(needless(ROOM, Outcome(2, tried))) == ["*.__str__"]
    assert list(needless(ROOM, Outcome(3, tried))) == []


def test_the_figures_say_how_many_of_how_many() -> None:
    tried = {f"{CLAIMS}1": True, f"{CLAIMS}2": False, f"{CLAIMS}3": False}
    said = "sharding: 3 mutants, 2 killed (66 %), 1 survived"
    assert Outcome(3, tried).figures(ROOM) == said
    said = "sharding: 3 of 40 mutants, 2 killed (66 %), 1 survived"
    assert Outcome(40, tried).figures(ROOM) == said
    assert "none tried" in Outcome(40, {}).figures(ROOM)


def test_a_survivor_is_listed_with_a_reason(tmp_path: Path) -> None:
    path = tmp_path / "rooms.toml"
    room = '[one]\nmutate = ["a"]\ntests = ["b"]\n'
    path.write_text(room + 'survivors."f" = { most = 2, why = "a text" }\n')
    assert read(path) == {"one": Room("one", ["a"], [], ["b"], {"f": 2})}
    for listed in ("{ most = 2 }", '{ why = "a text" }', '{ most = 2, why = "" }'):
        path.write_text(f'{room}survivors."f" = {listed}\n')
        with pytest.raises(KeyError):
            read(path)


def test_the_rooms_name_files_and_tests_that_there_are() -> None:
    root = Path(__file__).parents[3]
    for room in read().values():
        for pattern in [*room.mutate, *room.leave, *room.tests]:
            assert list(root.glob(pattern.partition("::")[0])), pattern
