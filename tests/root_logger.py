# SPDX-License-Identifier: Apache-2.0

"""The root logger as it was, around a command that runs in a test's own process."""

import contextlib
import logging
from collections.abc import Iterator


@contextlib.contextmanager
def kept() -> Iterator[None]:
    """Take the handlers and the level away again that are set in this block."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    try:
        yield
    finally:
        for handler in set(root.handlers) - set(handlers):
            root.removeHandler(handler)
        root.setLevel(level)
