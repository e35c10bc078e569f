# SPDX-License-Identifier: Apache-2.0

"""JSON that is nearly what was promised, and bytes that are not JSON at all.

Most of it is made from a whole document, by a few changes in it: what is random from the
beginning seldom comes past a decoder's first field.
"""

from __future__ import annotations

import copy
import datetime
import json
import os
import random
import time
from collections.abc import Callable, Iterator
from typing import Any

from tests import depth

EXAMPLES = int(os.environ.get("IRONIC_VIRT_FUZZ_EXAMPLES", "0"))
"""Of each property; 0: a few, always the same."""

LONGEST = 0.5
"""Seconds of the processor's time that an example may take, but for the first, which imports
modules; looked at with EXAMPLES only."""

# The night looks elsewhere each time.
SEED = depth.choose(0, nightly=datetime.datetime.now(datetime.UTC).toordinal())

_RAW = {
    "@digits": "9" * 5000,
    "@deep": "[" * 3000 + "]" * 3000,
    "@open": "[" * 3000,
    "@huge": "1e999",
    "@nan": "NaN",
    "@half": '"\\ud800"',
    "@long": '"' + "x" * 20_000 + '"',
}
"""What Python's encoder would not write, by the text that stands for it."""

_NAMES = ("", "uuid", "nodes", "next", "version", "node_uuid", "state", "name")
_TEXTS = (
    *("", " ", "\x00", "a\nb", "available", "active", "rebooting", "power on", "true", "0"),
    *("-1", "1_000", "** Redacted - requires permission. **", "<html>", "{}", "http://[", "%"),
    *("2026-01-01T00:00:00+00:00", "9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00"),
)
_NUMBERS = (0.0, -0.0, 0.5, -1.5, 1e-320, 1e308, 2.0**53, float("inf"), float("nan"))
_ODD = '\x00\x1b"\\/<\u00e9\u2028\u202e\ud800\ufffe\U0001f600'
_DEEPEST = 3


class Example(random.Random):
    """One example: it draws what is wrong from a seed, and is timed as a block.

    An error that leaves the block says which example it was, and what was drawn.
    """

    def __init__(self, what: str, number: int) -> None:
        self._what = f"example {number} of {what!r}, seed {SEED}"
        self._is_timed = bool(EXAMPLES and number)
        self._drawn: list[object] = []
        super().__init__(f"{SEED} {what} {number}")

    def __enter__(self) -> Example:
        self._began = time.thread_time()
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        took = time.thread_time() - self._began
        if error is not None:
            drawn = ", ".join(repr(one)[:2000] for one in self._drawn)
            error.add_note(f"{self._what}: {drawn}")
        elif self._is_timed:
            assert took <= LONGEST, f"{self._what}: took {took:.2f} s of the processor"

    def text(self, longest: int = 8, *, below: int = 0x2000) -> str:
        """Return any text, without halves of characters."""
        size = self.randint(0, longest)
        return "".join(chr(self.randrange(below)) for _ in range(size))

    def scalar(self) -> Any:
        """Return what JSON may hold, but lists and objects."""
        return self.choice(
            (
                lambda: None,
                lambda: self.random() < 0.5,
                lambda: self.randint(-(2 ** self.choice((3, 16, 65))), 2 ** self.choice((3, 65))),
                lambda: self.choice((*_NUMBERS, self.uniform(-1e6, 1e6))),
                lambda: self.choice(_TEXTS),
                lambda: self.choice((self.text(), self.choice(_ODD) * self.randint(1, 3))),
                lambda: self.choice(list(_RAW)),
            )
        )()

    def value(self, deep: int = 0) -> Any:
        """Return any JSON."""
        kind = self.randrange(5) if deep < _DEEPEST else 4
        if kind == 0:
            return [self.value(deep + 1) for _ in range(self.randint(0, 3))]
        if kind == 1:
            return {self.choice(_NAMES): self.value(deep + 1) for _ in range(self.randint(0, 3))}
        return self.scalar()

    def but(self, allowed: Callable[[Any], bool]) -> Any:
        """Return any JSON that is not allowed."""
        while allowed(value := self.value()):
            pass
        return self._noted(value)

    def pick(self, values: Any) -> Any:
        """Return one of several values."""
        return self._noted(self.choice(values))

    def document(self, whole: Any) -> bytes:
        """Return the bytes of a document in which a few things are wrong.

        :param whole: the document.
        """
        return self._noted(self._document(whole))

    def _document(self, whole: Any) -> bytes:
        kind = self.choice(["changed"] * 6 + ["bytes", "cut", "other"])
        if kind == "bytes":
            return self.randbytes(self.randint(0, 60))
        if kind == "other":
            return encoded(self.value())
        changed = {"": copy.deepcopy(whole)}
        if kind == "changed":
            for _ in range(self.randint(1, 3)):
                self._change(changed)
        body = encoded(changed[""])
        return body[: self.randint(0, len(body))] if kind == "cut" else body

    def _change(self, whole: dict[str, Any]) -> None:
        holder, key = self.choice(list(_places(whole)))
        action = self.choice(("replace", "replace", "replace", "remove", "double"))
        if action == "replace" or holder is whole:
            holder[key] = self.value()
        elif action == "remove":
            del holder[key]
        elif isinstance(holder, list):
            holder.append(copy.deepcopy(holder[key]))
        else:
            holder[self.choice(_NAMES)] = copy.deepcopy(holder[key])

    def _noted(self, value: Any) -> Any:
        self._drawn.append(value)
        return value


def examples(what: str = "", *, share: int = 1) -> Iterator[Example]:
    """Yield the examples of a property.

    :param share: one of so many, where each takes long.
    """
    count = EXAMPLES or depth.choose(30, 1000)
    for number in range(max(count // share, 10)):
        yield Example(what, number)


def _places(document: Any) -> Iterator[tuple[Any, Any]]:
    """Each container of a document with each of its keys."""
    keys: Any = ()
    if isinstance(document, dict):
        keys = list(document)
    elif isinstance(document, list):
        keys = range(len(document))
    for key in keys:
        yield document, key
        yield from _places(document[key])


def encoded(document: Any) -> bytes:
    """As JSON, and worse: see :data:`_RAW`."""
    text = json.dumps(document)
    for name, raw in _RAW.items():
        text = text.replace(f'"{name}"', raw)
    return text.encode()
