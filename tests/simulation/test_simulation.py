# SPDX-License-Identifier: Apache-2.0

"""The simulation itself: it repeats itself, finds nothing, and finds what is planted."""

import logging
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.depth import choose
from tests.simulation import planted
from tests.simulation.world import simulate


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """What a driver says in a storm is not for whoever watches the logs of tests."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("seed", range(choose(9, 90)))
def test_nothing_is_found(seed: int) -> None:
    outcome = simulate(seed)
    assert outcome.findings == ()
    assert outcome.operations


def test_hours_of_faults_are_more_of_the_same() -> None:
    short, long = simulate(1), simulate(1, hours=2)
    assert long.findings == ()
    assert long.seconds >= max(2 * 3600, 2 * short.seconds)
    assert long.operations > 2 * short.operations


def test_a_seed_gives_the_same_history_in_any_process() -> None:
    code = "from tests.simulation.world import simulate; print(simulate(3).digest)"

    def begun(hash_seed: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", code],
            env=os.environ | {"PYTHONHASHSEED": hash_seed},
            stdout=subprocess.PIPE,
            text=True,
        )

    with begun("1") as one, begun("2") as other:
        here = simulate(3).digest
        for process in (one, other):
            assert process.communicate(timeout=120) == (f"{here}\n", None)
    assert simulate(8).digest != here


@pytest.mark.parametrize("name", ["silence is no nodes", "silence is absence", "no undo"])
def test_a_planted_fault_is_found(name: str) -> None:
    (fault,) = (one for one in planted.FAULTS if one.name == name)
    assert planted.found_at(fault, 40) is not None
