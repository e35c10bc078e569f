# SPDX-License-Identifier: Apache-2.0

"""Typing commands: each is shown, and run as a process of its own, as a user's shell does."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Callable, Mapping
from typing import TextIO

from ironic_virt.compute.demo.errors import DemoFailed
from ironic_virt.compute.demo.interrupts import Interrupts
from ironic_virt.compute.demo.preloaded import Preloaded, Started
from ironic_virt.compute.progress.display import Display

PROGRAM = "ironic-virt"
ENVIRONMENT = "IRONIC_VIRT_CONFIG_FILE"
# How long an interrupted command may take to end, in seconds.
_GRACE = 5.0


class Commands:
    """Runs ``ironic-virt``.  In the main thread only.

    :param preloaded: starts it.
    :param stream: where commands write, both what they print and their progress.
    :param environ: with the ini file that they read, in :data:`ENVIRONMENT`.
    :param meanwhile: is called again and again while a command runs.
    """

    def __init__(
        self,
        preloaded: Preloaded,
        display: Display,
        interrupts: Interrupts,
        stream: TextIO,
        environ: Mapping[str, str],
        *,
        meanwhile: Callable[[], None] = lambda: None,
    ) -> None:
        self._preloaded = preloaded
        self._display = display
        self._interrupts = interrupts
        self._stream = stream
        self._environ = environ
        self._meanwhile = meanwhile

    def __call__(self, *argv: str) -> None:
        """Run a command to its end.

        :raises DemoFailed: it failed.
        :raises Interrupted: a signal came; the command has ended by then.
        """
        line = shlex.join((PROGRAM, *argv))
        self._display.command(line)
        self._stream.flush()
        process = self._preloaded.start(
            argv, stdout=self._stream, stderr=self._stream, environ=self._environ
        )
        self._interrupts.before_leaving(process.kill)
        try:
            while process.poll() is None:
                self._meanwhile()
                self._interrupts.sleep(0.05)
        except BaseException:
            _end(process)
            self._display.hand_back()
            raise
        if process.returncode:
            words = " ".join(argv[:2])
            raise DemoFailed(
                f"'{PROGRAM} {words}' failed with exit code {process.returncode}; see above"
            )


def _end(process: Started) -> None:
    process.terminate()
    try:
        process.wait(_GRACE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
