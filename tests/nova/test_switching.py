# SPDX-License-Identifier: Apache-2.0

"""From Nova's in-tree driver to ours and back, with servers that stay.

Afterwards they are rebooted, rebuilt and deleted.  With Nova's driver, rebuilding takes two
concessions: a compute API before 2.93, from which on it refuses every server, and a node
that says what type its image has, because it doesn't go on without when Ironic can't tell.
"""

from typing import Any, ClassVar

from ironic_virt.baremetal.client import IronicClient
from ironic_virt.fleet.plans.apply import Effect
from ironic_virt.fleet.reading import Reader
from ironic_virt.fleet.unprotection import unprotect_nodes
from tests.nova import figures
from tests.nova.deployment import CONF, DRIVERS, IMAGE, OTHER_IMAGE, Deployment

COUNT = 10


class Switching(Deployment, starts=True):
    """Servers are booted with one driver, and the other one goes on with them.

    :cvar after: the other one.
    :cvar rebuild_microversion: the compute API's, for a rebuild by it.
    """

    options: ClassVar = {"api_retry_interval": 1}

    after: str
    rebuild_microversion: str

    def records(self, servers: list[dict[str, Any]]) -> dict[str, Any]:
        """What Nova and Placement have on the nodes and the servers."""
        hypervisors = self.api.api_get("/os-hypervisors/detail").body["hypervisors"]
        providers = self._get_all_providers()
        return {
            "compute nodes": sorted(
                (one["id"], one["hypervisor_hostname"], one["service"]["host"])
                for one in hypervisors
            ),
            "providers": sorted((one["uuid"], one["name"]) for one in providers),
            "inventories": {
                one["uuid"]: self._get_provider_inventory(one["uuid"]) for one in providers
            },
            "traits": {
                one["uuid"]: sorted(self._get_provider_traits(one["uuid"])) for one in providers
            },
            "allocations": {
                server["id"]: self._get_allocations_by_server_uuid(server["id"])
                for server in servers
            },
            "servers": {
                server["id"]: (self.node_of(server), self.server(server)["status"])
                for server in servers
            },
        }

    def test_all_servers_go_on(self) -> None:
        nodes = self.make_nodes(COUNT, traits=["CUSTOM_GPU"])
        compute = self.start_service("compute", "compute1")
        servers = [self.boot(f"server-{number}") for number in range(COUNT)]
        for server in servers:
            self.wait_for(server, "ACTIVE")
        # Each driver has reported before the comparison.
        self.refresh(compute)
        before = self.records(servers)

        compute.stop()
        if self.after == figures.IN_TREE:
            # It can delete no node that is protected.
            assert all(self.node(node)["protected"] for node in nodes)
            read = Reader(CONF).read(placement=False)
            client = IronicClient.from_conf(CONF)
            done = unprotect_nodes(read, ["compute1"], client, lambda: None)
            assert {one.change.uuid: one.outcome for one in done} == dict.fromkeys(
                nodes, Effect.DONE
            )
        self.flags(compute_driver=DRIVERS[self.after])
        compute = self.start_service("compute", "compute1")
        assert type(compute.manager.driver).__module__.startswith(MODULES[self.after])
        assert self.without_generations(self.records(servers)) == self.without_generations(before)

        for server in servers:
            self.act(server, reboot={"type": "HARD"})
        for server in servers:
            self.wait_for(server, "ACTIVE")
        self.rebuild_all(servers)
        assert self.without_generations(self.records(servers)) == self.without_generations(before)
        for server in servers:
            self.api.delete_server(server["id"])
        for server in servers:
            self.wait_until_gone(server)
        for node in nodes:
            assert self.wait_for_node(node, "available")["instance_uuid"] is None

    def rebuild_all(self, servers: list[dict[str, Any]]) -> None:
        """Have the driver that is in force deploy another image to each server's node."""
        where = {server["id"]: self.node_of(server) for server in servers}
        if self.after == figures.IN_TREE:
            for node in where.values():
                self.say_image_type(node)
        for server in servers:
            assert self.image_of(where[server["id"]]) == IMAGE
            self.rebuild(server, microversion=self.rebuild_microversion)
        for server in servers:
            self.wait_for(server, "ACTIVE")
            assert self.image_of(where[server["id"]]) == OTHER_IMAGE
            assert self.server(server)["image"]["id"] == OTHER_IMAGE

    def image_of(self, node: str) -> str:
        """The image that Ironic has deployed to a node."""
        seen = self.node(node)
        assert seen["provision_state"] == "active", seen
        return seen["instance_info"]["image_source"]

    def without_generations(self, records: dict[str, Any]) -> dict[str, Any]:
        """Records without the numbers that Placement counts changes by."""

        def clean(value: Any) -> Any:
            if isinstance(value, dict):
                return {k: clean(v) for k, v in value.items() if not k.endswith("generation")}
            return value

        return clean(records)


MODULES = {figures.IN_TREE: "nova.virt.ironic.", figures.OURS: "ironic_virt.nova."}


class TestToOurs(Switching, driver=figures.IN_TREE):
    """From Nova's to ours."""

    after = figures.OURS
    rebuild_microversion = "latest"


class TestBack(Switching, driver=figures.OURS, after=figures.IN_TREE, rebuild_microversion="2.92"):
    """From ours to Nova's."""
