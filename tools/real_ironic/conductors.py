# SPDX-License-Identifier: Apache-2.0

"""A conductor with its own process, which can be killed and started again.

Its locks and what it was doing stay in the database, as after a power cut.  Ironic releases and
fails them when the conductor starts again, or when another one takes its nodes over.
"""

from collections.abc import Callable
from pathlib import Path

from ironic_virt.testing.server_process import ServerProcess

_UP = "Successfully started conductor"


class Conductor:
    """One conductor, whose process is another one after each start.

    :param host: its name in Ironic.
    :param launch: starts a process of it, with the same files as the last one.
    """

    def __init__(self, host: str, launch: Callable[[], ServerProcess]) -> None:
        self.host = host
        self._launch = launch
        self._process: ServerProcess | None = None
        self._ups = 0

    @property
    def process(self) -> ServerProcess:
        """Its last process."""
        if self._process is None:
            raise RuntimeError(f"conductor {self.host} was never started")
        return self._process

    @property
    def log(self) -> Path:
        """What all its processes have logged."""
        assert self.process.log is not None
        return self.process.log

    @property
    def running(self) -> bool:
        """Whether it runs."""
        return self._process is not None and self._process.exit_status is None

    def is_up(self) -> bool:
        """Whether it serves since its last start, and has failed what the one before left."""
        return self.running and self._count() > self._ups

    def _count(self) -> int:
        return 0 if self._process is None else self.log.read_text(errors="replace").count(_UP)

    def start(self) -> None:
        self._ups = self._count()
        self._process = self._launch()

    def signal(self, signum: int) -> None:
        """Send it a signal: SIGTERM, and it gives its nodes away and ends."""
        self.process.signal(signum)

    def kill(self) -> None:
        """End it as a power cut would; Ironic takes it as alive until its heartbeats are old."""
        self.process.kill()
