# SPDX-License-Identifier: Apache-2.0

"""Run a command that never outlives the process that asked for it.

The calling process holds the other end of this process' standard input.  When
it closes that or dies, the command's whole process group gets SIGTERM, after a
grace period SIGKILL, and the command's directory is removed.
On SIGUSR1 the group gets SIGKILL at once, and the directory stays.
This process ends with the command's exit status.

Run as ``supervise.py GRACE_SECONDS DIRECTORY_TO_REMOVE COMMAND...``; it needs
nothing but the standard library.
"""

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import threading

PR_SET_PDEATHSIG = 1


_ASKED_BY = {signal.SIGTERM, signal.SIGUSR1}


def _prepare_child() -> None:
    """Let signals come, and die with the supervisor (Linux): the pipe can't do that."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _ASKED_BY)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _signal_group(child: "subprocess.Popen[bytes]", number: signal.Signals) -> None:
    # The group may be gone, or hold only a process that is being reaped.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, number)


def supervise(grace: float, directory: str, command: list[str]) -> int:
    """Run ``command`` until it ends or standard input does; see the module's docstring."""
    # One that comes before its handler is there would end this process, and leave the group.
    signal.pthread_sigmask(signal.SIG_BLOCK, _ASKED_BY)
    child = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=_prepare_child,
    )
    asked_to_stop = threading.Event()

    def stop() -> None:
        asked_to_stop.set()
        _signal_group(child, signal.SIGTERM)
        try:
            child.wait(timeout=grace)
        except subprocess.TimeoutExpired:
            _signal_group(child, signal.SIGKILL)

    def stop_at_end_of_input() -> None:
        while os.read(sys.stdin.fileno(), 4096):
            pass
        stop()

    # In a separate thread, because a handler may interrupt the main thread inside wait().
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=stop).start())
    signal.signal(signal.SIGUSR1, lambda *_: _signal_group(child, signal.SIGKILL))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _ASKED_BY)
    threading.Thread(target=stop_at_end_of_input, daemon=True).start()

    status = child.wait()
    # What the command started must not stay behind when it crashed.
    _signal_group(child, signal.SIGKILL)
    if asked_to_stop.is_set():
        # A crashed command's directory stays for the asking process to read the log in it.
        shutil.rmtree(directory, ignore_errors=True)
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(supervise(float(sys.argv[1]), sys.argv[2], sys.argv[3:]))
