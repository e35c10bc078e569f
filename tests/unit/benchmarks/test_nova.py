# SPDX-License-Identifier: Apache-2.0

"""The pure parts of ``nova``: where time goes, what changes, what a round comes to."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest

from benchmarks import cli, nova, registry, results
from benchmarks.nova_parts import Parts
from tests.clock import VirtualClock

# -- parts --------------------------------------------------------------------------


class Watched:
    """Parts on a clock that the test moves; processor time goes half as fast."""

    def __init__(self) -> None:
        self.clock = VirtualClock(0)
        self.parts = Parts(self.clock, lambda: self.clock() / 2)

    def work(self, part: str, *steps: float | Callable[[], Any]) -> Callable[[], None]:
        """Work on a part: so many seconds, or something else that is done."""

        def do() -> None:
            for step in steps:
                if callable(step):
                    step()
                else:
                    self.clock.advance(step)

        return self.parts.wrapped(do, part)


def test_time_goes_to_the_innermost_part_and_outside_of_any_to_none() -> None:
    watched = Watched()
    driver = watched.work("driver", 10, watched.work("database", 100), 20)
    watched.clock.advance(1)
    driver()
    watched.clock.advance(1000)
    driver()
    assert watched.parts.taken() == {
        "driver": {"wall": 60, "cpu": 30, "entered": 2},
        "database": {"wall": 200, "cpu": 100, "entered": 2},
    }


def test_a_part_that_calls_itself_is_entered_once_and_what_was_taken_is_not_taken_again() -> None:
    watched = Watched()
    work = watched.work("driver", 1, watched.work("driver", 3))
    for _ in range(2):
        work()
        assert watched.parts.taken() == {"driver": {"wall": 4, "cpu": 2, "entered": 1}}
        assert watched.parts.taken() == {}


def test_a_part_ends_also_with_an_error() -> None:
    watched = Watched()

    def lose() -> None:
        raise OSError("lost")

    def go_on() -> None:
        with pytest.raises(OSError, match="lost"):
            watched.work("placement", 5, lose)()

    watched.work("driver", go_on, 2)()
    taken = watched.parts.taken()
    assert (taken["driver"]["wall"], taken["placement"]["wall"]) == (2, 5)


def test_each_thread_has_its_own_nesting() -> None:
    watched = Watched()

    def elsewhere() -> None:
        thread = threading.Thread(target=watched.work("placement", 7))
        thread.start()
        thread.join()

    watched.work("driver", elsewhere)()
    taken = watched.parts.taken()
    # Time passes for both, and is not taken from the one that waits.
    assert (taken["driver"]["wall"], taken["placement"]["wall"]) == (7, 7)


def test_methods_of_every_kind_are_work_on_a_part_and_other_attributes_stay() -> None:
    watched = Watched()

    class Driver:
        limit = 3

        def plain(self, amount: float) -> float:
            watched.clock.advance(amount)
            return amount

        @classmethod
        def of_class(cls) -> str:
            watched.clock.advance(10)
            return cls.__name__

        @staticmethod
        def alone(amount: float) -> float:
            watched.clock.advance(amount)
            return amount

        @property
        def quality(self) -> str:
            return "good"

    class Other(Driver):
        """Inherits the class method, and must be the one that it is called for."""

    names = ["plain", "of_class", "alone", "quality", "limit"]
    watched.parts.wrap_methods(Driver, "driver", names)
    driver = Other()
    assert (driver.plain(1), Other.of_class(), driver.alone(100)) == (1, "Other", 100)
    assert (driver.quality, driver.limit) == ("good", 3)
    assert watched.parts.taken()["driver"] == {"wall": 111, "cpu": 55.5, "entered": 3}


# -- the nodes ----------------------------------------------------------------------


class Ironic:
    """Takes the requests for maintenance."""

    def __init__(self, nodes: int) -> None:
        self.uuids = [f"node-{number}" for number in range(nodes)]
        self.away: set[str] = set()
        self.fleet = nova.Fleet(
            self.uuids, "http://ironic", "39", put=self.put, delete=self.delete
        )

    def put(self, path: str) -> None:
        node = path.split("/")[3]
        assert node not in self.away
        self.away.add(node)

    def delete(self, path: str) -> None:
        self.away.remove(path.split("/")[3])


def test_one_node_in_a_hundred_changes_and_what_is_free_is_what_is_not_away() -> None:
    ironic = Ironic(400)
    assert ironic.fleet.offered() == {f"CUSTOM_BAREMETAL_KIND_{kind}": 100 for kind in range(4)}
    for _ in range(300):
        before = set(ironic.away)
        ironic.fleet.change()
        assert len(before ^ ironic.away) == 4
    assert sum(ironic.fleet.offered().values()) == 400 - len(ironic.away)
    lost = [ironic.uuids.index(node) % 4 for node in ironic.away]
    for kind in range(4):
        offered = ironic.fleet.offered()[f"CUSTOM_BAREMETAL_KIND_{kind}"]
        assert offered == 100 - lost.count(kind)
    fewest = Ironic(cli.FEWEST_NODES)
    fewest.fleet.change()
    assert len(fewest.away) == 1


@pytest.mark.parametrize("offered", [{}, {"CUSTOM_A": 2}, {"CUSTOM_A": 1, "CUSTOM_B": 1}])
def test_a_side_by_which_placement_offers_something_else_has_no_figures(
    offered: dict[str, int],
) -> None:
    with pytest.raises(AssertionError, match="what is free"):
        nova.compare("ours", offered, {"CUSTOM_A": 1})
    nova.compare("ours", {"CUSTOM_A": 1, "CUSTOM_B": 0}, {"CUSTOM_A": 1})


def test_a_side_of_which_a_part_was_not_seen_at_work_has_no_figures() -> None:
    figures = nova.figures_of(measured(1), [measured(1)])
    nova.see_all_at_work("ours", figures)
    for name in ("driver_cpu", "start_placement_requests"):
        with pytest.raises(AssertionError, match=f"{name} of ours is 0"):
            nova.see_all_at_work("ours", figures | {name: 0})


# -- rounds -------------------------------------------------------------------------


SIDES = {"ours": "ours", "in-tree": "peer"}


@dataclasses.dataclass
class Turns:
    """Sides that need no Nova.

    :ivar order: which side was asked for what, as ``peer refresh``.
    :ivar told: what each side was made with, by name.
    """

    ironic: Ironic
    order: list[str] = dataclasses.field(default_factory=list)
    told: dict[str, dict[str, Any]] = dataclasses.field(default_factory=dict)
    threads: int = nova.WORKERS

    def side(self, target: str, **told: Any) -> AbstractContextManager[OneSide]:
        """In place of ``Side``."""
        name = "tuned" if "workers" in told else SIDES[told["driver"]]
        self.told[name] = told
        return nullcontext(OneSide(name, self))


class OneSide:
    """Answers as a Nova would."""

    def __init__(self, name: str, turns: Turns) -> None:
        self.name, self.turns = name, turns

    def call(self, method: str) -> dict[str, float] | dict[str, int]:
        """What the benchmark asks of a side."""
        if method == "offered":
            return self.turns.ironic.fleet.offered()
        self.turns.order.append(f"{self.name} {method}")
        threads = self.turns.threads if self.name == "tuned" else 1
        return measured(1) | {"threads": float(threads)}


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> Turns:
    """One round's sides."""
    found = Turns(Ironic(8))
    monkeypatch.setattr(nova, "Side", found.side)
    return found


def test_three_sides_take_turns_and_each_begins_once(turns: Turns) -> None:
    nova._round(turns.ironic.fleet, 2, nova.SCHEDULER)
    sides = [line.split()[0] for line in turns.order]
    assert ["".join(name[0] for name in sides[at : at + 3]) for at in (0, 3, 6, 9)] == [
        "pto",
        "top",
        "opt",
        "pto",
    ]
    assert {line.split()[1] for line in turns.order[3:]} == {"refresh"}
    nova._round(turns.ironic.fleet, 3, nova.SCHEDULER)
    assert turns.order[12] == "tuned start"


def test_the_tuned_side_is_nova_s_driver_with_several_workers(turns: Turns) -> None:
    found = nova._round(turns.ironic.fleet, 1, nova.IRONIC)
    assert {name: told["driver"] for name, told in turns.told.items()} == {
        "ours": "ours",
        "peer": "in-tree",
        "tuned": "in-tree",
    }
    assert turns.told["tuned"]["workers"] == 8
    assert turns.told["ours"]["options"] == {"node_selection": "ironic"}
    # Of threads that wait for each other there is no time that could be compared.
    assert found["peer"].keys() - found["tuned"].keys() == {"driver_wall", "start_driver_wall"}
    assert found["ours"].keys() == found["peer"].keys() == nova.UNITS.keys()


def test_a_tuned_side_with_one_thread_has_no_figures(turns: Turns) -> None:
    turns.threads = 1
    with pytest.raises(AssertionError, match="1 threads saw to the nodes of tuned"):
        nova._round(turns.ironic.fleet, 1, nova.SCHEDULER)


# -- figures ------------------------------------------------------------------------


def measured(amount: float) -> dict[str, float]:
    return {
        f"{part}{what}": amount
        for part in ("", "driver_", "database_", "placement_")
        for what in ("wall", "cpu")
    } | {"database_queries": amount, "ironic_requests": amount, "placement_requests": amount}


def test_a_round_is_a_start_and_the_typical_refresh() -> None:
    figures = nova.figures_of(measured(50), [measured(9), measured(1), measured(2)])
    assert (figures["start_wall"], figures["start_driver_wall"]) == (50, 50)
    assert (figures["steady_wall"], figures["driver_wall"]) == (2, 2)
    assert figures["placement_requests"] == 2
    assert figures.keys() == nova.UNITS.keys()


def test_whatever_is_required_or_drawn_is_measured() -> None:
    benchmark = registry.BENCHMARKS["nova"]
    drawn = {name for plot in benchmark.plots for panel in plot.panels for name in panel.figures}
    assert {*benchmark.required, *drawn} <= nova.UNITS.keys()


# -- the command line ---------------------------------------------------------------


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What ``nova`` was told, each time that it was run."""
    found: list[dict[str, Any]] = []

    def run(rounds: int, progress: Any, **more: Any) -> results.Outcome:
        found.append({"rounds": rounds, **more})
        round_ = dict.fromkeys(nova.UNITS, 1.0)
        return results.Outcome("nova", [round_], [round_], nova.UNITS, {})

    monkeypatch.setattr(nova, "run", run)
    monkeypatch.setattr(cli, "_keep", lambda *_: None)
    return found


def test_it_is_told_how_many_nodes(told: list[dict[str, Any]]) -> None:
    cli.main(["nova", "--quick"])
    cli.main(["nova", "--quick", "--nodes", "20"])
    cli.main(["nova", "--nodes", "20", "--results", "elsewhere"])
    cli.main(["nova", "--node-selection", "scheduler"])
    cli.main(["nova", "--node-selection", "ironic", "--quick", "--nodes", "20"])
    cli.main(["nova", "--nodes", "1000"])
    assert told == [
        {"rounds": 1, "nodes": 8},
        {"rounds": 1, "nodes": 20},
        {"rounds": 3, "nodes": 20},
        {"rounds": 3, "nodes": 1000},
        {"rounds": 1, "nodes": 20, "node_selection": "ironic", "benchmark": "nova-ironic"},
        {"rounds": 3, "nodes": 1000},
    ]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nova", "--nodes", "3"], "at least 4 nodes"),
        (["nova", "--nodes", "many"], "invalid"),
        (["refresh", "--nodes", "20", "--quick"], "refresh takes no --nodes"),
        (["--nodes", "20", "--quick"], "takes no --nodes"),
        (["nova", "--nodes", "20"], "only 1000 nodes of nova are recorded"),
        (["nova", "refresh", "--node-selection", "scheduler"], "'nova' alone"),
        (["nova", "--node-selection", "chance"], "invalid choice"),
    ],
)
def test_what_it_can_not_do_is_refused(
    arguments: list[str],
    words: str,
    told: list[dict[str, Any]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(arguments)
    assert caught.value.code == 2
    assert words in capsys.readouterr().err
    assert not told
