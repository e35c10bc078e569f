# SPDX-License-Identifier: Apache-2.0

"""A side of a benchmark for tests: answers, prints, and fails when told to."""

from __future__ import annotations

import os
import pathlib
import sys


class Echo:
    """Answers with what it was made with."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.calls = 0

    def answer(self) -> dict[str, object]:
        self.calls += 1
        sys.stdout.write("this is no answer\n")
        return {"text": self.text, "calls": self.calls, "pid": os.getpid()}

    def add(self, number: int, more: dict[str, int]) -> int:
        return number + more["number"]

    def fail(self) -> None:
        raise RuntimeError("what went wrong")

    def leave(self) -> None:
        sys.exit("had to go")

    def close(self) -> None:
        if self.text.endswith(".closed"):
            pathlib.Path(self.text).touch()
