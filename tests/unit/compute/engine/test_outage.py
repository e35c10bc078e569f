# SPDX-License-Identifier: Apache-2.0

"""An outage is said at first and every few minutes, and its end once."""

import logging

import pytest

from ironic_virt.compute.engine.outage import Outage
from tests.clock import VirtualClock


def test_it_is_said_now_and_then_and_that_it_is_over_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = VirtualClock()
    outage = Outage("The database can't be used", "Nothing new begins.", clock=clock)
    with caplog.at_level(logging.INFO):
        outage.worked()
        for _ in range(3):
            outage.failed(OSError("connection refused"))
            assert outage.lasts
            clock.now += 10
        clock.now += 300
        outage.failed(OSError("connection refused"))
        outage.worked()
        outage.worked()
        assert not outage.lasts
    assert caplog.messages == [
        "[database-unreachable] The database can't be used: connection refused. "
        "Nothing new begins.",
        "[database-unreachable] The database can't be used for 330 s: connection refused. "
        "Nothing new begins.",
        "The database can't be used: that is over after 330 s",
    ]
