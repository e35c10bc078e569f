# SPDX-License-Identifier: Apache-2.0

"""Faults: what goes wrong with which request.

A fault matches requests by method and path and strikes from the ``nth`` match
on, ``count`` times.  What it does depends on its kind:

========== ==================================================================
delay      the request is carried out ``seconds`` later
status     the request is not carried out; the answer is ``status``
reset      the request is not carried out; the connection is reset
hang       the request is not carried out; no answer ever comes
lost       the request is carried out; the connection is reset instead of an
           answer
truncate   the request is carried out; the answer breaks off in its middle
========== ==================================================================

In process, reset and lost are ``requests.ConnectionError``, hang is
``requests.ReadTimeout``, and a delay moves a virtual clock.
"""

import dataclasses
import re
import threading
from collections.abc import Callable
from typing import Any

from ironic_virt.testing.fake_ironic import errors


@dataclasses.dataclass(slots=True, eq=False)
class Fault:
    """One rule; made by the methods of :class:`Faults`.

    :ivar method: regular expression that the whole method matches.
    :ivar path: regular expression that is found in the path.
    :ivar nth: the first match that is struck, counted from 1.
    :ivar count: how many matches are struck; None: all from the nth on.
    :ivar when: if given, called with method, path and the parsed body; only
        requests for which it is true count as matches.
    :ivar matches: how many requests have matched.
    :ivar hits: how many have been struck.
    """

    kind: str
    method: str
    path: str
    nth: int = 1
    count: int | None = 1
    when: Callable[[str, str, Any], bool] | None = None
    seconds: float = 0.0
    status: int = 0
    body: Any = None
    headers: dict[str, str] = dataclasses.field(default_factory=dict)
    matches: int = 0
    hits: int = 0

    def strikes(self, method: str, path: str, body: Any) -> bool:
        """Whether it strikes this request; counts the match."""
        if not re.fullmatch(self.method, method) or not re.search(self.path, path):
            return False
        if self.when is not None and not self.when(method, path, body):
            return False
        self.matches += 1
        if self.matches < self.nth:
            return False
        if self.count is not None and self.hits >= self.count:
            return False
        self.hits += 1
        return True

    def answer_body(self) -> bytes:
        """The body of a ``status`` fault; by default an error in Ironic's shape."""
        return errors.injected_body(self.status, self.body)


class Faults:
    """The faults of one fake Ironic.

    Every method that makes one takes ``method`` and ``path`` (regular
    expressions), and ``nth``, ``count`` and ``when`` of :class:`Fault`, and
    returns the rule, whose ``hits`` tells how often it struck.
    """

    def __init__(self) -> None:
        self._rules: list[Fault] = []
        self._lock = threading.Lock()

    def add(self, fault: Fault) -> Fault:
        with self._lock:
            self._rules.append(fault)
        return fault

    def clear(self) -> None:
        """Forget all faults; those that are under way go on."""
        with self._lock:
            self._rules.clear()

    def delay(self, seconds: float, method: str = ".*", path: str = "", **rule: Any) -> Fault:
        return self.add(Fault("delay", method, path, seconds=seconds, **rule))

    def status(
        self, status: int, method: str = ".*", path: str = "", body: Any = None, **rule: Any
    ) -> Fault:
        """:param body: text of Ironic's error, or JSON, or bytes; may be left out."""
        return self.add(Fault("status", method, path, status=status, body=body, **rule))

    def reset(self, method: str = ".*", path: str = "", **rule: Any) -> Fault:
        return self.add(Fault("reset", method, path, **rule))

    def hang(self, method: str = ".*", path: str = "", **rule: Any) -> Fault:
        return self.add(Fault("hang", method, path, **rule))

    def lose_reply(self, method: str = ".*", path: str = "", **rule: Any) -> Fault:
        return self.add(Fault("lost", method, path, **rule))

    def truncate(self, method: str = ".*", path: str = "", **rule: Any) -> Fault:
        return self.add(Fault("truncate", method, path, **rule))

    def find(self, method: str, path: str, body: Any) -> Fault | None:
        """The first rule that strikes this request."""
        with self._lock:
            for rule in self._rules:
                if rule.strikes(method, path, body):
                    return rule
        return None
