# SPDX-License-Identifier: Apache-2.0

"""A server program ends with whoever started it, and takes its directory with it."""

import contextlib
import os
import signal
import subprocess
import sys

import pytest

from ironic_virt.testing.server_process import ServerProcess

# Opens the pipe, so that its other end sees when nobody holds it any more.
HOLD = "exec 3>{pipe}; echo started >&3; {then}"


@pytest.fixture
def directory(tmp_path):
    directory = tmp_path / "state"
    directory.mkdir()
    return directory


@pytest.fixture
def pipe(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    return path


def shell(pipe, then):
    return ["sh", "-c", HOLD.format(pipe=pipe, then=then)]


def test_a_stop_ends_the_program_its_children_and_directory(directory, pipe):
    process = ServerProcess(
        shell(pipe, "sleep 1000 & sleep 1000"), directory=directory, log=directory / "log"
    )
    with pipe.open() as held:
        assert held.readline() == "started\n"
        assert process.exit_status is None
        process.stop()
        # The end of file says that no process holds the pipe.
        assert held.read() == ""
    assert not directory.exists()
    process.stop()


def test_a_program_that_ignores_sigterm_is_killed(directory, pipe):
    process = ServerProcess(
        shell(pipe, "trap '' TERM; echo ready >&3; while :; do sleep 1000; done"),
        directory=directory,
        log=directory / "log",
        grace=0.2,
    )
    with pipe.open() as held:
        assert [held.readline() for _ in range(2)] == ["started\n", "ready\n"]
        process.stop()
        assert held.read() == ""
    assert process.exit_status == 128 + signal.SIGKILL


HASTY = """
import os, signal, subprocess, sys
from ironic_virt.testing import supervise
start = subprocess.Popen

def start_and_be_told(*arguments, **options):
    child = start(*arguments, **options)
    os.kill(os.getpid(), getattr(signal, sys.argv[1]))
    return child

subprocess.Popen = start_and_be_told
sys.exit(supervise.supervise(10.0, sys.argv[2], sys.argv[3:]))
"""


@pytest.mark.parametrize("name", ["SIGUSR1", "SIGTERM"])
def test_a_signal_while_the_program_starts_is_not_lost(directory, pipe, name):
    command = shell(pipe, "sleep 1000 & wait")
    # Where the program is ended before it opens the pipe, nobody else would.
    with (
        subprocess.Popen(
            [sys.executable, "-c", HASTY, name, str(directory), *command], stdin=subprocess.PIPE
        ) as supervisor,
        open(os.open(pipe, os.O_RDWR), "w"),
        pipe.open(),
    ):
        status = supervisor.wait()
    assert status > 128
    assert directory.exists() is (name == "SIGUSR1")


STARTER = """
import os, sys
from pathlib import Path
from ironic_virt.testing.server_process import ServerProcess
directory = Path(sys.argv[1])
process = ServerProcess(sys.argv[2:], directory=directory, log=directory / "log")
sys.stdin.read()
"""


@pytest.mark.parametrize("victim", ["starter", "supervisor"])
def test_the_program_ends_when_who_started_it_is_killed(directory, pipe, victim):
    starter = subprocess.Popen(
        [
            sys.executable,
            "-c",
            STARTER,
            str(directory),
            *shell(pipe, "echo $PPID >&3; exec sleep 1000"),
        ],
        stdin=subprocess.PIPE,
    )
    with pipe.open() as held:
        held.readline()
        supervisor = int(held.readline())
        os.kill(starter.pid if victim == "starter" else supervisor, signal.SIGKILL)
        assert held.read() == ""
    with contextlib.suppress(ProcessLookupError):
        starter.kill()
    starter.communicate()
