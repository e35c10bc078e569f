# SPDX-License-Identifier: Apache-2.0

"""Which request a process dies at does not depend on how quick Ironic is."""

from __future__ import annotations

import contextlib
import threading
from typing import Any

import pytest

from ironic_virt import exceptions
from ironic_virt.baremetal.http.connection import Answer
from tests.crashing import Crash, CrashingChannel


class _Ironic:
    def send(self, method: str, path: str, **_: Any) -> Answer:
        return Answer(200, {}, b"")


def polls(channel: CrashingChannel, times: int) -> None:
    def poll() -> None:
        for _ in range(times):
            with contextlib.suppress(exceptions.IronicUnreachable):
                channel.send("GET", "/nodes")

    poller = threading.Thread(target=poll, name="ironic-virt-watcher")
    poller.start()
    poller.join()


@pytest.mark.parametrize("often", [1, 5])
def test_the_polls_of_a_wait_are_one_point_however_many_there_are(often: int) -> None:
    def life(at: int) -> str:
        channel = CrashingChannel(_Ironic(), at, after=False, every_poll=False)
        with contextlib.suppress(Crash):
            channel.send("PATCH", "/nodes/a")
            polls(channel, often)
            channel.check()
            channel.send("PUT", "/nodes/a")
            polls(channel, often)
            channel.check()
        return channel.died_at

    ends = [life(at) for at in range(1, 6)]
    assert ends == ["PATCH /nodes/a", "GET /nodes", "PUT /nodes/a", "GET /nodes", ""]


def test_each_poll_counts_where_they_are_always_as_many() -> None:
    channel = CrashingChannel(_Ironic(), 3, after=False)
    polls(channel, 2)
    assert not channel.dead
    polls(channel, 1)
    assert channel.dead
