# SPDX-License-Identifier: Apache-2.0

"""Nova's periodic task, as far as it decides which nodes are settled.

:mod:`ironic_virt.nova.settled` is real.  Nova and Placement are the small ones of its unit tests,
with the nodes and the servers of this world.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Collection
from typing import TYPE_CHECKING

from ironic_virt import exceptions
from ironic_virt.nova.reports import Reports
from tests.unit.nova.small_nova import HOST, Cloud, Compute, Server, after_a_whole_pass

if TYPE_CHECKING:
    from tests.simulation.host import HostProcess

_MAX_AGE = 3600.0


class Periods:
    """The periods of a process; its Nova and Placement are those of the process before."""

    def __init__(self, service: HostProcess) -> None:
        self._service, self._world = service, service.world
        self._rng = random.Random(f"periods {service.world.seed} {service.process.name}")
        self._cloud = service.world.clouds.setdefault(service.host, Cloud({}))
        self._compute = Compute(self._cloud, _MAX_AGE)
        self._offers = Reports(service.driver.node_version, self._offer)
        self._numbers: dict[str, int] = {}

    def _offer(self, name: str) -> int:
        driver = self._service.driver
        offer = repr((driver.get_inventory(name), driver.get_available_resource(name)))
        return self._numbers.setdefault(offer, len(self._numbers) + 1)

    def run(self, names: Collection[str]) -> None:
        """One period, and the law: where nobody writes meanwhile, a whole pass changes nothing."""
        cloud, compute = self._cloud, self._compute
        cloud.now = 1e6 + self._world.scheduler.now
        with contextlib.suppress(exceptions.NodeNotAvailable, exceptions.IronicError):
            cloud.offers = {name: self._offers.of(name) for name in names}
            self._write_servers()
            is_disturbed = self._rng.random() < 0.5
            cloud.placement_away = is_disturbed and self._rng.random() < 0.1
            cloud.meanwhile = self._pause if is_disturbed else lambda step, node: None
            compute.period()
            for name, reason in compute.passed.items():
                self._world.log(f"{self._service.host} passes {name}: {reason}")
            cloud.offers = {name: self._offer(name) for name in names}
            if not is_disturbed and cloud.seen() != after_a_whole_pass(compute):
                what = f"{self._service.host} has passed {list(compute.passed)} of {list(names)}"
                self._world.laws.found("15 settled", f"{what}, and a whole pass changes more")

    def _write_servers(self) -> None:
        """Have Nova's records, and allocations, be what the world's are."""
        cloud, rows = self._cloud, self._world.instances.rows
        for uuid, row in rows.items():
            host = HOST if row.host == self._service.host else ""
            state = f"{row.vm_state} {row.task_state} {row.attempts}"
            fresh = {"node": row.node or "", "host": host, "state": state}
            fresh |= {"deleted": row.is_deleted}
            former = cloud.servers.setdefault(uuid, Server("", ""))
            if former.host == HOST and former.node not in ("", fresh["node"]):
                # Nova counts builds that have failed there.
                self._compute.failed[former.node] += 1
            if any(getattr(former, name) != value for name, value in fresh.items()):
                cloud.write_server(uuid, **fresh)
        for name, provider in cloud.providers.items():
            for uuid, row in rows.items():
                has = row.node == name and not row.is_deleted
                if has and uuid not in provider.consumers:
                    provider.write(consumers=provider.consumers | {uuid})
                elif not has and self._rng.random() < 0.5:
                    # Else a process has died before that.
                    provider.consumers.discard(uuid)

    def _pause(self, step: str, node: str) -> None:
        self._world.scheduler.sleep(self._rng.choice([0.0, 2.0]))
