# SPDX-License-Identifier: Apache-2.0

"""What is logged about the nodes that are left to other hosts."""

from ironic_virt.sharding import ownership_log
from ironic_virt.sharding.claims import Claim
from ironic_virt.sharding.selector import TargetSet
from tests.unit.sharding.test_ownership import Service

TARGET = TargetSet(None, "a")


def test_a_bounded_number_of_former_nodes_is_remembered(monkeypatch, caplog) -> None:
    monkeypatch.setattr(ownership_log, "_MOST_REMEMBERED", 5)
    log = ownership_log.OwnershipLog(Service())
    for number in (*range(6), 0):
        claim = Claim(foreign={f"node-{number}": "other"})
        for _ in range(2):
            log.log_foreign(claim, (), TARGET, pooled=False)
    lines = [line for line in caplog.messages if "alone: node-0." in line]
    assert len(lines) == 1
    for number in (*range(6, 20), 0):
        log.log_foreign(Claim(foreign={f"node-{number}": "other"}), (), TARGET, pooled=False)
    lines = [line for line in caplog.messages if "alone: node-0." in line]
    assert len(lines) == 2
