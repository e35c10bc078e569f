# SPDX-License-Identifier: Apache-2.0

"""What ``ironic-virt-fleet`` refuses, and whom it leaves alone, with both drivers' services."""

import datetime
import shutil
from pathlib import Path
from typing import Any

from nova import context, objects
from nova.db.main import models

from ironic_virt.exit_codes import FleetExitCode
from ironic_virt.nova import zones
from tests.nova import figures
from tests.nova.fleets import Fleet

HOSTS = ("compute-a", "compute-b", "compute-c")
A, B, C = HOSTS
NOBODY = "5c0d0f6e-0000-4000-8000-000000000009"


class Harm(Fleet):
    """Three services with a shard and two nodes each; those of the first two have a server."""

    def setUp(self) -> None:
        super().setUp()
        # They report when a test says so; the tools ask them over RPC.
        self.flags(report_interval=0)
        self.nodes = {host: self.make_nodes(2, shard=f"rack-{host[-1]}") for host in HOSTS}
        self.services = {
            host: self.start_compute(host, shard=f"rack-{host[-1]}") for host in HOSTS
        }
        self.servers = {
            host: self.boot_at(host, self.nodes[host][0], f"server-{host}") for host in (A, B)
        }
        self.refresh(*self.services.values())
        self.plans = 0

    def plan(self, *arguments: str, files: tuple[str, ...] = HOSTS, code: int = 0) -> str:
        """Make a plan; its path."""
        self.plans += 1
        path = str(self._files / f"plan-{self.plans}.yaml")
        named = [one for one in self.service_files if one.split("=")[1] in files]
        self.fleet("plan", *arguments, *named, "--output", path, code=code)
        return path

    def refused(self, why: str, *arguments: str, files: tuple[str, ...] = HOSTS) -> None:
        """See that a plan is not made, and that nothing has changed."""
        before = self.state()
        self.plan(*arguments, files=files, code=1)
        assert why in self.said, self.said
        assert self.state() == before

    def state(self) -> tuple[Any, ...]:
        """Shards, records' hosts, servers' hosts."""
        shards = {node["uuid"]: node["shard"] for node in self.fake.nodes()}
        hosts = {host: self.host_of(server) for host, server in self.servers.items()}
        return shards, self.hosts(), hosts

    def aggregate(self, name: str, *hosts: str, zone: str | None = None) -> str:
        """A host aggregate; its uuid."""
        # The API refuses it where a host has servers already.
        metadata = {"availability_zone": zone} if zone else {}
        made = objects.Aggregate(context.get_admin_context(), name=name, metadata=metadata)
        made.create()
        for host in hosts:
            made.add_host(host)
        return made.uuid

    def aggregates_of(self, provider: str) -> list[str]:
        path = f"/resource_providers/{provider}/aggregates"
        return self.placement_call("get", path)["aggregates"]

    def in_aggregate(self, provider: str, aggregate: str) -> None:
        path = f"/resource_providers/{provider}"
        generation = self.placement_call("get", path)["generation"]
        body = {"aggregates": [aggregate], "resource_provider_generation": generation}
        self.placement_call("put", f"{path}/aggregates", body)

    def test_unnamed_services_are_left_alone_and_unfit_ones_get_none(self) -> None:
        # Without a file nobody knows which shard a service serves.
        self.refused("--service-conf", "drain", A, files=())
        self.refused("only other services can take", "drain", A, files=(A,))
        self.refused("some nodes are with compute-a, which was not named", "drain", A, files=(B,))
        self.refused("compute-typo", "move", "--to", "compute-typo", "--from", A)
        # Files that were swapped.
        for host in (A, B):
            shutil.copy(self._files / f"{host}.conf", self._files / f"{host}.kept")
        shutil.copy(self._files / f"{B}.kept", self._files / f"{A}.conf")
        self.refused("host is compute-b, not compute-a", "shards")
        shutil.copy(self._files / f"{A}.kept", self._files / f"{A}.conf")
        # Nodes of somebody else.
        free, enrolled, strange, away = (
            self.make_nodes(1, **fields)[0]
            for fields in (
                {},
                {"provision_state": "enroll"},
                {"provision_state": "active", "instance_uuid": NOBODY},
                {"shard": "prod"},
            )
        )
        before = self.state()
        self.fleet("apply", self.plan("shards"))
        assert self.state() == before
        self.fleet("apply", self.plan("shards", "--include-new"))
        shards = {node: self.fake.node(node)["shard"] for node in (free, enrolled, strange, away)}
        assert shards.pop(free) in {"rack-a", "rack-b", "rack-c"}
        assert shards == {enrolled: None, strange: None, away: "prod"}
        for node in (free, enrolled, strange, away):
            self.fake.remove_node(node)
        # Targets that can't work.
        to_b = ("move", "--to", B, "--from", A)
        (service,) = self.api.get_services(host=B, binary="nova-compute")
        self.api.put_service(service["id"], {"status": "disabled"})
        self.refused("compute-b is disabled", *to_b)
        self.api.put_service(service["id"], {"status": "enabled"})
        where = models.Service.host == B
        self.in_cell(
            models.Service, where, last_seen_up=datetime.datetime.fromisoformat("2020-01-01")
        )
        self.refused("compute-b is down", *to_b)
        self.in_cell(models.Service, where, last_seen_up=None)
        mapping = objects.HostMapping.get_by_host(context.get_admin_context(), B)
        mapping.destroy()
        self.refused("compute-b is not mapped", *to_b)

    def test_zones_aggregates_and_server_groups_are_looked_at(self) -> None:
        az1, az2 = self.aggregate("one", A, zone="az1"), self.aggregate("two", B, zone="az2")
        self.in_aggregate(self.nodes[A][0], az1)
        for host, zone in ((A, "az1"), (B, "az2")):
            where = models.Instance.uuid == self.servers[host]["id"]
            self.in_cell(models.Instance, where, availability_zone=zone)
        self.refused("compute-a is in availability zone az1", "drain", A, "--to", B)
        path = self.plan("drain", A, "--to", B, "--accept-zone", "az2")
        self.stop(A)
        self.fleet("apply", path)
        marked = {az2, *zones.marks([az2])}
        assert [set(self.aggregates_of(node)) for node in self.nodes[A]] == [marked, marked]
        self.refresh(self.services[B])
        self.reboot(self.servers[A])
        self.aggregate("ssd", C)
        self.refused(
            "is in aggregate ssd", "move", "--to", C, "--from", B, "--accept-zone", "nova"
        )
        group = {"name": "g", "policy": "anti-affinity", "rules": {"max_server_per_host": 1}}
        made = self.api.api_post("/os-server-groups", {"server_group": group}).body["server_group"]
        members = [server["id"] for server in self.servers.values()]
        objects.InstanceGroup.add_members(context.get_admin_context(), made["id"], members)
        to_c = ("--to", C, "--accept-zone", "nova", "--accept-zone", "ssd")
        self.refused("keeps server", "move", *to_c, "--from", B)

    def test_a_service_that_runs_is_not_taken_for_stopped(self) -> None:
        path = self.plan("drain", A, "--to", C)
        before = self.state()
        # Forced down, and it never reports, as with memcached; but it answers.
        self.force_down(A)
        rows = self.fleet("apply", path, code=FleetExitCode.FOUND)
        assert {row["Reason"] for row in rows} == {"compute-a answers over RPC; stop it"}
        assert self.state() == before
        # A dry run shows all, and needs nothing that it could write to.
        self.services[A].stop()
        self._files.chmod(0o500)
        rows = self.fleet("apply", path, "--dry-run")
        self._files.chmod(0o700)
        for row in rows:
            assert f"PATCH /v1/nodes/{row['Node']} [{{" in row["Reason"]
            assert "UPDATE compute_nodes SET" in row["Reason"]
            assert "host='compute-c'" in row["Reason"]
        assert self.state() == before
        # A plan of another deployment.
        plan = self._files / "other.yaml"
        plan.write_text(Path(path).read_text().replace(self._ironic.url, "http://elsewhere"))
        self.fleet("apply", str(plan), "--edited", code=1)
        assert "✗ the plan is for another deployment" in self.said
        old = ("apply", path, "--max-age", "0.000001")
        self.fleet(*old, "--dry-run", code=FleetExitCode.FOUND)
        self.fleet(*old, code=1)
        assert "✗ the plan is" in self.said
        self.fleet("apply", path)

    def test_a_node_that_was_moved_by_half_is_moved_whole(self) -> None:
        (node, _) = self.nodes[A]
        path = self.plan("drain", A, "--to", C)
        self.stop(A)
        # Nova's own command writes the one and then the other, and was cut off.
        self.set_record_host(node, C)
        both = ("--accept", "host-differs", "--accept", "node-outside-its-service")
        fresh = self.plan("move", "--to", C, node, *both)
        (row,) = self.fleet("apply", fresh, "--dry-run")
        assert "UPDATE instances SET" in row["Reason"]
        self.fleet("apply", path)
        assert self.host_of(self.servers[A]) == self.hosts()[node] == C
        self.stop(C)
        self.services[A] = self.start_compute(A, shard="rack-a")
        self.force_down(A, False)
        self.set_record_host(node, A)
        self.fleet("undo", path)
        assert self.host_of(self.servers[A]) == self.hosts()[node] == A


class TestHarmInTree(Harm, driver=figures.IN_TREE):
    """Nova's own driver."""


class TestHarm(Harm, driver=figures.OURS):
    """Ours."""
