# SPDX-License-Identifier: Apache-2.0

"""Processes that begin at the same moment, for tests of what happens when they meet."""

import contextlib
import fcntl
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from tests import programs


class Racer:
    """One process.

    :param module: what it runs: ``main`` says ``ready``, and waits at the gate.
    :param arguments: its arguments; the gate comes before them.
    """

    def __init__(self, module: str, *arguments: str) -> None:
        ours, theirs = os.pipe()
        self._said = os.fdopen(ours)
        with os.fdopen(theirs, "w") as out:
            self.process = programs.start(module, *arguments, stdout=out, stderr=out)

    def read_line(self) -> str:
        """What it says next."""
        return self._said.readline().rstrip("\n")

    def to_the_end(self) -> list[str]:
        """What it says until its end, which has to be a good one."""
        said = self._said.read().splitlines()
        assert self.process.wait(programs.SECONDS) == 0, said
        return said

    def kill(self) -> None:
        """End it, if it runs."""
        self.process.kill()
        self.process.wait(programs.SECONDS)
        self._said.close()


@contextlib.contextmanager
def race(directory: Path, module: str, *arguments: tuple[str, ...]) -> Iterator[list[Racer]]:
    """Start a process for each of these, and have them begin; at the end none is left."""
    with contextlib.ExitStack() as stack:
        gate = directory / "gate"
        with gate.open("w") as shut:
            fcntl.flock(shut, fcntl.LOCK_EX)
            racers = []
            for each in arguments:
                racers.append(Racer(module, str(gate), *each))
                stack.callback(racers[-1].kill)
            for racer in racers:
                assert racer.read_line() == "ready"
        yield racers


def begin(gate: str) -> None:
    """In such a process: say that it is ready, and wait until the others are, too."""
    say("ready")
    with open(gate) as file:
        fcntl.flock(file, fcntl.LOCK_SH)


def say(line: str) -> None:
    """In such a process: tell the test, at once, as it may be killed."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
