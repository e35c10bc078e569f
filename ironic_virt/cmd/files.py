# SPDX-License-Identifier: Apache-2.0

"""Files that options name."""

from __future__ import annotations

import contextlib
import pathlib
import sys
from collections.abc import Iterator
from typing import TextIO

from ironic_virt.compute.errors import InvalidRequest

STDIN = "-"
LARGEST = 1024 * 1024
"""Characters; what has more was hardly meant."""


@contextlib.contextmanager
def opened(file: str, option: str, stdin: TextIO | None = None) -> Iterator[TextIO]:
    """A file to be read as text.

    :param option: the option that names it, for errors.
    :param stdin: what :data:`STDIN` is; the process's own by default.
    :raises InvalidRequest: it can't be read, or is no text in UTF-8.
    """
    try:
        if file == STDIN:
            yield stdin or sys.stdin
            return
        with pathlib.Path(file).open(encoding="utf-8") as stream:
            yield stream
    except OSError as error:
        raise InvalidRequest(f"{option} {file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"{option} {file}: this is no text in UTF-8") from error


def text(file: str, option: str, stdin: TextIO | None = None) -> str:
    """All that a file has.

    :raises InvalidRequest: as :func:`opened` does, or it is larger than :data:`LARGEST`.
    """
    with opened(file, option, stdin) as stream:
        found = stream.read(LARGEST + 1)
    if len(found) > LARGEST:
        raise InvalidRequest(f"{option} {file}: this has more than {LARGEST} characters")
    return found


def content(file: str, option: str) -> str | bytes:
    """All that a file has: text if it is text in UTF-8, else bytes.

    :raises InvalidRequest: it can't be read, or has more than :data:`LARGEST` bytes.
    """
    try:
        if file == STDIN:
            found = sys.stdin.buffer.read(LARGEST + 1)
        else:
            with pathlib.Path(file).open("rb") as stream:
                found = stream.read(LARGEST + 1)
    except OSError as error:
        raise InvalidRequest(f"{option} {file}: {error.strerror}") from error
    if len(found) > LARGEST:
        raise InvalidRequest(f"{option} {file}: this has more than {LARGEST} bytes")
    try:
        return found.decode()
    except UnicodeDecodeError:
        return found
