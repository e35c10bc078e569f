# SPDX-License-Identifier: Apache-2.0

"""A compute service that goes away and comes back, and an Ironic that does."""

import pytest
from keystoneauth1.exceptions import DiscoveryFailure
from nova import context

from ironic_virt.testing.fault_proxy import FaultProxy
from tests.nova import figures
from tests.nova.services import Services


class Outages(Services):
    """One compute service, which is known to Nova already."""

    def test_a_service_goes_and_comes_back(self) -> None:
        self.start_nova(self._real)
        nodes = self.make_nodes(2)
        compute = self.start_compute("compute1")
        kept, deleted = (self.boot_at("compute1", node, f"on-{node}") for node in nodes)
        before = self.record_ids()
        compute.stop()
        self.force_down("compute1")
        # Nova deletes its records; the node knows nothing of it yet.
        self.delete(deleted)
        assert self.node(nodes[1])["instance_uuid"] == deleted["id"]
        self.force_down("compute1", False)
        compute = self.compute = self.start_compute("compute1")
        # Nova's periodic task for servers that run on although they are deleted.
        compute.manager._cleanup_running_deleted_instances(context.get_admin_context())
        self.refresh(compute)
        assert self.record_ids() == before
        self.see_to_what_is_deleted(nodes[1], deleted["id"])
        assert self.server(kept)["status"] == "ACTIVE"
        assert self.node(nodes[0])["instance_uuid"] == kept["id"]
        self.reboot(kept)
        self.delete(kept)

    def see_to_what_is_deleted(self, node: str, uuid: str) -> None:
        """The node of a server that was deleted while its service was down."""
        raise NotImplementedError

    def restart_without_ironic(self) -> None:
        """A service that has a server starts while Ironic is away; then Ironic comes back."""
        with FaultProxy(self._real.url) as proxy:
            self.start_nova(self._real, endpoint_override=proxy.url, api_max_retries=1)
            (node,) = self.make_nodes(1)
            compute = self.start_compute("compute1")
            server = self.boot_at("compute1", node)
            # Fake hardware is off after a deployment.  With so few tries nobody waits for a lock.
            self.wait_for_node(node, "active")
            self.reboot(server)
            before = self.records()
            compute.stop()
            with proxy.away():
                compute = self.start_compute("compute1")
                self.refresh(compute)
                assert self.records() == before
                assert self.server(server)["OS-EXT-STS:power_state"] == RUNNING
            self.refresh(compute)
            assert self.records() == before
            assert compute.manager.driver.get_available_nodes() == [node]
            self.reboot(server)
            self.wait_for_node(node, "active")
            self.delete_and_free(server)


RUNNING = 1


class TestOutagesInTree(Outages, driver=figures.IN_TREE):
    """Nova's own driver."""

    def see_to_what_is_deleted(self, node: str, uuid: str) -> None:
        there = self.node(node)
        assert (there["provision_state"], there["instance_uuid"]) == ("active", uuid)

    def test_ironic_is_away_when_the_service_starts(self) -> None:
        with pytest.raises(DiscoveryFailure):
            self.restart_without_ironic()


class TestOutages(Outages, driver=figures.OURS):
    """Ours."""

    def see_to_what_is_deleted(self, node: str, uuid: str) -> None:
        assert self.wait_for_node(node, "available")["instance_uuid"] is None
        self.refresh(self.compute)
        self.delete(self.boot_at("compute1", node, "again"))

    def test_ironic_is_away_when_the_service_starts(self) -> None:
        self.restart_without_ironic()
