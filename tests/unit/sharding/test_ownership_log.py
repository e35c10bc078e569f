# SPDX-License-Identifier: Apache-2.0

"""What is told of the nodes that are left to other hosts."""

from __future__ import annotations

import pytest

from ironic_virt.sharding import ownership_log
from ironic_virt.sharding.claims import Claim
from ironic_virt.sharding.selector import TargetSet
from tests.unit.sharding.test_ownership import Service

TARGET = TargetSet(None, "a")


def test_of_nodes_that_are_not_left_any_more_a_bounded_number_is_remembered(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(ownership_log, "_MOST_REMEMBERED", 5)
    told = ownership_log.OwnershipLog(Service())
    for number in (*range(6), 0):
        claim = Claim(left={f"node-{number}": "other"})
        for _ in range(2):
            told.left(claim, (), TARGET, pooled=False)
    lines = [line for line in caplog.messages if "node-0 is in" in line]
    assert len(lines) == 1
    for number in (*range(6, 20), 0):
        told.left(Claim(left={f"node-{number}": "other"}), (), TARGET, pooled=False)
    lines = [line for line in caplog.messages if "node-0 is in" in line]
    assert len(lines) == 2
