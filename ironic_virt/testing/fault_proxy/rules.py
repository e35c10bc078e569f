# SPDX-License-Identifier: Apache-2.0

"""Rules: which fault strikes which request.

No thread and no socket is needed: :meth:`Rules.carry_out` takes a function that sends requests.
"""

import random
import re
import threading
from collections.abc import Callable, Iterator

from ironic_virt.testing.fault_proxy.exchange import Reply, Request
from ironic_virt.testing.fault_proxy.faults import Fault


class Rule:
    """One fault and the requests that it strikes.  Thread-safe.

    Conditions are applied in this order: ``method``, ``path`` and ``when`` say which
    requests match; the first ``after`` matches are spared; of the others each ``every``-th
    is struck, or each one with the probability ``rate``; after ``times`` hits none is.

    :param fault: what happens to the request.
    :param method: regular expression that the whole method matches.
    :param path: regular expression that is found in the path with its query.
    :param when: if given, requests match only if it is true for them.
    :param after: how many matches are spared first.
    :param every: 3 strikes the third match, the sixth, and so on.
    :param rate: from 0 to 1.
    :param seed: of ``rate``; the same seed strikes the same matches, counted in the order in
        which they come.
    :param times: how many requests are struck at most; None: no limit.
    :raises ValueError: if a number is out of its range.
    :ivar matches: how many requests have matched.
    :ivar hits: how many have been struck.
    """

    def __init__(
        self,
        fault: Fault,
        method: str = ".*",
        path: str = "",
        *,
        when: Callable[[Request], bool] | None = None,
        after: int = 0,
        every: int = 1,
        rate: float = 1.0,
        seed: int = 0,
        times: int | None = None,
    ) -> None:
        if after < 0 or every < 1 or not 0 <= rate <= 1 or (times is not None and times < 0):
            raise ValueError("after and times start at 0, every at 1, and rate is from 0 to 1")
        self.fault = fault
        self.matches = 0
        self.hits = 0
        self._method = re.compile(method)
        self._path = re.compile(path)
        self._when = when
        self._after = after
        self._every = every
        self._rate = rate
        self._random = random.Random(seed)
        self._times = times
        self._changed = threading.Condition()

    def strikes(self, request: Request) -> bool:
        """Whether it strikes this request; counts the match."""
        if not self._method.fullmatch(request.method) or not self._path.search(request.path):
            return False
        if self._when is not None and not self._when(request):
            return False
        with self._changed:
            self.matches += 1
            number = self.matches - self._after
            if number < 1 or number % self._every or self._random.random() >= self._rate:
                return False
            if self._times is not None and self.hits >= self._times:
                return False
            self.hits += 1
            self._changed.notify_all()
            return True

    def wait(self, hits: int = 1, timeout: float = 60) -> bool:
        """Wait until so many requests have been struck.

        :param timeout: in seconds.
        :returns: whether they have.
        """
        with self._changed:
            return self._changed.wait_for(lambda: self.hits >= hits, timeout)


class Rules:
    """Rules in the order in which they were added.  Thread-safe."""

    def __init__(self) -> None:
        self._rules: list[Rule] = []
        self._lock = threading.Lock()

    def __iter__(self) -> Iterator[Rule]:
        with self._lock:
            return iter(list(self._rules))

    def add(self, rule: Rule) -> Rule:
        with self._lock:
            self._rules.append(rule)
        return rule

    def remove(self, rule: Rule) -> None:
        """Forget a rule.  Requests that hang by it are released.

        :raises ValueError: if it is not there.
        """
        with self._lock:
            self._rules.remove(rule)
        rule.fault.release()

    def clear(self) -> None:
        """Forget all rules.  Requests that hang are released."""
        for rule in self:
            self.remove(rule)

    def carry_out(
        self,
        request: Request,
        send: Callable[[Request], Reply],
        struck: Callable[[Fault], None] = lambda fault: None,
    ) -> Reply:
        """Send a request on through all faults that strike it.

        The rule that was added first is next to the client.  A rule is asked only when the
        request gets to it, so what a former one has answered counts as no match.

        :param send: gets the request once it is through.
        :param struck: called with each fault before it acts.
        :raises Closing: if the proxy closes meanwhile.
        """
        rest = iter(self)

        def pass_on(request: Request) -> Reply:
            for rule in rest:
                if rule.strikes(request):
                    struck(rule.fault)
                    return rule.fault.act(request, pass_on)
            return send(request)

        return pass_on(request)
