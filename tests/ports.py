# SPDX-License-Identifier: Apache-2.0

"""Ports for servers that must be told one."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator


@contextlib.contextmanager
def reserved_port() -> Iterator[int]:
    """A port of the loopback that is given to nobody else as long as the block runs.

    A server that sets ``SO_REUSEADDR``, as most do, can listen there all the same.
    """
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]
