# SPDX-License-Identifier: Apache-2.0

"""When a request is sent again: how often, after which pause, until when.

The bound is for the beginning of a try.  A try that has begun is not cut short: its request
may have been applied.  So a call ends at most one try after the bound, and one look that checks
what the last request has done.
"""

from __future__ import annotations

import collections
import dataclasses
import random
import time
from collections.abc import Callable

from oslo_config import cfg

from ironic_virt import exceptions
from ironic_virt.baremetal.http import answers
from ironic_virt.conf import ironic as ironic_conf

_GROWTH = 1.5
_LARGEST_INTERVAL_FACTOR = 5
_JITTER = 0.25


@dataclasses.dataclass(frozen=True)
class Limit:
    """How a request is retried after errors of one kind.

    :param retries: at most so many; ``None``: as after other errors.
    :param delay: seconds before each; ``None``: as after other errors.
    """

    retries: int | None = None
    delay: float | None = None


@dataclasses.dataclass(frozen=True)
class RetryPolicy:
    """How a request is retried.  Thread-safe.

    :param max_retries: further tries after the first one.
    :param interval: seconds, more than 0, before the second try; grows by half with each
        further one up to five times itself, give or take a quarter.
    :param clock: a monotonic clock in seconds.
    :param sleep: sleeps for a number of seconds.
    :param rng: the source of jitter.
    :param connect: the limit after no answer.
    :param status: the limit after an answer with one of ``statuses``.
    :param statuses: HTTP statuses.
    """

    max_retries: int = 60
    interval: float = 2.0
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    rng: random.Random = dataclasses.field(default_factory=random.Random)
    connect: Limit = Limit()
    status: Limit = Limit()
    statuses: frozenset[int] = answers.TRANSIENT_STATUSES

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts) -> RetryPolicy:
        """The policy of ``api_max_retries``, ``api_retry_interval`` and the adapter's options."""
        group = conf.ironic
        return cls(
            group.api_max_retries,
            ironic_conf.retry_interval(conf),
            connect=Limit(group.connect_retries, group.connect_retry_delay),
            status=Limit(group.status_code_retries, group.status_code_retry_delay),
            statuses=frozenset(group.retriable_status_codes or answers.TRANSIENT_STATUSES),
        )

    @property
    def budget(self) -> float:
        """Seconds after which no further try begins."""
        return self.max_retries * self.interval

    def limit(self, error: exceptions.IronicError) -> Limit | None:
        """The limit after an error, if it is of a kind that has one."""
        if isinstance(error, exceptions.IronicUnreachable):
            return self.connect
        return self.status if error.status in self.statuses else None

    def delay(self, tries: int, error: exceptions.IronicError) -> float:
        """Seconds to wait before the next try.

        :param tries: how many were made.
        :param error: the error of the last one.
        """
        limit = self.limit(error)
        if limit is not None and limit.delay is not None:
            own = max(limit.delay, ironic_conf.SHORTEST_RETRY_INTERVAL)
        else:
            exponent = min(tries - 1, 10)
            grown = min(_GROWTH**exponent, _LARGEST_INTERVAL_FACTOR)
            own = self.interval * grown * self.rng.uniform(1 - _JITTER, 1 + _JITTER)
        requested = error.retry_after
        if requested is None:
            return own
        # Not before, and not all at the same moment; 0 and a date in the past say nothing.
        return max(float(requested) * self.rng.uniform(1, 1 + _JITTER), own)


class Failures:
    """The failures of one call.

    :param began: when its first try did, on the policy's clock.
    """

    def __init__(self, policy: RetryPolicy, began: float) -> None:
        self.tries = 0
        self._policy = policy
        self._began = began
        self._limited: collections.Counter[int] = collections.Counter()

    def pause(self, error: exceptions.IronicError) -> float | None:
        """Seconds to wait after one more failure; ``None``: its error is the call's."""
        policy = self._policy
        self.tries += 1
        if not answers.is_transient(error) or policy.max_retries == 0:
            return None
        remaining = self._began + policy.budget - policy.clock()
        if remaining <= 0:
            return None
        limit = policy.limit(error)
        if limit is None or limit.retries is None:
            if self.tries > policy.max_retries:
                return None
        else:
            self._limited[id(limit)] += 1
            if self._limited[id(limit)] > limit.retries:
                return None
        delay = policy.delay(self.tries, error)
        # The last try is made at the end of the budget.
        return min(delay, remaining)
