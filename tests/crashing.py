# SPDX-License-Identifier: Apache-2.0

"""A process that dies at a request of our choice."""

import threading
from typing import Any

from ironic_virt import exceptions
from ironic_virt.baremetal.http.connection import Answer, Channel


class Crash(BaseException):
    """The process dies here: none of our code runs any more."""


class CrashingChannel:
    """A channel on which the process dies at a given request.

    :param at: the request at which it dies, counted from 1; 0: never.
    :param after: it dies when the request was carried out, not before.
    :param every_poll: count each request of the poller; else the first of several in a row,
        since how many there are says how quick Ironic is.
    """

    def __init__(self, channel: Channel, at: int, after: bool, *, every_poll: bool = True) -> None:
        self._channel = channel
        self._at = at
        self._after = after
        self._every_poll = every_poll
        self._polled = False
        self._lock = threading.Lock()
        self.sent = 0
        self.dead = False
        self.died_at = ""

    def send(self, method: str, path: str, **request: Any) -> Answer:
        polls = _is_poller()
        with self._lock:
            counts = self._every_poll or not (polls and self._polled)
            self._polled = polls
            self.sent += counts
            dies = counts and self.sent == self._at
        if dies or self.dead:
            self.died_at = self.died_at or f"{method} {path}"
            if dies and self._after:
                self._channel.send(method, path, **request)
            self.dead = True
            self.check()
        return self._channel.send(method, path, **request)

    def die_at(self, at: int) -> None:
        """Die at a request, counted from now on."""
        with self._lock:
            self._at = self.sent + at

    def check(self) -> None:
        """Die, in any of our threads but the poller's, which just goes silent."""
        if not self.dead:
            return
        if _is_poller():
            raise exceptions.IronicUnreachable("the process is dead")
        raise Crash(self.died_at)


def _is_poller() -> bool:
    return threading.current_thread().name == "ironic-virt-watcher"
