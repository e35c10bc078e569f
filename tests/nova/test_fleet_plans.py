# SPDX-License-Identifier: Apache-2.0

"""From a hash ring to shards and back, by ``ironic-virt-fleet plan``, ``apply`` and ``undo``."""

from pathlib import Path
from typing import Any

from ironic_virt.exit_codes import FleetExitCode
from tests.nova.fleets import Fleet

RING = "compute-a,compute-b"


class TestPlans(Fleet):
    """Two services in a ring, with a server each."""

    def setUp(self) -> None:
        super().setUp()
        # A service that is stopped has reported last when it was started.
        self.flags(report_interval=0)
        self.nodes = self.make_nodes(6)
        self.services = {
            host: self.start_compute(host, peer_list=RING) for host in RING.split(",")
        }
        for _ in range(2):
            self.refresh(*self.services.values())
        self.servers = {}
        for host in self.services:
            node = next(node for node, owner in sorted(self.hosts().items()) if owner == host)
            self.servers[host] = self.boot_at(host, node, f"server-{host}")
        self.refresh(*self.services.values())
        assert set(self.hosts().values()) == set(self.services)

    def restart(self, host: str, **options: Any) -> None:
        """Restart a service with other options."""
        self.services[host].stop()
        self.services[host] = self.start_compute(host, **options)
        self.refresh(self.services[host])

    def plan(self, name: str, *arguments: str) -> str:
        """Make a plan; its path."""
        path = str(self._files / name)
        self.rows = self.fleet("plan", *arguments, *self.service_files, "--output", path)
        return path

    def test_from_a_ring_to_shards_then_to_one_service_and_back(self) -> None:
        ids, hosts = self.record_ids(), self.hosts()
        assert set(self.check()) == {"option-deprecated"}
        keep = self.plan("keep.yaml", "shards", "--accept", "option-deprecated")
        assert sum(row["Moving In"] for row in self.rows) == 0
        assert "No record moves" in self.said
        (*dry,) = self.fleet("apply", keep, "--dry-run")
        assert {row["Outcome"] for row in dry} == {"would be done"}
        assert all(f"PATCH /v1/nodes/{row['Node']} " in row["Reason"] for row in dry)
        # Nothing was written.
        assert {path.name for path in self._files.iterdir() if "keep" in path.name} == {
            "keep.yaml"
        }
        assert {self.node(uuid)["shard"] for uuid in self.nodes} == {None}
        canary = self.fleet("apply", keep, "--canary", "2", *self.service_files)
        assert [row["Outcome"] for row in canary] == ["done", "done"]
        assert "Checked the nodes that were changed: 0 findings" in self.said
        self.fleet("apply", keep)
        assert {uuid: self.node(uuid)["shard"] for uuid in self.nodes} == hosts
        for host in self.services:
            self.restart(host, shard=host)
        assert self.check() == {}
        assert (self.record_ids(), self.hosts()) == (ids, hosts)

        drain = self.plan("drain.yaml", "drain", "compute-a")
        assert "1. Stop nova-compute on compute-a" in self.said
        waiting = self.fleet("apply", drain, code=FleetExitCode.FOUND)
        assert {row["Outcome"] for row in waiting} == {"waits"}
        assert self.hosts() == hosts
        self.stop("compute-a")
        self.fleet("apply", drain)
        assert (self.record_ids(), set(self.hosts().values())) == (ids, {"compute-b"})
        self.refresh(self.services["compute-b"])
        assert self.check() == {}
        moved = self.servers["compute-a"]
        assert self.host_of(moved) == "compute-b"
        self.reboot(moved)

        # Back: compute-b is stopped, and compute-a up again.
        self.stop("compute-b")
        self.services["compute-a"] = self.start_compute("compute-a", shard="compute-a")
        self.force_down("compute-a", False)
        journal = Path(f"{drain}.journal")
        journal.rename(self._files / "elsewhere")
        for _ in range(2):
            self.fleet("undo", drain, code=1)
            assert "is missing, and only it says what was done" in self.said
        (self._files / "elsewhere").rename(journal)
        assert {row["Outcome"] for row in self.fleet("undo", drain)} == {"done"}
        assert self.fleet("undo", drain) == []
        assert (self.record_ids(), self.hosts()) == (ids, hosts)
        self.services["compute-b"] = self.start_compute("compute-b", shard="compute-b")
        self.force_down("compute-b", False)
        self.refresh(*self.services.values())
        assert self.check() == {}
        for host, server in self.servers.items():
            assert self.host_of(server) == host
            self.reboot(server)
            self.delete(server)
