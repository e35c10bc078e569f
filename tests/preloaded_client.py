# SPDX-License-Identifier: Apache-2.0

"""``python -I -S preloaded_client.py FILE MODULE ARGUMENT...``: a program, as a shell runs it.

What it does is done by a process forked from the one that listens on FILE
(:mod:`tests.preloaded`); the id of that process goes into ``$PID_FILE``.  This here imports
next to nothing, as shells run it often.
"""

import json
import os
import signal
import socket
import sys


def main() -> int:
    """Have it run, and return its exit code as a shell has it."""
    number, module, *argv = sys.argv[1:]
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    wanted = json.dumps([module, argv, dict(os.environ), os.getcwd()]).encode()
    socket.send_fds(socket.socket(fileno=int(number)), [wanted], [1, 2, theirs.fileno()])
    theirs.close()
    pid = int(ours.recv(64))
    if path := os.environ.get("PID_FILE"):
        with open(path, "w", encoding="ascii") as file:
            file.write(f"{pid}\n")
    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(signum, lambda signum, _: os.kill(pid, signum))
    code = int(ours.recv(64))
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())
