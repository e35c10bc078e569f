# SPDX-License-Identifier: Apache-2.0

"""``ironic-virt demo`` as its own process, for tests to watch and to signal."""

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import time
from collections.abc import Callable

from tests import signals

SECONDS = 600.0
"""More than anything here should take."""


class Demo:
    """A running ``ironic-virt demo``, in a new temporary directory."""

    COMMAND = ("ironic_virt.cmd.shell", "demo")

    def __init__(self, directory: pathlib.Path) -> None:
        self._directory = directory
        self._environ = os.environ | {"TMPDIR": str(directory), "TERM": "xterm-256color"}
        for name in ("NO_COLOR", "FORCE_COLOR", "PYTHONWARNINGS"):
            self._environ.pop(name, None)
        self._processes: list[subprocess.Popen[str]] = []

    def start(
        self, *argv: str, stdout: int = subprocess.PIPE, **environ: str
    ) -> subprocess.Popen[str]:
        """Start it; its standard error is a pipe."""
        with signals.heard(signal.SIGHUP, signal.SIGINT):
            # The console script calls the same function.
            process = subprocess.Popen(
                [sys.executable, "-m", *self.COMMAND, *argv],
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=subprocess.PIPE,
                text=True,
                env=self._environ | environ,
                start_new_session=True,
            )
        self._processes.append(process)
        return process

    def run(self, *argv: str) -> subprocess.CompletedProcess[str]:
        """Run it to its end."""
        process = self.start(*argv)
        out, err = process.communicate(timeout=SECONDS)
        return subprocess.CompletedProcess(argv, process.returncode, out, err)

    def assert_nothing_left(self) -> None:
        """Wait until no process of the demo is left, and see that it leaves no file."""
        deadline = time.monotonic() + SECONDS
        while left := [line for line in _command_lines() if str(self._directory) in line]:
            assert time.monotonic() < deadline, left
            time.sleep(0.05)
        for process in self._processes:
            # Nor one without the directory on its command line.
            while _is_there(process.pid):
                assert time.monotonic() < deadline, f"session {process.pid} is still there"
                time.sleep(0.02)
        left = sorted(path.name for path in self._directory.rglob("*"))
        assert left == [], left

    def kill_service(self) -> None:
        """End its compute service as a power cut would."""
        for pid, line in _processes():
            words = line.split()
            if "ironic_virt.cmd.compute" in words[:3] and str(self._directory) in line:
                os.kill(pid, signal.SIGKILL)

    def kill(self) -> None:
        """End the processes that a failed test has left."""
        for process in self._processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            for stream in (process.stdout, process.stderr):
                if stream is not None:
                    stream.close()


def _is_there(session: int) -> bool:
    """Whether a session has a process.  One that has ended is none; init may reap it late."""
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it may have ended meanwhile
            state, _, _, its, *_ = path.read_text().rpartition(")")[2].split()
            if int(its) == session and state != "Z":
                return True
    return False


def read_until(process: subprocess.Popen[str], wanted: Callable[[str], bool]) -> str:
    assert process.stdout is not None
    for line in process.stdout:
        if wanted(line):
            return line
    raise AssertionError(f"it ended too early: {process.stderr and process.stderr.read()}")


def _processes() -> list[tuple[int, str]]:
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it may have ended meanwhile
            line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
            found.append((int(path.parent.name), line))
    return found


def _command_lines() -> list[str]:
    return [line for _, line in _processes()]
