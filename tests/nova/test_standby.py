# SPDX-License-Identifier: Apache-2.0

"""A standby of the real Nova: it waits in Nova's own start, and changes nothing without its lease.

Nova starts it in this process, as it has started the service before it.
"""

import threading
from pathlib import Path
from typing import Any

import pytest

from ironic_virt.exit_codes import ExitCode
from ironic_virt.standby import ToozLock
from tests.nova.services import Services
from tools import real_ironic

HOST = "compute1"


class TestStandby(Services):
    """Ours."""

    @pytest.fixture(autouse=True)
    def _given(self, ironic: real_ironic.RealIronic, tmp_path: Path) -> None:
        self._real = ironic
        self._url = f"file://{tmp_path}/locks"

    def start_standby(self) -> tuple[threading.Thread, list[Any]]:
        """Start a ``nova-compute`` in a thread; what is started is in the list."""
        started: list[Any] = []
        thread = threading.Thread(
            target=lambda: started.append(
                self.start_compute(HOST, standby_backend_url=self._url, standby_ttl=60)
            ),
            daemon=True,
        )
        thread.start()
        return thread, started

    def changes(self, node: str) -> Any:
        """What tells whether anything was done to a node."""
        seen = self.node(node)
        return seen["updated_at"], seen["power_state"], seen["target_power_state"]

    def test_a_standby_takes_over_and_changes_nothing_unleased(self) -> None:
        self.start_nova(self._real)
        (node,) = self.make_nodes(1)
        other = self.start_compute(HOST)
        server = self.boot_at(HOST, node)
        other.stop()

        # As another process that serves meanwhile.
        holder = ToozLock(self._url, 60)
        assert holder.acquire(HOST)
        before = self.changes(node)
        thread, started = self.start_standby()
        self.until(lambda: self.stdlog.logger.output, lambda text: "Standby: waiting" in text)
        assert not started
        assert self.changes(node) == before
        holder.release()
        thread.join(300)
        (compute,) = started
        lease = compute.manager.driver._driver.lease
        assert lease.holds
        self.refresh(compute)
        assert self.records()[node][1] == HOST
        self.reboot(server)
        assert self.wait_for_node(node, "active")["instance_uuid"] == server["id"]

        # As after it was stopped for ten minutes: Nova knows of nothing.
        exits: list[int] = []
        before, clock = self.changes(node), lease._clock
        lease._leave, lease._clock = exits.append, lambda: clock() + 600
        # In the place of the end of the process, which ends the action.
        lease._halt = lambda: None
        self.act(server, reboot={"type": "HARD"})
        self.until(lambda: exits, bool)
        self.until(lambda: self.server(server), lambda seen: not seen["OS-EXT-STS:task_state"])
        assert self.changes(node) == before
        assert exits == [ExitCode.LEASE_LOST]
