# SPDX-License-Identifier: Apache-2.0

"""How long each part of a lease lasts.

A process may send changes for ``valid`` seconds after it *began* the last renewal that
succeeded, while the lock in the backend lives for ``lock`` seconds after that.  The margin
between the two is for changes that are on their way.

The next holder of a lock in etcd or Redis waits (``settle``) before it sends anything, for two
reasons.  For the same time to take over, the lock lives half as long.

* A request that has left in time may arrive late, when a proxy or a listener has kept it.
* Redis may lose a lock: it restarts without it, or a replica takes over that has not got it
  yet.  The former holder then learns of it only with its next renewal.  etcd loses none.
* A primary of Redis that has lost its replicas goes on renewing locks for
  ``min-replicas-max-lag``, while a replica that has become the primary gives them to others.

Pure.
"""

from __future__ import annotations

import dataclasses
import math

LEAST_TTL = 5
"""Seconds; below it a margin would be shorter than a request."""

_OF_ONE_HOST = frozenset({"file"})


@dataclasses.dataclass(frozen=True, slots=True)
class Timing:
    """All in seconds.

    :ivar lock: how long the lock lives in the backend without being renewed.
    :ivar valid: how long changes may be sent after a renewal was begun.
    :ivar settle: how long a new holder waits.
    :ivar renew: between two renewals.
    """

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
        tenth = ttl / 10
        settles = scheme not in _OF_ONE_HOST
        lock = math.ceil(ttl / 2) if settles else ttl
        settle = float(lock) if settles else 0.0
        return cls(lock=lock, valid=lock - tenth, settle=settle, renew=tenth)
