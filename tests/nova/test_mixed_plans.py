# SPDX-License-Identifier: Apache-2.0

"""Plans of ``ironic-virt-fleet`` that one version makes, and others carry out and take back.

The former version is that of ``IRONIC_VIRT_FORMER``; it takes our place while a command runs.
"""

import functools
import importlib
import itertools
import random
import sys
import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from ironic_virt.exit_codes import FleetExitCode
from ironic_virt.fleet import stopped
from tests.depth import choose
from tests.nova.fleets import Fleet
from tests.nova_deployment.former import former_commit
from tools.mixed_versions import export

ORDERS = choose(3, 100)
HOSTS = ("compute-a", "compute-b")


def quick(watch: Any) -> Any:
    """A watch of stopped services that is over at once: nobody starts one meanwhile."""
    return functools.partial(watch, clock=itertools.count(step=1_000_000).__next__)


@pytest.mark.nightly
class TestMixedPlans(Fleet):
    """Two services with a shard each, and a server each."""

    def setUp(self) -> None:
        super().setUp()
        # A service reports when it starts, and counts as up until a test stops it.
        self.flags(report_interval=0, service_down_time=86400)
        self.stub_out("ironic_virt.fleet.stopped.watch", quick(stopped.watch))
        self.stub_out("ironic_virt.fleet.ping.SECONDS", 0.1)
        directory = self.enterContext(tempfile.TemporaryDirectory())
        self.versions = (None, export(former_commit(), Path(directory, "former")))
        for host in HOSTS:
            self.make_nodes(3, shard=host)
            self.services[host] = self.start_compute(host, shard=host)
        self.refresh(*self.services.values())
        for host in HOSTS:
            node = next(node for node, owner in sorted(self.hosts().items()) if owner == host)
            self.boot_at(host, node, f"server-{host}")

    def fleet_of_any(self, rng: random.Random, *arguments: str, code: int = 0) -> Any:
        """Run the command of either version."""
        tree = rng.choice(self.versions)
        if tree is None:
            return self.fleet(*arguments, code=code)
        with mock.patch.dict(sys.modules), mock.patch.object(sys, "path", [str(tree), *sys.path]):
            for name in [name for name in sys.modules if name.startswith("ironic_virt")]:
                del sys.modules[name]
            importlib.import_module("ironic_virt.fleet.ping").SECONDS = 0.1
            importlib.import_module("ironic_virt.fleet.nova_conf").load = self._load
            former = importlib.import_module("ironic_virt.fleet.stopped")
            former.watch = quick(former.watch)
            command = importlib.import_module("ironic_virt.cmd.fleet")
            with mock.patch("tests.nova.fleets.fleet", command):
                return self.fleet(*arguments, code=code)

    def owners(self) -> dict[str, Any]:
        """Each node's record, shard and host, and the host of each server."""
        servers = {server["id"]: self.host_of(server) for server in self.api.get_servers()}
        shards = {uuid: self.node(uuid)["shard"] for uuid in self.records()}
        return {**self.records(), **servers, "shards": shards}

    def move_and_undo(self, seed: int) -> None:
        """Move all nodes of a service, and back, in any steps."""
        rng = random.Random(seed)
        source, target = rng.sample(HOSTS, 2)
        before, plan = self.owners(), str(self._files / f"{seed}.yaml")
        chosen = rng.choice([["drain", source], ["move", "--to", target, "--from", source]])
        self.fleet_of_any(rng, "plan", *chosen, *self.service_files, "--output", plan)
        assert self.owners() == before
        for verb, host in (("apply", source), ("undo", target)):
            self.stop(host)
            if limit := rng.randrange(3):
                part = (verb, plan, "--limit", str(limit))
                self.fleet_of_any(rng, *part, code=FleetExitCode.FOUND)
            self.fleet_of_any(rng, verb, plan)
            assert verb == "undo" or set(self.hosts().values()) == {target}
            self.services[host] = self.start_compute(host, shard=host)
            self.force_down(host, False)
        self.refresh(*self.services.values())
        assert self.owners() == before

    def test_either_version_carries_out_and_undoes_plans(self) -> None:
        for seed in range(ORDERS):
            self.move_and_undo(seed)
        assert self.check() == {}
