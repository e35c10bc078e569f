# SPDX-License-Identifier: Apache-2.0

"""Which files are mutated, which tests run, and which mutants may survive: ``rooms.toml``."""

import fnmatch
import tomllib
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

ROOMS = Path(__file__).with_name("rooms.toml")
_PACKAGE = "ironic_virt."


class Room(NamedTuple):
    """Modules, and the tests that concern them.

    :ivar mutate: patterns of files.
    :ivar leave: patterns of files among them that are not mutated.
    :ivar tests: files and directories.
    :ivar survivors: pattern of functions to how many mutants of each may survive; a comment
        gives the reason.
    """

    name: str
    mutate: list[str]
    leave: list[str]
    tests: list[str]
    survivors: dict[str, int]


def read(path: Path = ROOMS) -> dict[str, Room]:
    """The rooms by their names.

    :raises KeyError: a room lacks something, or a survivor its number or its reason.
    """
    rooms = {}
    for name, room in tomllib.loads(path.read_text()).items():
        survivors = {}
        for function, listed in room.get("survivors", {}).items():
            if not listed["why"]:
                raise KeyError(f"{name}: no reason why mutants of {function} survive")
            survivors[function] = listed["most"]
        rooms[name] = Room(name, room["mutate"], room.get("leave", []), room["tests"], survivors)
    return rooms


def function(mutant: str) -> str:
    """The function that a mutant is of: ``sharding.policy.Policy.from_conf``."""
    module, _, mangled = mutant.partition("__mutmut_")[0].rpartition(".")
    name = mangled.removeprefix("x").strip("ǁ").replace("ǁ", ".")
    return f"{module.removeprefix(_PACKAGE)}.{name if 'ǁ' in mangled else mangled[2:]}"


class Outcome(NamedTuple):
    """What became of a room's mutants.

    :ivar made: how many there are.
    :ivar survived: for each that was tried, whether it did.
    """

    made: int
    survived: Mapping[str, bool]

    @property
    def survivors(self) -> list[str]:
        """Those that survived, in order."""
        return sorted(mutant for mutant, survived in self.survived.items() if survived)

    def figures(self, room: Room) -> str:
        """One line."""
        tried, survived = len(self.survived), len(self.survivors)
        of = f"{tried} of {self.made}" if tried < self.made else f"{self.made}"
        killed = tried - survived
        share = f"{100 * killed // tried} %" if tried else "none tried"
        return f"{room.name}: {of} mutants, {killed} killed ({share}), {survived} survived"


def unexplained(room: Room, survivors: Collection[str]) -> list[str]:
    """The survivors of each function with more survivors than its list allows."""
    of: dict[str, list[str]] = defaultdict(list)
    for mutant in survivors:
        of[function(mutant)].append(mutant)
    found = []
    for name, mutants in of.items():
        listed = [pattern for pattern in room.survivors if fnmatch.fnmatchcase(name, pattern)]
        if len(mutants) > max((room.survivors[pattern] for pattern in listed), default=0):
            found += mutants
    return sorted(found)


def needless(room: Room, outcome: Outcome) -> Iterator[str]:
    """What is listed and did not survive, if all mutants were tried."""
    if len(outcome.survived) < outcome.made:
        return
    names = {function(mutant) for mutant in outcome.survivors}
    for pattern in room.survivors:
        if not fnmatch.filter(names, pattern):
            yield pattern
