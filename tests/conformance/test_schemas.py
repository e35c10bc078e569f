# SPDX-License-Identifier: Apache-2.0

"""What the fake answers in all checks, against the JSON schemas that the newest Ironic ships.

Ironic has them for all but nodes and ports.
"""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tests.conformance.checks  # noqa: F401 - registers them
from tests.conformance.conftest import NEWEST_OF_FAKE
from tests.conformance.registry import CHECKS, QUICK, SLOW
from tests.conformance.subject import Answer, IronicUnderTest
from tests.conformance.subjects import fake_subject, newest_version
from tools import real_ironic

_PROGRAM = Path(__file__).with_name("schemas.py")
_OLDEST = "1.1"
_NOT_THE_FAKES = ["POST /v1/allocations at 1.115: Schema error: 'nonsense' is not a 'uuid'"]
"""Ironic takes any text as the uuid of an allocation, against its own schema."""


class Successes:
    """Records, instead of what is compared, what was answered and how it was asked for."""

    def __init__(self) -> None:
        self.seen: list[list[Any]] = []
        self.paused = False

    def add(self, method: str, path: str, version: str | None, sent: Any, answer: Answer) -> None:
        found = answer.status in (200, 201) and isinstance(answer.body, dict)
        number = (version or _OLDEST).partition(".")[2]
        if found and number.isdecimal():
            self.seen.append([method, path, int(number), answer.body])


@pytest.fixture(scope="module")
def environment() -> real_ironic.IronicEnvironment:
    environment = real_ironic.ensure_environment()
    if newest_version(environment) != NEWEST_OF_FAKE:
        pytest.skip("earlier Ironics have other schemas, or none")
    return environment


@pytest.fixture(scope="module")
def answers() -> list[list[Any]]:
    recorder = Successes()
    for pace in (QUICK, SLOW):
        with fake_subject(pace, NEWEST_OF_FAKE) as subject:
            for check in CHECKS:
                if check.pace == pace:
                    ironic = IronicUnderTest(subject)
                    ironic.recorder = recorder  # type: ignore[assignment]
                    check.run(ironic)
    return recorder.seen


def checked(environment: real_ironic.IronicEnvironment, answers: list[list[Any]]) -> Any:
    done = subprocess.run(
        [str(environment.python), str(_PROGRAM)],
        input="\n".join(map(json.dumps, answers)),
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def test_all_that_the_fake_answers_fits(
    environment: real_ironic.IronicEnvironment,
    answers: list[list[Any]],
    show: Callable[[list[str]], None],
) -> None:
    found = checked(environment, answers)
    assert found["wrong"] == _NOT_THE_FAKES
    show([f"{count:5} {route}" for route, count in sorted(found["checked"].items())])
    assert len(found["checked"]) == 28, "routes"


def test_what_does_not_fit_is_found(environment: real_ironic.IronicEnvironment) -> None:
    shards = {"shards": [{"name": "a", "count": 0}]}
    assert len(checked(environment, [["GET", "/v1/shards", 82, shards]])["wrong"]) == 1
