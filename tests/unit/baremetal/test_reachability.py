# SPDX-License-Identifier: Apache-2.0

"""What an operator reads while Ironic does not answer, or refuses."""

import contextlib
import logging
from pathlib import Path
from typing import Any

import pytest

from ironic_virt import conf, exceptions
from ironic_virt.baremetal.client import IronicClient
from ironic_virt.baremetal.http.connection import Answer
from ironic_virt.baremetal.http.reachability import ReportingChannel, describe_url
from tests.clock import VirtualClock

DOWN = exceptions.IronicUnreachable("connection refused")
NO_TOKEN = exceptions.IronicUnauthorized("wrong password")
FINE = Answer(200, {}, b"{}")


class Script:
    """A channel with a scripted outcome."""

    def __init__(self) -> None:
        self.outcome: Answer | Exception = FINE

    def send(self, method: str, path: str, **request: Any) -> Answer:
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome


class Bench:
    def __init__(self) -> None:
        self.clock = VirtualClock(now=0.0)
        self.script = Script()
        self.channel = ReportingChannel(self.script, "http://i ([ironic] x)", clock=self.clock)

    def send(
        self,
        outcome: Answer | Exception,
        method: str = "GET",
        path: str = "/nodes",
        **request: Any,
    ) -> None:
        self.script.outcome = outcome
        with contextlib.suppress(exceptions.IronicError):
            assert self.channel.send(method, path, **request) is outcome

    def go_on(self, outcome: Answer | Exception, seconds: float) -> None:
        """Send a request each second."""
        end = self.clock.now + seconds
        while self.clock.now < end:
            self.send(outcome)
            self.clock.now += 1


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Any:
    caplog.set_level(logging.INFO)
    return lambda: [(one.levelname, one.getMessage()) for one in caplog.records]


@pytest.mark.parametrize("outcome", [DOWN, Answer(503, {}, b"try later")])
def test_an_absence_is_logged_at_once_repeatedly_and_at_its_end(lines, outcome) -> None:
    bench = Bench()
    bench.send(outcome)
    [(level, text)] = lines()
    assert level == "WARNING"
    assert text.startswith(
        "[ironic-unreachable] Ironic at http://i ([ironic] x) does not answer. It is asked again."
    )
    bench.go_on(outcome, 3600)
    assert [level for level, _ in lines()] == ["WARNING"] * 12
    assert "has not answered for 3300 s" in lines()[-1][1]
    bench.clock.now += 60
    bench.send(FINE)
    bench.send(FINE)
    end = "Ironic at http://i ([ironic] x) answers again, after 3660 s"
    assert lines()[12:] == [("INFO", end)]


@pytest.mark.parametrize(
    "outcome", [NO_TOKEN, Answer(401, {}, b"who are you?"), Answer(403, {}, b"not for you")]
)
def test_a_refusal_is_an_error(lines: Any, outcome: Answer | Exception) -> None:
    bench = Bench()
    bench.go_on(outcome, 600)
    assert [level for level, _ in lines()] == ["ERROR", "ERROR"]
    assert "See the credentials in [ironic]" in lines()[0][1]


def test_one_failure_of_several_each_second_is_no_line_each(lines: Any) -> None:
    bench = Bench()
    for number in range(900):
        bench.send(DOWN if number % 3 == 0 else FINE)
        bench.clock.now += 1
    assert [level for level, _ in lines()] == ["WARNING"] * 3


def test_what_says_nothing_of_ironic_as_a_whole_is_not_told(lines: Any) -> None:
    bench = Bench()
    bench.send(Answer(403, {}, b"not this node"), "PATCH")
    for path in ("/allocations", "/nodes/1/history"):
        bench.send(Answer(403, {}, b"not these"), path=path)
    bench.send(Answer(429, {}, b"slowly"))
    bench.send(Answer(409, {}, b"locked"))
    bench.send(DOWN, timeout=1.0)
    assert lines() == []


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (
            "auth_type = none\nendpoint_override = http://me:secret@ironic.test:6385/",
            "http://ironic.test:6385/ ([ironic] endpoint_override)",
        ),
        (
            "auth_type = password\nauth_url = http://keystone.test\nusername = u\npassword = p\n"
            "project_name = n\nuser_domain_name = d\nproject_domain_name = d\n",
            "the URL of the service catalog of http://keystone.test ([ironic] auth_url)",
        ),
    ],
)
def test_it_says_which_option_leads_to_ironic(tmp_path: Path, options: str, expected: str) -> None:
    path = tmp_path / "test.conf"
    path.write_text(f"[ironic]\n{options}\n")
    loaded = conf.load([str(path)])
    IronicClient.from_conf(loaded)
    assert describe_url(loaded) == expected
