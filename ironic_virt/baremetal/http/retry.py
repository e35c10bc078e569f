# SPDX-License-Identifier: Apache-2.0

"""When a request is sent again: how often, after which pause, until when.

tenacity runs the loop; this module gives it our stop and wait rules with an
injected clock.  Nothing else in the package retries a request.

The bound is for the beginning of a try.  A try that has begun is not cut short: its request
may have been applied.  So a call ends at most one try after the bound, and one look that checks
what the last request has done.  A request within a try, such as a read of the node, is not retried
by itself: the try fails with it, and is repeated as a whole.  Otherwise each try could take
as long as all of them together.
"""

from __future__ import annotations

import collections
import contextlib
import contextvars
import dataclasses
import random
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

import tenacity
from oslo_config import cfg
from oslo_log import log as logging

from ironic_virt import exceptions
from ironic_virt.baremetal.http import answers
from ironic_virt.conf import ironic as ironic_conf

LOG = logging.getLogger(__name__)

T = TypeVar("T")

_GROWTH = 1.5
_LARGEST_INTERVAL_FACTOR = 5
_JITTER = 0.25

# Each thread has a context of its own.
_WITHIN_A_TRY = contextvars.ContextVar("within a try", default=False)
_DEADLINE: contextvars.ContextVar[float | None] = contextvars.ContextVar("deadline", default=None)

_LEAST_TIMEOUT = 1.0


# Without a budget nothing else limits the pause that a server requests.
_LONGEST_ASKED_FOR = 60.0


@contextlib.contextmanager
def hurry(deadline: float) -> Iterator[None]:
    """Try each request of this thread once in the block, none for longer than to a time.

    For what is done by the way, while somebody waits for something else.

    :param deadline: on the clock of :class:`RetryPolicy`.
    """
    tokens = _WITHIN_A_TRY.set(True), _DEADLINE.set(deadline)
    try:
        yield
    finally:
        _WITHIN_A_TRY.reset(tokens[0])
        _DEADLINE.reset(tokens[1])


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
    :param interval: seconds before the second try; grows by half with each
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
        """Seconds after which no further try begins.  0: no bound."""
        return self.max_retries * self.interval

    def timeout(self, usual: float | None) -> float | None:
        """The timeout in seconds for a request that is sent now; ``None``: as ever.

        :param usual: the same where nobody is in a :func:`hurry`.
        """
        deadline = _DEADLINE.get()
        if deadline is None:
            return usual
        remaining = max(deadline - self.clock(), _LEAST_TIMEOUT)
        return remaining if usual is None else min(usual, remaining)

    def delay(self, tries: int, error: BaseException | None = None) -> float:
        """Seconds to wait before the next try.

        :param tries: how many were made.
        :param error: the error of the last one.
        """
        limit = self._limit(error)
        if limit is not None and limit.delay is not None:
            own = max(limit.delay, ironic_conf.SHORTEST_RETRY_INTERVAL)
        else:
            exponent = min(tries - 1, 10)
            grown = min(_GROWTH**exponent, _LARGEST_INTERVAL_FACTOR)
            own = self.interval * grown * self.rng.uniform(1 - _JITTER, 1 + _JITTER)
        asked = getattr(error, "retry_after", None)
        if asked is None:
            return own
        asked = asked if self.budget > 0 else min(asked, _LONGEST_ASKED_FOR)
        # Not before, and not all at the same moment; 0 and a date in the past say nothing.
        return max(float(asked) * self.rng.uniform(1, 1 + _JITTER), own)

    def _limit(self, error: BaseException | None) -> Limit | None:
        if isinstance(error, exceptions.IronicUnreachable):
            return self.connect
        if isinstance(error, exceptions.IronicError) and error.status in self.statuses:
            return self.status
        return None

    def run(self, attempt: Callable[[], T]) -> T:
        """Call ``attempt`` until it returns, or raises an error that will not pass.

        Inside a try of another call it is called once: that try is repeated as a whole.

        :raises IronicError: the last try's error.
        """
        if _WITHIN_A_TRY.get():
            return attempt()
        start = self.clock()
        failed: collections.Counter[int] = collections.Counter()

        def one_try() -> T:
            token = _WITHIN_A_TRY.set(True)
            try:
                return attempt()
            finally:
                _WITHIN_A_TRY.reset(token)

        def stop(state: tenacity.RetryCallState) -> bool:
            if self.max_retries == 0 or (self.budget > 0 and self.clock() - start >= self.budget):
                return True
            limit = self._limit(_error_of(state))
            if limit is None or limit.retries is None:
                return state.attempt_number > self.max_retries
            failed[id(limit)] += 1
            return failed[id(limit)] > limit.retries

        def wait(state: tenacity.RetryCallState) -> float:
            delay = self.delay(state.attempt_number, _error_of(state))
            if self.budget > 0:
                # The last try is made at the end of the budget.
                delay = min(delay, max(start + self.budget - self.clock(), 0.0))
            return delay

        def log(state: tenacity.RetryCallState) -> None:
            error = _error_of(state)
            pause = state.next_action.sleep if state.next_action else 0.0
            LOG.debug("%s; try %d follows in %.1f s", error, state.attempt_number + 1, pause)

        return tenacity.Retrying(
            retry=tenacity.retry_if_exception(
                lambda exc: isinstance(exc, exceptions.IronicError) and answers.is_transient(exc)
            ),
            stop=stop,
            wait=wait,
            sleep=self.sleep,
            before_sleep=log,
            reraise=True,
        )(one_try)


def _error_of(state: tenacity.RetryCallState) -> BaseException | None:
    return state.outcome.exception() if state.outcome else None
