# SPDX-License-Identifier: Apache-2.0

"""How long each part of a lease lasts.

A process may send changes for ``valid`` seconds after it *began* the last renewal that
succeeded, while the lock in the backend lives for ``lock`` seconds after that.  The margin
between the two is for changes that are on their way.

The next holder of a lock in etcd or Redis waits (``settle``) before it sends anything: a request
that has left in time may arrive late, and Redis may lose a lock, which the holder notices only
at its next renewal.  A primary of Redis that has lost its replicas goes on renewing locks for
``min-replicas-max-lag``, while a replica that has become the primary gives them to others.
"""

from __future__ import annotations

import dataclasses
import math
import sys
import threading
import time
from typing import Any


def boottime() -> float:
    """Seconds since the host was booted; a process that is stopped loses none."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def native_threading() -> Any:
    """Python's own threading, also where eventlet has replaced it."""
    patcher = sys.modules.get("eventlet.patcher")
    if patcher is None or not patcher.is_monkey_patched("thread"):
        return threading
    return patcher.original("threading")


@dataclasses.dataclass(frozen=True, slots=True)
class Timing:
    """All in seconds; ``renew`` is the time between two renewals."""

    lock: int
    valid: float
    settle: float
    renew: float

    @property
    def margin(self) -> float:
        """Between the last change that may be sent and the first one of the next holder."""
        return self.lock - self.valid

    @property
    def longest_lag(self) -> int:
        """The largest ``min-replicas-max-lag`` of Redis with which two processes stay apart.

        The replica has got the last renewal, of up to ``renew`` ago.  Redis counts in whole
        seconds, and looks once a second.
        """
        return math.floor(self.settle - self.renew) - 2

    @classmethod
    def of(cls, scheme: str, ttl: int) -> Timing:
        """That of a backend.

        :param scheme: of its URL.
        :param ttl: seconds from the end of a process until another one may take over.
        """
        lock = ttl if scheme == "file" else math.ceil(ttl / 2)
        settle = 0.0 if scheme == "file" else float(lock)
        return cls(lock=lock, valid=lock - ttl / 10, settle=settle, renew=ttl / 10)
