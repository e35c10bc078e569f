# SPDX-License-Identifier: Apache-2.0

"""A lease under eventlet, where code that blocks stops all green threads."""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata

import pytest

# Nova has this process refuse to import it.
if not list(metadata.distributions(name="eventlet")):
    pytest.skip("eventlet is not installed", allow_module_level=True)

BLOCKED = """
import eventlet
eventlet.monkey_patch()
from eventlet import patcher
from ironic_virt.standby import Lease, Timing
threading = patcher.original("threading")
renewed, enough = [], threading.Event()

class Lock:
    def acquire(self, host):
        return True
    def renew(self):
        renewed.append(host)
        if len(renewed) == 3:
            enough.set()
        return True
    def write_note(self, host, note, seconds):
        pass
    def release(self):
        renewed.append("released")

host = "compute1"
lease = Lease(Lock(), Timing(lock=1, valid=0.9, settle=0.0, renew=0.05))
lease.wait(host)
# Nothing green runs meanwhile.
assert enough.wait(60)
assert lease.holds

begun = []
def send():
    with lease.sending(change=True):
        begun.append(1)
        eventlet.sleep(0.2)
eventlet.spawn(send)
while not begun:
    eventlet.sleep(0)
lease.hand_over()
assert renewed[-1] == "released", renewed
"""

LOST = """
import eventlet
eventlet.monkey_patch()
from eventlet import patcher
from ironic_virt.standby import Lease, Timing
threading = patcher.original("threading")

class Lock:
    def acquire(self, host):
        return True
    def renew(self):
        return False
    def write_note(self, host, note, seconds):
        pass

Lease(Lock(), Timing(lock=1, valid=0.9, settle=0.0, renew=0.05)).wait("compute1")
threading.Event().wait(60)
"""


def run(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120
    )


def test_a_block_costs_no_renewal_and_a_request_that_is_under_way_ends_before_the_lease() -> None:
    done = run(BLOCKED)
    assert done.returncode == 0, done.stderr


def test_a_blocked_process_ends_when_its_lease_is_lost() -> None:
    done = run(LOST)
    assert done.returncode == 4, done.stderr
