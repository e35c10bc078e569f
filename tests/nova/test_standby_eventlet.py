# SPDX-License-Identifier: Apache-2.0

"""A lease under eventlet, where code that blocks stops all green threads."""

import subprocess
import sys
from importlib import metadata

import pytest

# Nova has this process refuse to import it.
if not list(metadata.distributions(name="eventlet")):
    pytest.skip("eventlet is not installed", allow_module_level=True)

LOCK = """
import eventlet
eventlet.monkey_patch()
import socket
from eventlet import patcher
from ironic_virt.driver.reach import Reach
from ironic_virt.standby import Lease, Timing, boottime
threading = patcher.original("threading")
renewed, enough = [], threading.Event()

class Lock:
    is_kept = True
    def acquire(self, host):
        return True
    def renew(self):
        renewed.append(host)
        if len(renewed) == 3:
            enough.set()
        return self.is_kept
    def write_note(self, host, note, seconds):
        pass
    def release(self):
        renewed.append("released")

host = "compute1"
timing = Timing(lock=1, valid=0.9, settle=0.0, renew=0.05)
"""

BLOCKED = (
    LOCK
    + """
server = socket.create_server(("127.0.0.1", 0))
looks = {"Ironic": lambda: socket.create_connection(server.getsockname(), 5).close()}
reach = Reach(looks, boottime)
lease = Lease(Lock(), timing, reach)
lease.wait(host)
# Nothing green runs meanwhile.
assert enough.wait(60)
for _ in range(600):
    if reach.lacks(60):
        threading.Event().wait(0.1)
assert not reach.lacks(60)
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
)

LOST = (
    LOCK
    + """
Lock.is_kept = False
Lease(Lock(), timing).wait(host)
threading.Event().wait(60)
"""
)


def run(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120
    )


def test_a_block_costs_no_renewal_and_requests_end_in_the_lease() -> None:
    done = run(BLOCKED)
    assert done.returncode == 0, done.stderr


def test_a_blocked_process_ends_when_its_lease_is_lost() -> None:
    done = run(LOST)
    assert done.returncode == 4, done.stderr
