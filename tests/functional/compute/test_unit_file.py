# SPDX-License-Identifier: Apache-2.0

"""The shipped unit: what systemd would do by it, done to real processes."""

import configparser
import pathlib
import signal
import socket
from collections.abc import Iterator

import pytest

from tests.functional.compute.processes import ComputeProcess, wait_for

UNIT = pathlib.Path(__file__).parents[3] / "etc" / "systemd" / "ironic-virt-compute.service"


@pytest.fixture
def unit() -> configparser.SectionProxy:
    parser = configparser.ConfigParser(interpolation=None)
    parser.read(UNIT)
    return parser["Service"]


class Systemd:
    """Starts a service, and starts it again as the unit says."""

    def __init__(self, unit: configparser.SectionProxy, service: ComputeProcess) -> None:
        assert unit["Restart"] == "on-failure"
        self._final = {0, *map(int, unit["RestartPreventExitStatus"].split())}
        self.service = service
        self.starts = 0

    def supervise(self) -> int | None:
        """Start it if it doesn't run and should; returns the code with which it stays down."""
        if self.service.running:
            return None
        code = self.service.wait() if self.starts else 1
        if code in self._final:
            return code
        self.service.started()
        self.starts += 1
        return None


def test_a_service_whose_name_is_taken_over_stays_down(unit, compute, db) -> None:
    former, latter = (Systemd(unit, compute()) for _ in range(2))
    former.supervise()
    latter.supervise()
    assert wait_for("the end of the former", former.supervise) == 3
    seen = db.services.get("compute1").last_seen_at
    wait_for("another report", lambda: db.services.get("compute1").last_seen_at != seen)
    assert (former.supervise(), latter.supervise()) == (3, None)
    assert (former.starts, latter.starts) == (1, 1)


def test_one_that_dies_is_started_again_and_a_wrong_file_is_not(unit, compute, server) -> None:
    one = Systemd(unit, compute())
    one.supervise()
    one.service.kill()
    assert one.supervise() is None
    assert one.starts == 2
    one.service.kill()
    one.service.configure(compute={"task_interval": "soon"})
    one.service.start()
    assert one.service.wait() == 2
    assert one.supervise() == 2


@pytest.fixture
def told(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """The socket that gets the messages to systemd."""
    path = tmp_path / "notify"
    monkeypatch.setenv("NOTIFY_SOCKET", str(path))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.bind(str(path))
        channel.settimeout(60)
        yield channel


def test_systemd_is_told_how_it_is(unit, compute, told) -> None:
    assert unit["Type"] == "notify"
    assert int(unit["WatchdogSec"]) > 300, "longer than a statement may take"
    service = compute().started()

    def hears(what: bytes) -> bool:
        while (heard := told.recv(100)) != what:
            assert heard in (b"READY=1", b"WATCHDOG=1")
        return True

    assert hears(b"READY=1")
    assert hears(b"WATCHDOG=1")
    assert hears(b"WATCHDOG=1")
    service.signal(signal.SIGTERM)
    assert hears(b"STOPPING=1")
    assert service.wait() == 0


def test_the_state_is_the_services_own(unit: configparser.SectionProxy) -> None:
    assert unit["StateDirectory"] == "ironic-virt"
    assert unit["StateDirectoryMode"] == "0700"
