# SPDX-License-Identifier: Apache-2.0

"""Starts the Ironics that the checks need, and counts."""

import contextlib
import functools
from collections.abc import Callable, Iterator

import pytest

from ironic_virt.testing.fake_ironic.settings import MAX_VERSION
from tests.conformance.comparison import FAKE, REAL
from tests.conformance.registry import Check, Pace
from tests.conformance.subject import Subject
from tests.conformance.subjects import fake_subject, newest_version, real_subject
from tools import real_ironic

# So that an assert in a check shows what it compared.
pytest.register_assert_rewrite("tests.conformance.checks")

NEWEST_OF_FAKE = ".".join(map(str, MAX_VERSION))
ASKED = "asked"
DIFFERENT = "different"

_counts: dict[str, int] = {FAKE: 0, REAL: 0, DIFFERENT: 0}

SubjectOf = Callable[[Pace], Subject]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--ironic",
        choices=(FAKE, REAL, "both"),
        default="both",
        help="which Ironic to run the checks on; with only one nothing is compared",
    )


@pytest.fixture(scope="session")
def starts(request: pytest.FixtureRequest, progress) -> Iterator[dict[str, SubjectOf]]:
    """By name, the Ironics that were asked for; each starts when the first check needs it."""
    wanted = request.config.getoption("--ironic")
    with contextlib.ExitStack() as stack:
        started: dict[tuple[str, Pace], Subject] = {}

        @functools.cache
        def environment() -> real_ironic.IronicEnvironment:
            return real_ironic.ensure_environment(progress=progress)

        @functools.cache
        def newest() -> str:
            return NEWEST_OF_FAKE if wanted == FAKE else newest_version(environment())

        def fake(pace: Pace) -> Subject:
            if (FAKE, pace) not in started:
                started[FAKE, pace] = stack.enter_context(fake_subject(pace, newest()))
            return started[FAKE, pace]

        def real(pace: Pace) -> Subject:
            if (REAL, pace) not in started:
                started[REAL, pace] = stack.enter_context(
                    real_subject(pace, environment(), progress)
                )
            return started[REAL, pace]

        found: dict[str, SubjectOf] = {FAKE: fake, REAL: real}
        yield {name: start for name, start in found.items() if wanted in (name, "both")}


@pytest.fixture
def subjects(check: Check, starts: dict[str, SubjectOf]) -> dict[str, Subject]:
    """By name, the Ironics that a check is run on.

    Started here and not in the test, which has a limit: the first may have to be installed.
    """
    return {name: start(check.pace) for name, start in starts.items()}


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    # Reports travel from the processes of pytest-xdist to the one that prints.
    for name, value in report.user_properties:
        if report.when == "call" and name in (ASKED, DIFFERENT):
            _counts[str(value)] += 1


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and (_counts[FAKE] or _counts[REAL]):
        reporter.write_line(
            f"conformance: fake {_counts[FAKE]} checks, real {_counts[REAL]} checks,"
            f" {_counts[DIFFERENT]} differences"
        )
