# SPDX-License-Identifier: Apache-2.0

"""Typing commands: each is shown, and run as a separate process, as a user's shell does.

A command spends most of its time on imports.  So one process imports what commands need, and
each command is forked from it (``forkserver`` of :mod:`multiprocessing`).
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import shlex
import signal
import sys
import textwrap
from collections.abc import Callable, Sequence
from multiprocessing import forkserver
from typing import NoReturn, TextIO

from ironic_virt import exceptions

PROGRAM = "ironic-virt"
# The console script calls the same function; it needs not be on the PATH.
_MODULE = "ironic_virt.cmd.shell"
# Not that module itself: multiprocessing runs the one that the demo was started with again.
_PRELOADED = [
    *("cliff.app", "ironic_virt.cmd.configured", "ironic_virt.compute.db"),
    *("ironic_virt.compute.api", "ironic_virt.conf.database"),
]
_CONTEXT = multiprocessing.get_context("forkserver")
_LOOK_SECONDS = 0.05
# How long an interrupted command may take to end.
_GRACE_SECONDS = 5.0


class DemoFailed(exceptions.IronicVirtError):
    """The demo can't go on; the message is one line for the user."""


class Display:
    """Writes lines for people on a stream."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def note(self, text: str) -> None:
        """Show a note on what is going on."""
        self._stream.write(f"{text}\n")
        self._stream.flush()

    def command(self, line: str) -> None:
        """Show a command that is about to run, as lines that fit into a terminal."""
        lines = textwrap.wrap(line, 72, break_long_words=False, break_on_hyphens=False)
        self.note("\n$ " + " \\\n    ".join(lines))

    def done(self, text: str, seconds: float) -> None:
        """Show that something is done, and how long it took."""
        self.note(f"{text} ({seconds:.1f} s)")


class Commands:
    """Runs ``ironic-virt`` with this process's environment and standard output.

    Making one begins to import what commands need, in the process that they are forked from.

    :ivar meanwhile: is called again and again while a command runs.
    """

    def __init__(self, display: Display) -> None:
        self._display = display
        self.meanwhile: Callable[[], None] = lambda: None
        _CONTEXT.set_forkserver_preload(_PRELOADED)
        forkserver.ensure_running()

    def __call__(self, *argv: str) -> None:
        """Run a command to its end.

        :raises DemoFailed: it failed.
        """
        self._display.command(shlex.join((PROGRAM, *argv)))
        process = _CONTEXT.Process(target=_be_command, args=(argv,), daemon=True)
        try:
            process.start()
            while process.exitcode is None:
                process.join(_LOOK_SECONDS)
                self.meanwhile()
        except BaseException:
            if process.pid is not None:
                os.kill(process.pid, signal.SIGINT)
                process.join(_GRACE_SECONDS)
                process.kill()
            raise
        if code := process.exitcode:
            words = " ".join(argv[:2])
            raise DemoFailed(f"'{PROGRAM} {words}' failed with exit code {code}; see above")


def _be_command(argv: Sequence[str]) -> NoReturn:
    """Run a command in the forked process."""
    # A Ctrl-C is for the demo alone, which then ends this.
    os.setsid()
    os.dup2(1, 2)
    sys.exit(importlib.import_module(_MODULE).main(argv))
