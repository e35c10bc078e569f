# SPDX-License-Identifier: Apache-2.0

"""To pools and away from them, in the real Nova.

From a compute node for each node, and back to that, with servers; and to Nova's own driver, when
the servers are gone.
"""

from typing import Any, ClassVar

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
        self.refresh(self.compute)
        hypervisors = self.api.api_get("/os-hypervisors").body["hypervisors"]
        names = {one["hypervisor_hostname"] for one in hypervisors}
        assert names == {one["name"] for one in self._get_all_providers()}
        return names

    def booted(self) -> dict[str, Any]:
        return self.new_server()


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
        assert self.free_places() == {POOL: 2}
        self.reboot(old)
        new = self.booted()
        assert self.node_of(new) == POOL
        second = self.carrier(new)
        assert second in nodes - {first}
        self.names()
        assert self.free_places() == {POOL: 1}
        self.delete_and_free(old)
        assert self.names() == {POOL}
        assert self.free_places() == {POOL: 2}

        self.switch("scheduler")
        assert self.names() == {POOL, *nodes}
        assert self.free_places() == dict.fromkeys(nodes - {second}, 1)
        self.reboot(new)
        self.delete_and_free(new)
        assert self.names() == nodes
        assert self.free_places() == dict.fromkeys(nodes, 1)


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
        self.delete_and_free(server)

        self.compute.stop()
        self.flags(compute_driver=DRIVERS[figures.IN_TREE])
        self.compute = self.start_service("compute", "compute1")
        assert type(self.compute.manager.driver).__module__ == "nova.virt.ironic.driver"
        assert self.names() == nodes
        assert self.free_places() == dict.fromkeys(nodes, 1)
        server = self.booted()
        assert self.node_of(server) in nodes
        self.delete(server)
