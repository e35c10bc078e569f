# SPDX-License-Identifier: Apache-2.0

"""JSON that is nearly what was promised, and bytes that are no JSON at all.

Most of it is made from a whole document, by a few changes in it: what is random from the
beginning seldom comes past a decoder's first field.
"""

from __future__ import annotations

import contextlib
import copy
import json
import os
import time
from collections.abc import Iterator
from typing import Any

import hypothesis
from hypothesis import Phase
from hypothesis import strategies as st

from tests import depth

EXAMPLES = int(os.environ.get("IRONIC_VIRT_FUZZ_EXAMPLES", "0"))
"""Of each property; 0: a few, always the same."""

LONGEST = 0.5
"""Seconds of the processor's time that an answer may take; looked at with EXAMPLES only."""

FIGURES: list[float] = []
"""What each answer of the test that runs has taken."""

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

_NAMES = st.sampled_from(["", "uuid", "nodes", "next", "version", "node_uuid", "state", "name"])
_TEXTS = st.sampled_from(
    [
        *("", " ", "\x00", "a\nb", "available", "active", "rebooting", "power on", "true", "0"),
        *("-1", "1_000", "** Redacted - requires permission. **", "<html>", "{}", "http://[", "%"),
        *("2026-01-01T00:00:00+00:00", "9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00"),
    ]
) | st.text(max_size=8)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**65), 2**65)
    | st.floats()
    | _TEXTS
    | st.sampled_from([*_RAW])
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES, inner, max_size=3),
    max_leaves=6,
)

settings = hypothesis.settings(
    max_examples=EXAMPLES or depth.choose(30, 1000),
    # The night looks elsewhere each time.
    derandomize=depth.choose(True, nightly=False),
    # What is wrong with an answer can be read from it as it is.
    phases=[Phase.explicit, Phase.generate],
)


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


@st.composite
def documents(draw: st.DrawFn, whole: Any) -> bytes:
    """Bytes of a document in which a few things are wrong.

    :param whole: the document, or bytes that are none.
    """
    kind = draw(st.sampled_from(["changed"] * 6 + ["bytes", "cut", "other"]))
    if kind == "bytes":
        return draw(st.binary(max_size=60))
    if kind == "other":
        return encoded(draw(VALUES))
    changed = {"": copy.deepcopy(whole)}
    if kind == "changed":
        for _ in range(draw(st.integers(1, 3))):
            holder, key = draw(st.sampled_from(list(_places(changed))))
            action = draw(st.sampled_from(["replace", "replace", "replace", "remove", "double"]))
            if action == "replace" or holder is changed:
                holder[key] = draw(VALUES)
            elif action == "remove":
                del holder[key]
            elif isinstance(holder, list):
                holder.append(copy.deepcopy(holder[key]))
            else:
                holder[draw(_NAMES)] = copy.deepcopy(holder[key])
    body = encoded(changed[""])
    return body[: draw(st.integers(0, len(body)))] if kind == "cut" else body


def encoded(document: Any) -> bytes:
    """As JSON, and worse: see :data:`_RAW`."""
    text = json.dumps(document)
    for name, raw in _RAW.items():
        text = text.replace(f'"{name}"', raw)
    return text.encode()


@contextlib.contextmanager
def in_time() -> Iterator[None]:
    """Count an answer, and fail if what is done with it takes the processor too long."""
    began = time.thread_time()
    yield
    took = time.thread_time() - began
    FIGURES.append(took)
    if EXAMPLES:
        assert took <= LONGEST, f"took {took:.2f} s of the processor"
