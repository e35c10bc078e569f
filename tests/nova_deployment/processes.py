# SPDX-License-Identifier: Apache-2.0

"""One program of the deployment: started, killed, started again, stopped, and its log.

It can't outlive this process, even if this process is killed.
"""

import re
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from ironic_virt.testing.server_process import ServerProcess
from tests import depth

T = TypeVar("T")

SECONDS = depth.choose(480.0, nightly=1800.0)
"""More than anything here should take, even on a busy machine."""

_WIDTH = 240
_TROUBLE = re.compile(r" (WARNING|ERROR|CRITICAL) |Traceback|^\S*(Error|Exception)\b")


def wait_for(what: str, look: Callable[[], T | None], seconds: float = SECONDS) -> T:
    """Look until there is something.

    :param what: is missing if that takes too long.
    :param look: its first result that is true is returned.
    """
    began = time.monotonic()
    deadline = began + seconds
    while not (found := look()):
        now = time.monotonic()
        assert now < deadline, f"{what}: not within {seconds:.0f} s"
        # What takes long to ask keeps Nova from its work; on a loaded machine it takes minutes.
        time.sleep(min(10.0, max(0.1, 2 * (now - began))))
        began = time.monotonic()
    return found


def listens(port: int) -> bool:
    """Whether something on 127.0.0.1 takes connections at a port."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


class Program:
    """A program with its own directory.

    :param name: for people; also of its log.
    :param command: the program and its arguments.
    :ivar directory: its working directory.
    :param logs: where the log goes; it stays when the program is stopped.
    :param variables: of its environment, in addition to ours.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        directory: Path,
        logs: Path,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.log = logs / f"{name}.log"
        self.directory = directory
        # Only so can variables be given to a process that is supervised.
        self._command = [
            "/usr/bin/env",
            *(f"{name}={value}" for name, value in (variables or {}).items()),
            *command,
        ]
        self._process: ServerProcess | None = None

    def start(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        self._process = ServerProcess(self._command, directory=self.directory, log=self.log)

    @property
    def host(self) -> str:
        """The host, of a ``nova-compute``."""
        return self.name

    @property
    def running(self) -> bool:
        """Whether it runs."""
        return self._process is not None and self._process.exit_status is None

    def see_to_it(self) -> None:
        """Fail if it has ended."""
        assert self.running, f"{self.name} has ended:\n{self.tail()}"

    @property
    def exit_status(self) -> int | None:
        """``None`` while it runs."""
        return None if self._process is None else self._process.exit_status

    def signal(self, signum: int) -> None:
        """Send the program itself a signal."""
        assert self._process is not None
        self._process.signal(signum)

    def kill(self) -> None:
        """End it and all that it started as a power cut would."""
        assert self._process is not None
        self._process.kill()

    def stop(self) -> None:
        """Stop it in order."""
        if self._process is not None:
            self._process.stop()

    def text(self) -> str:
        """What it has logged so far."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def tail(self, lines: int = 60) -> str:
        """The end of its log."""
        return "\n".join(self.text().splitlines()[-lines:])

    def trouble(self, lines: int = 30) -> str:
        """The last warnings and errors of its log, and its end."""
        found = [line[:_WIDTH] for line in self.text().splitlines() if _TROUBLE.search(line)]
        return "\n".join([*found[-lines:], "...", self.tail(10)])
