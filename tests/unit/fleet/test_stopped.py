# SPDX-License-Identifier: Apache-2.0

"""Which services count as stopped: what a watch sees, by a clock of the test's."""

import datetime
from collections.abc import Callable

import pytest

from ironic_virt.fleet import stopped
from ironic_virt.fleet.deployment import Service
from ironic_virt.fleet.stopped import Watched
from tests.unit.fleet.deployments import NOW, changed

LONG_AGO = NOW - datetime.timedelta(seconds=6000)
QUIET = Service(
    "cell1", 1, "a", up=False, forced_down=True, last_seen=NOW, reports=100, created=LONG_AGO
)
"""It has reported each minute, and is forced down."""


def watched(
    service: Service,
    *,
    answers: bool | None = False,
    then: Callable[[Service], Service] = lambda service: service,
    interval: float = 10.0,
) -> tuple[Watched, float]:
    """What is seen, and for how many seconds it was looked at."""
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    reads = iter([service, then(service)])
    found = stopped.watch(
        lambda: {"a": next(reads)},
        lambda host: answers,
        ["a"],
        {"a": interval},
        clock=lambda: now[0],
        sleep=sleep,
    )
    return found, now[0]


def test_it_is_watched_for_twice_its_interval_or_its_files() -> None:
    for service, interval, seconds in (
        (QUIET, 10.0, 120.0),
        (QUIET, 90.0, 180.0),
        (changed(QUIET, last_seen=None, reports=0), 10.0, 20.0),
    ):
        found, spent = watched(service, interval=interval)
        assert (found.why_running("a", service), spent) == (None, seconds)
        assert "reported again" in str(found.why_running("a", changed(service, reports=101)))
    assert "reported again" in str(Watched().why_running("a", QUIET))
    # Nobody waits for one that runs, as everybody can see.
    found, spent = watched(changed(QUIET, forced_down=False))
    assert "force it down" in str(found.why_running("a", changed(QUIET, forced_down=False)))
    assert spent == 0.0


@pytest.mark.parametrize(
    ("answers", "then", "why"),
    [
        (True, {}, "answers over RPC"),
        (False, {"reports": 101}, "has reported while"),
        (None, {"last_seen": NOW + datetime.timedelta(seconds=1)}, "has reported while"),
        (False, {"id": 2}, "has reported while"),
    ],
)
def test_what_shows_that_it_runs(answers: bool | None, then: dict[str, object], why: str) -> None:
    found, _ = watched(QUIET, answers=answers, then=lambda service: changed(service, **then))
    assert why in str(found.why_running("a", QUIET))


def test_one_that_never_reports_runs_unless_it_could_be_asked() -> None:
    silent = changed(QUIET, last_seen=None, reports=0)
    found, _ = watched(silent, answers=None)
    assert "may be running" in str(found.why_running("a", silent))
    found, _ = watched(QUIET, answers=None)
    assert (found.why_running("a", QUIET), found.unasked) == (None, ["a"])


def test_one_that_was_deleted_is_asked_too() -> None:
    for answers, why in ((True, "answers over RPC"), (None, "may be running"), (False, None)):
        found = stopped.watch(dict, lambda host, one=answers: one, ["a"], {})
        seen = found.why_running("a", None)
        assert seen is None if why is None else why in str(seen)
        assert found.why_running("a", QUIET) is not None
