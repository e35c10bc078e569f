# SPDX-License-Identifier: Apache-2.0

"""What something costs this process: processor time, time on the wall, traffic, memory."""

from __future__ import annotations

import gc
import hashlib
import json
import socket
import time
import tracemalloc
from collections.abc import Callable
from typing import Any


def times(action: Callable[[], Any]) -> dict[str, float]:
    """Seconds that an action takes.

    :returns: ``client_cpu``, user and system time of all of this process's threads,
        and ``wall``.
    """
    gc.collect()
    wall, processor = time.perf_counter(), time.process_time()
    result = action()
    processor, wall = time.process_time() - processor, time.perf_counter() - wall
    del result  # Not before the clocks have been read.
    return {"client_cpu": processor, "wall": wall}


class Traffic:
    """Counts what this process receives over sockets, from when it is made, for good.

    Of what is read by way of a file of the socket, as ``http.client`` does: headers
    and bodies, as they come over the wire.

    :ivar received: bytes so far.
    """

    def __init__(self) -> None:
        self.received = 0
        # Any, as mypy lets no method be replaced.
        socket_class: Any = socket.socket
        receive = socket_class.recv_into

        def counted(connection: socket.socket, *args: Any, **kwargs: Any) -> int:
            size: int = receive(connection, *args, **kwargs)
            self.received += size
            return size

        socket_class.recv_into = counted

    def during(self, action: Callable[[], Any]) -> dict[str, float]:
        """What :func:`times` says of an action, and the ``bytes`` received."""
        before = self.received
        found = times(action)
        return found | {"bytes": float(self.received - before)}


def traced(action: Callable[[], Any]) -> float:
    """Bytes that what an action returns keeps alive, with all that it left elsewhere.

    As tracemalloc counts them: every block that Python allocates, also for
    objects of extension types.
    """
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        result = action()
        gc.collect()
        after = tracemalloc.get_traced_memory()[0]
        del result
    finally:
        tracemalloc.stop()
    return after - before


def resident(action: Callable[[], Any]) -> float:
    """Bytes that this process grows by while it holds what an action returns.

    Coarser than :func:`traced`: what was needed in passing and has not gone back
    to the system is in it, and what could be reused from before is not.
    """
    import psutil

    gc.collect()
    process = psutil.Process()
    before = process.memory_info().rss
    result = action()
    gc.collect()
    after = process.memory_info().rss
    del result
    return float(after - before)


def digest(value: Any) -> str:
    """A short text that is the same for equal JSON-able values only."""
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()
