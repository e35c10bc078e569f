# SPDX-License-Identifier: Apache-2.0

"""Typing commands: each is shown, and run as a process of its own, as a user's shell does.

Most of what a command takes are its imports.  So one process imports what commands need, and
each command is forked from it (``forkserver`` of :mod:`multiprocessing`).
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import shlex
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from multiprocessing import forkserver, util
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from typing import NoReturn, TextIO

from ironic_virt.cmd.demo.interrupts import DemoFailed, Interrupts
from ironic_virt.cmd.progress import Display

PROGRAM = "ironic-virt"
ENVIRONMENT = "IRONIC_VIRT_CONFIG_FILE"
# The console script calls the same function; it needs not be on the PATH.
_MODULE = "ironic_virt.cmd.shell"
# Not that module itself: multiprocessing runs the one that the demo was started with again.
_PRELOADED = [
    "cliff.app",
    "ironic_virt.cmd.configured",
    "ironic_virt.compute.db",
    "ironic_virt.cmd.progress",
    "ironic_virt.compute.api",
    "ironic_virt.conf.database",
]
_CONTEXT = multiprocessing.get_context("forkserver")
# How long an interrupted command may take to end, in seconds.
_GRACE = 5.0


def preload(interrupts: Interrupts) -> None:
    """Begin to import what commands need, in the process that they are forked from."""
    directory = util.get_temp_dir()
    interrupts.before_leaving(lambda: shutil.rmtree(directory, ignore_errors=True))
    _CONTEXT.set_forkserver_preload(_PRELOADED)
    forkserver.ensure_running()


class Commands:
    """Runs ``ironic-virt``.  In the main thread only.

    :param stream: where commands write, both what they print and their progress.
    :param environ: with the ini file that they read, in :data:`ENVIRONMENT`.
    :param meanwhile: is called again and again while a command runs.
    """

    def __init__(
        self,
        display: Display,
        interrupts: Interrupts,
        stream: TextIO,
        environ: Mapping[str, str],
        *,
        meanwhile: Callable[[], None] = lambda: None,
    ) -> None:
        self._display = display
        self._interrupts = interrupts
        self._stream = stream
        self._environ = dict(environ)
        self._meanwhile = meanwhile

    def __call__(self, *argv: str) -> None:
        """Run a command to its end.

        :raises DemoFailed: it failed.
        :raises Interrupted: a signal came; the command has ended by then.
        """
        line = shlex.join((PROGRAM, *argv))
        self._display.command(line)
        self._stream.flush()
        # A connection is what a file can be handed over as.
        output = Connection(os.dup(self._stream.fileno()), readable=False)
        process = _CONTEXT.Process(target=_be_command, args=(argv, output, self._environ))
        process.start()
        self._interrupts.before_leaving(process.kill)
        try:
            while process.exitcode is None:
                self._meanwhile()
                self._interrupts.sleep(0.05)
        except BaseException:
            _end(process)
            self._display.hand_back()
            raise
        if process.exitcode:
            words = " ".join(argv[:2])
            raise DemoFailed(
                f"'{PROGRAM} {words}' failed with exit code {process.exitcode}; see above"
            )


def _be_command(argv: Sequence[str], output: Connection, environ: Mapping[str, str]) -> NoReturn:
    """Run in the process of its own."""
    # A Ctrl-C is for the demo alone, which then ends this.
    os.setsid()
    for number in (1, 2):
        os.dup2(output.fileno(), number)
    output.close()
    os.environ.clear()
    os.environ.update(environ)
    sys.stdout = open(1, "w", encoding=sys.stdout.encoding, closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", 1, encoding=sys.stderr.encoding, closefd=False)  # noqa: SIM115
    sys.exit(importlib.import_module(_MODULE).main(argv))


def _end(process: ForkServerProcess) -> None:
    process.terminate()
    process.join(_GRACE)
    if process.exitcode is None:
        process.kill()
        process.join()
