# SPDX-License-Identifier: Apache-2.0

"""``[DEFAULT] concurrency_backend = eventlet``, which Nova still has."""

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from ironic_virt.testing.fake_ironic import Durations, FakeIronic, FakeIronicServer, VirtualClock
from tests.ports import reserved_port

COUNT = 10
PATIENCE = 600.0
"""Seconds after which what should have happened is given up."""


def test_servers_are_deployed_at_once_in_green_threads() -> None:
    clock = VirtualClock()
    fake = FakeIronic(clock=clock, durations=Durations(deploy=10.0))
    nodes = [fake.add_node(ports=1) for _ in range(COUNT)]
    with FakeIronicServer(fake) as server, reserved_port() as port:
        arguments = ["-W", "ignore", "-m", "tests.nova.under_eventlet", server.url, str(port)]
        program = subprocess.Popen(
            [sys.executable, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )
        with program:
            try:
                most = let_time_pass(program, fake, clock, nodes)
            finally:
                program.kill()
            told, complaints = program.communicate()
    assert most == COUNT, "a wait is one for all of them, and not one after the other"
    assert program.returncode == 0, complaints[-3000:]
    assert json.loads(told) == {"servers": COUNT, "builds": COUNT}
    assert {fake.node(node)["instance_uuid"] for node in nodes} == {None}


def let_time_pass(
    program: subprocess.Popen[str], fake: FakeIronic, clock: VirtualClock, nodes: Sequence[str]
) -> int:
    """Return when the program has ended; how many nodes it had Ironic deploy at the same time.

    No time passes before they all are: until then no deployment can end.
    """
    most, began = 0, time.monotonic()
    while program.poll() is None and time.monotonic() < began + PATIENCE:
        states = [fake.node(node)["provision_state"] for node in nodes]
        most = max(most, states.count("deploying"))
        if most == len(nodes):
            clock.advance(1.0)
        time.sleep(0.05)
    return most
