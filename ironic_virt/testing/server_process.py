# SPDX-License-Identifier: Apache-2.0

"""Start a server program that can't outlive us, and stop it with all it started.

The program runs under ``supervise.py``, which watches a pipe that only
this process holds open.  So it ends also when this process is killed.
"""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

_SUPERVISOR = Path(__file__).with_name("supervise.py")

# Over the program's own grace period, before the supervisor itself is killed: what the
# program had started would then stay.
_MARGIN = 60.0


class ServerProcess:
    """One running server program.

    :param command: the program and its arguments.
    :param directory: its working directory.  It is removed when the program is stopped, or
        when this process dies; not when the program ends by itself, so its log stays.
    :param log: the file in that directory that its output goes to; ``None``: our standard error.
    :param grace: seconds from SIGTERM to SIGKILL.
    :param env: its environment variables; ours if None.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        directory: Path,
        log: Path | None,
        grace: float = 10.0,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self._grace = grace
        self.log = log
        with contextlib.nullcontext(sys.stderr) if log is None else log.open("ab") as output:
            self._supervisor = subprocess.Popen(
                [
                    *(sys.executable, str(_SUPERVISOR)),
                    *(str(grace), str(directory), *command),
                ],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=directory,
                env=env,
                # A Ctrl-C is for us alone; we then stop the server in order.
                start_new_session=True,
            )

    @property
    def exit_status(self) -> int | None:
        """None while it runs."""
        return self._supervisor.poll()

    def log_tail(self, lines: int = 30) -> str:
        """The last lines of its output."""
        try:
            text = self.log.read_text(errors="replace") if self.log else ""
        except FileNotFoundError:
            return ""
        return "\n".join(text.splitlines()[-lines:])

    def signal(self, signum: int) -> None:
        """Send the program itself a signal (Linux)."""
        supervisor = self._supervisor.pid
        children = Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text()
        os.kill(int(children), signum)

    def kill(self) -> None:
        """End the program and all that it started as a power cut would; its directory stays."""
        self._supervisor.send_signal(signal.SIGUSR1)
        self._supervisor.wait()

    def stop(self) -> None:
        """Stop the program and all that it started, and remove its directory.

        May be called again.
        """
        assert self._supervisor.stdin is not None
        self._supervisor.stdin.close()
        try:
            self._supervisor.wait(timeout=self._grace + _MARGIN)
        except subprocess.TimeoutExpired:
            # The kernel then kills the program too: it was asked to die with its supervisor.
            self._supervisor.kill()
            self._supervisor.wait()
