# SPDX-License-Identifier: Apache-2.0

"""The pure parts of ``nova``: where time goes, what changes, what a round comes to."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from benchmarks import cli, nova, nova_large, registry, results
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


@pytest.mark.parametrize("offered", [{}, {"CUSTOM_A": 2}, {"CUSTOM_A": 1, "CUSTOM_B": 1}])
def test_a_side_by_which_placement_offers_something_else_has_no_figures(
    offered: dict[str, int],
) -> None:
    with pytest.raises(AssertionError, match="what is free"):
        nova.compare("ours", offered, {"CUSTOM_A": 1})
    nova.compare("ours", {"CUSTOM_A": 1, "CUSTOM_B": 0}, {"CUSTOM_A": 1})


def test_a_side_of_which_a_part_was_not_seen_at_work_has_no_figures() -> None:
    figures = nova.figures_of("steady", measured(1))
    nova.see_all_at_work("ours", figures)
    for name in ("driver_cpu", "placement_requests"):
        with pytest.raises(AssertionError, match=f"{name} of ours is 0"):
            nova.see_all_at_work("ours", figures | {name: 0})


def test_several_threads_are_those_of_the_tuned_side_alone() -> None:
    nova.see_threads({"ours": 1, "tuned": 8})
    for threads in ({"ours": 1, "tuned": 1}, {"ours": 8, "tuned": 8}):
        with pytest.raises(AssertionError, match="threads saw to the nodes of"):
            nova.see_threads(threads)


# -- figures ------------------------------------------------------------------------


def measured(amount: float) -> dict[str, float]:
    return {
        f"{part}{what}": amount
        for part in ("", "driver_", "database_", "placement_")
        for what in ("wall", "cpu")
    } | {"database_queries": amount, "ironic_requests": amount, "placement_requests": amount}


def test_each_phase_has_figures_of_its_own() -> None:
    phases = [nova.figures_of(phase, measured(at)) for at, phase in enumerate(nova.PHASES)]
    figures = {name: value for phase in phases for name, value in phase.items()}
    assert figures.keys() == nova.UNITS.keys()
    assert sum(map(len, phases)) == len(figures)
    # Without a name of their own those of the usual minute.
    assert (figures["placement_requests"], figures["steady_cpu"], figures["driver_cpu"]) == (
        2,
    ) * 3
    assert (figures["start_cpu"], figures["restart_database_queries"]) == (0, 4)


class Told:
    """A side that notes what is called, and has seen what Placement offers when it was called."""

    def __init__(self, stage: nova.Fleet, calls: list[tuple[Any, ...]], name: str) -> None:
        self._stage, self._calls, self._name = stage, calls, name
        self._offered: dict[str, int] = {}

    def __enter__(self) -> Told:
        return self

    def __exit__(self, *exc: object) -> None:
        """Nothing is left."""

    def call(self, *call: Any) -> Any:
        if call == ("offered",):
            return self._offered
        if call == ("threads",):
            return 8 if self._name == "8" else 1
        self._calls.append((self._name, *call))
        self._offered = self._stage.offered()
        return measured(1)


def test_a_round_goes_through_the_phases_and_the_tuned_side_through_some() -> None:
    changed: list[str] = []
    stage = nova.Fleet("ABCD", "url", "", put=changed.append, delete=changed.append)
    calls: list[tuple[Any, ...]] = []

    def make(target: str, url: str, driver: str, options: Any = None, workers: int = 1) -> Any:
        return Told(stage, calls, f"{workers}" if workers > 1 else "one")

    figures = nova._round(stage, 1, nova._sides("scheduler", "2026.2"), make)
    assert figures.keys() == {"ours", "pools", "peer", "tuned"}
    assert calls.count(("one", "start")) == calls.count(("one", "restart")) == 3
    assert [call[1:] for call in calls if call[0] == "8"] == [("start",), ("refresh",)]
    assert ("one", "refresh", 6) in calls
    assert len(changed) == 2
    assert "driver_wall" in figures["peer"]
    assert "driver_wall" not in figures["tuned"]
    assert nova._sides("scheduler", "2024.1").keys() == {"ours", "pools", "peer"}
    assert nova._sides("ironic", "2026.2")["ours"]["options"] == {"node_selection": "ironic"}


@pytest.mark.parametrize(
    ("name", "units"),
    [
        *((name, nova.UNITS) for name in (*registry.RELEASES, "nova-ironic")),
        ("nova-33-large", nova_large.UNITS),
    ],
)
def test_whatever_is_required_or_drawn_is_measured(name: str, units: dict[str, str]) -> None:
    benchmark = registry.BENCHMARKS[name]
    drawn = {name for plot in benchmark.plots for panel in plot.panels for name in panel.figures}
    assert {*benchmark.required, *benchmark.limits, *drawn} <= units.keys()


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
