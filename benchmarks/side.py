# SPDX-License-Identifier: Apache-2.0

"""One side of a benchmark in its own process.

Neither side's imports, garbage or threads are then in the other's figures.  The
process makes an object of the class that it is given, calls the methods that it
is asked for, and answers with what they return: a line of JSON each way.

The server that both sides talk to is best run so as well.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import subprocess
import sys
import tempfile
from types import TracebackType
from typing import Any, Self


class SideFailed(Exception):
    """The process ended, or a method raised; the text holds the end of its output."""


class Side:
    """A side's process, as seen by the benchmark.

    :param target: ``package.module:Class``; its ``close()``, if it has one, is called
        at the end.
    :param python: the interpreter; ours by default.
    :param arguments: what the class is called with; JSON-able.
    """

    def __init__(self, target: str, *, python: str = sys.executable, **arguments: Any) -> None:
        self._output = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed in __exit__
        self._process = subprocess.Popen(
            [python, "-m", "benchmarks.side", target, json.dumps(arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._output,
            text=True,
        )
        self.target = target

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._output.close()

    def call(self, method: str, *arguments: Any) -> Any:
        """Call a method of the object over there.

        :param arguments: JSON-able.
        :raises SideFailed: it could not be made, or the method raised.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        # If the process has ended, what it said then is read below.
        with contextlib.suppress(BrokenPipeError):
            print(json.dumps([method, *arguments]), file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        if not answer:
            # Its last words may come after the end of its answers.
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(10)
            self._output.seek(0)
            raise SideFailed(f"{self.target} failed:\n{self._output.read()[-3000:]}")
        return json.loads(answer)


def main(target: str, arguments: str) -> None:
    """Serve one side, until standard input ends."""
    # Other output must not be taken for an answer.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    module, _, name = target.partition(":")
    side = getattr(importlib.import_module(module), name)(**json.loads(arguments))
    for line in sys.stdin:
        method, *given = json.loads(line)
        result = getattr(side, method)(*given)
        print(json.dumps(result), file=answers, flush=True)
    if hasattr(side, "close"):
        side.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
