# SPDX-License-Identifier: Apache-2.0

"""Ports for servers that can't choose a free one themselves."""

import contextlib
import socket
from collections.abc import Iterator


@contextlib.contextmanager
def reserved_port() -> Iterator[int]:
    """Reserve a port of the loopback; a server with ``SO_REUSEADDR`` can still listen there."""
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]
