# SPDX-License-Identifier: Apache-2.0

"""What others have written, made fit for a line of a log and for an error."""

from __future__ import annotations

import re

LONGEST = 500

LONGEST_REASON = 4000
"""Of what a conductor says of a failure, which may hold the output of a command."""

# What moves the cursor, ends a line, or turns the direction of what follows.
_CONTROL = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]+"
)


def plain(text: str, longest: int = LONGEST) -> str:
    """A text as one line of a bounded length, without control characters.

    :param longest: in characters.
    """
    cut = text[: longest * 2]
    words = _CONTROL.sub(" ", cut).strip()
    if len(words) <= longest and len(cut) == len(text):
        return words
    end = f"... ({len(text)} characters)"
    return words[: longest - len(end)].rstrip() + end


def reason(text: str | None) -> str | None:
    """What a conductor says of a failure, likewise."""
    return None if text is None else plain(text, LONGEST_REASON)
