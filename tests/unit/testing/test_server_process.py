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
