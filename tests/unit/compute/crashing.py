# SPDX-License-Identifier: Apache-2.0

"""A process that dies at a call of our choice: to its records, or to Ironic."""

from __future__ import annotations

from typing import Any

from ironic_virt.baremetal.connection import Answer, Channel
from tests.crashing import CrashingChannel

PARTS = (
    "services",
    "compute_nodes",
    "pools",
    "claims",
    "instances",
    "actions",
    "faults",
    "candidates",
    "questions",
)


class Death:
    """When a process dies, and whether it has.

    It dies before a call; to die after one is to die before the next.

    :param at: the call at which it dies, counted from 1 after :meth:`begin`.
    """

    def __init__(self, at: int) -> None:
        self._at = at
        self._calls = 0
        self._channel: CrashingChannel | None = None

    def begin(self, channel: CrashingChannel) -> None:
        """Count calls from now on, those of this channel as well."""
        self._channel = channel
        channel._channel = _CountedChannel(channel._channel, self)

    def call(self, name: str, method: Any, *args: Any, **kwargs: Any) -> Any:
        """Do it, or die."""
        if self._channel is not None:
            self._channel.check()
            self._calls += 1
            if self._calls == self._at:
                self._channel.died_at = name
                self._channel.dead = True
                self._channel.check()
        return method(*args, **kwargs)


class _CountedChannel:
    def __init__(self, channel: Channel, death: Death) -> None:
        self._channel = channel
        self._death = death

    def send(self, method: str, path: str, **request: Any) -> Answer:
        send = self._channel.send
        answer: Answer = self._death.call(f"{method} {path}", send, method, path, **request)
        return answer


class CrashingRecords:
    """Records at a call to which the process dies; the rest is theirs."""

    def __init__(self, database: Any, death: Death) -> None:
        self._database = database
        for part in PARTS:
            if hasattr(database, part):
                setattr(self, part, _Part(part, getattr(database, part), death))


class _Part:
    def __init__(self, name: str, part: Any, death: Death) -> None:
        self._name = name
        self._part = part
        self._death = death

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._part, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            return self._death.call(f"{self._name}.{name}", method, *args, **kwargs)

        return call
