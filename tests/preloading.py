# SPDX-License-Identifier: Apache-2.0

"""Commands without the wait for their imports, for tests that run many of them.

A process imports once what commands need, and then forks for each that comes.  What it
forks is its own process, in its own session, with the arguments, environment,
directory and output that the caller wants, as if it had been started afresh.

A request is one message on the socket that is the process's standard input: JSON, with
three files: standard output, standard error, and a socket for the answer.  The answer is a
message with the process id, and at the end one with the exit code, or the negative number
of the signal that killed it.  The process ends when nobody holds the other end of its
standard input, so it does not outlive its caller.
"""

import atexit
import contextlib
import gc
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NoReturn, TextIO

from cliff.help import HelpCommand

COMMANDS = "ironic_virt.cmd.shell"
"""The module of ``ironic-virt``."""

_IMPORTED = (
    COMMANDS,
    "ironic_virt.compute.db",
    "ironic_virt.compute.api",
    "ironic_virt.conf.database",
    # What only the first table and the first look into the records import.
    *("cliff.lister", "cliff.show", "ironic_virt.cmd.output"),
    *(f"cliff.formatters.{name}" for name in ("json_format", "table", "value", "yaml_format")),
    "sqlalchemy.dialects.sqlite",
)
_LONGEST = 1 << 17
_ENDED = "the process that starts commands has ended"


class Started:
    """A command that was started: what is used of a :class:`subprocess.Popen`.

    :ivar pid: its process, and the group and session of it.
    :ivar returncode: ``None`` while it runs, as far as anybody has looked.
    """

    def __init__(self, answer: socket.socket) -> None:
        self._answer = answer
        self.returncode: int | None = None
        self.pid = int(answer.recv(_LONGEST) or 0)
        if not self.pid:
            answer.close()
            raise ChildProcessError(_ENDED)

    def poll(self) -> int | None:
        """Its exit code; ``None``: it runs."""
        with contextlib.suppress(BlockingIOError, subprocess.TimeoutExpired):
            return self.wait(0)
        return None

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end, and return its exit code.

        :raises subprocess.TimeoutExpired: it took longer.
        """
        if self.returncode is None:
            self._answer.settimeout(timeout)
            try:
                told = self._answer.recv(_LONGEST)
            except TimeoutError as error:
                raise subprocess.TimeoutExpired(COMMANDS, timeout or 0) from error
            # Nobody is left to tell only when both were killed.
            self.returncode = int(told) if told else -signal.SIGKILL
            self._answer.close()
        return self.returncode

    def send_signal(self, signum: signal.Signals) -> None:
        """Send it a signal, if it runs."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signum)

    def terminate(self) -> None:
        """Send it SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send it SIGKILL."""
        self.send_signal(signal.SIGKILL)


class Preloaded:
    """The process that starts commands.

    :param further: modules that it imports in addition to those that ``ironic-virt`` needs.
    :param tree: the checkout that has the programs; by default this one.
    """

    def __init__(self, further: Sequence[str] = (), tree: Path | None = None) -> None:
        self.channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, *further],
                stdin=theirs.fileno(),
                # Where this package is found.
                cwd=tree or Path(__file__).parents[1],
                # A Ctrl-C is for its caller alone.
                start_new_session=True,
            )

    def close(self) -> None:
        """End it.  Commands that run go on."""
        with contextlib.suppress(OSError):
            # Whoever else has the channel open does not keep it.
            self.channel.shutdown(socket.SHUT_RDWR)
        self.channel.close()
        self._process.wait()

    def start(
        self,
        argv: Sequence[str],
        *,
        stdout: IO[Any],
        stderr: IO[Any],
        environ: Mapping[str, str],
        module: str = COMMANDS,
    ) -> Started:
        """Start a command, with an empty standard input.

        :param module: what runs it with ``python -m``.
        :raises ChildProcessError: the process that starts commands has ended.
        """
        wanted = json.dumps([module, list(argv), dict(environ), os.getcwd()]).encode()
        answer, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            files = [stdout.fileno(), stderr.fileno(), theirs.fileno()]
            try:
                socket.send_fds(self.channel, [wanted], files)
            except OSError as error:
                answer.close()
                raise ChildProcessError(_ENDED) from error
        return Started(answer)


def serve(further: Sequence[str]) -> None:
    """Start what is asked for on standard input, until that ends."""
    gc.disable()
    for name in (*_IMPORTED, *further):
        importlib.import_module(name)
    # cliff keeps what it then reads of each package that is installed.
    HelpCommand(None, None).get_epilog()  # type: ignore[arg-type]
    # Else the first look at all of that would copy it in each new process.
    gc.freeze()
    gc.enable()
    channel = socket.socket(fileno=os.dup(0))
    answers: dict[int, socket.socket] = {}

    def tell(*_: object) -> None:
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                with answers.pop(ended[0]) as answer, contextlib.suppress(OSError):
                    answer.send(str(os.waitstatus_to_exitcode(ended[1])).encode())

    signal.signal(signal.SIGCHLD, tell)
    while True:
        request, files, *_ = socket.recv_fds(channel, _LONGEST, 3)
        if not request:
            return
        # No child may end before it is known who gets its exit status.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
        answer = socket.socket(fileno=files.pop())
        if pid := os.fork():
            answers[pid] = answer
            for file in files:
                os.close(file)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
            continue
        for other in (channel, *answers.values()):
            other.close()
        answers.clear()
        _become(answer, files, *json.loads(request))


def _become(
    answer: socket.socket,
    files: list[int],
    module: str,
    argv: list[str],
    environ: dict[str, str],
    directory: str,
) -> NoReturn:
    """Be a process that has just been started."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
    os.setsid()
    for number, file in enumerate((os.open(os.devnull, os.O_RDONLY), *files)):
        os.dup2(file, number)
        os.close(file)
    sys.stdin = open(0, encoding=sys.stdin.encoding, closefd=False)  # noqa: SIM115
    sys.stdout = _stream(1, sys.stdout)
    sys.stderr = _stream(2, sys.stderr)
    os.environ.clear()
    os.environ.update(environ)
    os.chdir(directory)
    sys.argv = [module, *argv]
    with answer:
        answer.send(str(os.getpid()).encode())
    _end(importlib.import_module(module).main, argv)


def _end(main: Callable[[list[str]], int | None], argv: list[str]) -> NoReturn:
    """Run a program, and exit without the slow teardown of all imported modules."""
    try:
        code: Any = main(argv)
    except SystemExit as ended:
        code = ended.code
    if code is not None and not isinstance(code, int):
        sys.exit(code)
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code or 0)


def _stream(number: int, like: TextIO) -> TextIO:
    """A standard stream as Python makes it: by the line on a terminal, else by the block."""
    buffering = 1 if number == 2 else -1
    return open(number, "w", buffering, encoding=like.encoding, errors=like.errors, closefd=False)


if __name__ == "__main__":
    serve(sys.argv[1:])
