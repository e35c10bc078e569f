# SPDX-License-Identifier: Apache-2.0

"""To pools and away from them, in the real Nova.

From a compute node for each node, and back to that, with servers; and to Nova's own driver, when
the servers are gone.
"""

from typing import Any, ClassVar

from nova import context

from tests.nova import figures
from tests.nova.deployment import DRIVERS, RESOURCE_CLASS, Deployment

POOL = f"{RESOURCE_CLASS}~compute1"


class Restarted(Deployment):
    """One compute that is restarted with other options."""

    starts = True
    options: ClassVar = {"api_retry_interval": 1}

    def start(self, node_selection: str) -> None:
        self.flags(node_selection=node_selection, group="ironic")
        self.compute = self.start_service("compute", "compute1")

    def switch(self, node_selection: str) -> None:
        self.compute.stop()
        self.start(node_selection)

    def names(self) -> set[str]:
        """The compute nodes, after a refresh."""
        self.compute.manager.update_available_resource(context.get_admin_context())
        hypervisors = self.api.api_get("/os-hypervisors").body["hypervisors"]
        names = {one["hypervisor_hostname"] for one in hypervisors}
        assert names == {one["name"] for one in self._get_all_providers()}
        return names

    def free(self) -> dict[str, int]:
        """How many servers Placement would put onto each provider that takes any."""
        found = {}
        for provider in self._get_all_providers():
            uuid = provider["uuid"]
            [(name, inventory)] = self._get_provider_inventory(uuid).items()
            used = self._get_provider_usages(uuid).get(name, 0)
            if (left := inventory["total"] - inventory["reserved"] - used) > 0:
                found[provider["name"]] = left
        return found

    def booted(self) -> dict[str, Any]:
        return self.wait_for(self.boot(), "ACTIVE")

    def carrier(self, server: dict[str, Any]) -> str:
        """The node that has a server, as Ironic says."""
        path = f"/nodes?instance_uuid={server['id']}&fields=uuid"
        [node] = self.ironic("GET", path)["nodes"]
        return node["uuid"]

    def restarted(self, server: dict[str, Any]) -> None:
        self.act(server, reboot={"type": "HARD"})
        self.wait_for(server, "ACTIVE")

    def deleted(self, server: dict[str, Any]) -> None:
        node = self.carrier(server)
        self.delete(server)
        assert self.wait_for_node(node, "available")["allocation_uuid"] is None


class TestSwitchingToPools(Restarted):
    """From one ``node_selection`` to the other."""

    def test_there_and_back(self) -> None:
        nodes = set(self.make_nodes(3))
        self.start("scheduler")
        old = self.booted()
        first = self.node_of(old)
        assert self.names() == nodes

        self.switch("ironic")
        assert self.names() == {POOL, first}
        assert self.free() == {POOL: 2}
        self.restarted(old)
        new = self.booted()
        assert self.node_of(new) == POOL
        second = self.carrier(new)
        assert second in nodes - {first}
        self.names()
        assert self.free() == {POOL: 1}
        self.deleted(old)
        assert self.names() == {POOL}
        assert self.free() == {POOL: 2}

        self.switch("scheduler")
        assert self.names() == {POOL, *nodes}
        assert self.free() == dict.fromkeys(nodes - {second}, 1)
        self.restarted(new)
        self.deleted(new)
        assert self.names() == nodes
        assert self.free() == dict.fromkeys(nodes, 1)


class TestLeavingPools(Restarted):
    """From pools without a server to Nova's own driver."""

    def test_novas_own_driver_removes_empty_pools(self) -> None:
        nodes = {
            *self.make_nodes(1),
            *self.make_nodes(1, traits=["CUSTOM_GPU"]),
            *self.make_nodes(1, resource_class="rack 5/\u00e9@+~"),
        }
        self.start("ironic")
        pools = self.names()
        assert len(pools) == 3
        assert not pools & nodes
        server = self.booted()
        assert self.node_of(server) in pools
        self.deleted(server)

        self.compute.stop()
        self.flags(compute_driver=DRIVERS[figures.IN_TREE])
        self.compute = self.start_service("compute", "compute1")
        assert type(self.compute.manager.driver).__module__ == "nova.virt.ironic.driver"
        assert self.names() == nodes
        assert self.free() == dict.fromkeys(nodes, 1)
        server = self.booted()
        assert self.node_of(server) in nodes
        self.delete(server)
