# SPDX-License-Identifier: Apache-2.0

"""Compute services that Nova does not know yet, on nodes that are in use already."""

import logging

from nova import context

from tests.nova.services import Services


class TestNewServices(Services):
    """Ours."""

    def told(self, level: int) -> list[str]:
        """What our part of a service has logged at a level or above it."""
        return [
            line
            for line in self.stdlog.logger.output.splitlines()
            if "[ironic_virt." in line
            and any(f" {logging.getLevelName(one)} " in line for one in range(level, 51, 10))
        ]

    def test_a_new_service_has_a_node_of_a_deleted_server(self) -> None:
        self.start_nova(self._real)
        (node,) = self.make_nodes(1)
        compute = self.start_compute("compute1")
        deleted = self.boot_at("compute1", node)
        compute.stop()
        self.force_down("compute1")
        self.delete(deleted)
        (service,) = self.api.get_services(host="compute1", binary="nova-compute")
        self.api.api_delete(f"/os-services/{service['id']}")
        assert self.node(node)["instance_uuid"] == deleted["id"]
        compute = self.start_compute("compute1")
        # Nova's periodic task for servers that run on although they are deleted.
        compute.manager._cleanup_running_deleted_instances(context.get_admin_context())
        assert self.wait_for_node(node, "available")["instance_uuid"] is None

    def test_a_second_service_joins_a_pool_that_is_in_use(self) -> None:
        self.start_nova(
            self._real, node_selection="ironic", capacity="total", api_retry_interval=1
        )
        self.flags(max_attempts=1, group="scheduler")
        nodes = self.make_nodes(2)
        first = self.start_compute("compute1")
        server = self.new_server()
        second = self.start_compute("compute2")
        self.refresh(first, second)
        assert self.told(logging.WARNING) == []
        assert second.manager.driver.list_instance_uuids() == [server["id"]]

        # Both offer the other node, until their next period.
        (free,) = {*nodes} - {self.carrier(server)}
        self.ironic("PUT", f"/nodes/{free}/maintenance", {})
        refused = self.boot("one too many")
        self.wait_for(refused, "ERROR")
        assert "there is no node that would do" in self.told_by_the_events(refused)
        assert self.told(logging.ERROR) == []
        self.delete(refused)
        self.delete(server)
