# SPDX-License-Identifier: Apache-2.0

"""Interfaces that come to a server and go, with Nova's in-tree driver and with ours."""

from typing import Any

import pytest
from nova.tests.functional.api import client

from tests.nova import figures
from tests.nova.deployment import Deployment


class Interfaces(Deployment, starts=True):
    """What both drivers go through."""

    def attach(self, server: dict[str, Any]) -> str:
        """The port of an interface that is attached to Nova's only network."""
        wanted = {"interfaceAttachment": {"net_id": self.neutron.network_1["id"]}}
        answer = self.api.attach_interface(server["id"], wanted)
        return answer.body["interfaceAttachment"]["port_id"]

    def interfaces(self, server: dict[str, Any]) -> list[str]:
        """The ports that Nova says a server has."""
        return sorted(one["port_id"] for one in self.api.get_port_interfaces(server["id"]))

    def vifs(self, node: str) -> list[str]:
        """The ports that Ironic says a node has."""
        return sorted(vif["id"] for vif in self.ironic("GET", f"/nodes/{node}/vifs")["vifs"])

    def test_attached_and_detached(self) -> None:
        node = self.start_with_a_node(ports=2)
        first = self.neutron.port_1["id"]
        server = self.new_server(networks=[{"port": first}])
        second = self.attach(server)
        assert self.vifs(node) == self.interfaces(server) == sorted([first, second])
        before = self.all_ports()
        with pytest.raises(client.OpenStackApiException) as caught:
            self.attach(server)
        assert caught.value.response.status_code == 500
        # What Nova made for it is gone again.
        assert self.all_ports() == before
        assert self.vifs(node) == self.interfaces(server) == sorted([first, second])
        self.look_at_the_refusal(server)
        self.api.detach_interface(server["id"], second)
        self.until(lambda: self.interfaces(server), lambda seen: seen == [first])
        assert self.vifs(node) == [first]
        self.delete_and_free(server)
        assert self.vifs(node) == []
        # Whoever is bound before Ironic says so might reach the agent on the node.
        assert self.bound_to == []

    def test_a_port_that_somebody_deletes_comes_off_the_node(self) -> None:
        node = self.start_with_a_node(ports=2)
        first = self.neutron.port_1["id"]
        server = self.new_server(networks=[{"port": first}])
        second = self.attach(server)
        assert self.vifs(node) == sorted([first, second])
        self.neutron.delete_port(second)
        # So Neutron tells Nova.
        event = {"name": "network-vif-deleted", "server_uuid": server["id"], "tag": second}
        self.api.create_server_external_events([event])
        self.until(lambda: self.vifs(node), lambda seen: seen == [first])
        self.delete(server)

    def test_a_build_on_a_node_without_a_port(self) -> None:
        bare = self.start_with_a_node(ports=0)
        server = self.boot(networks=[{"port": self.neutron.port_1["id"]}])
        failed = self.wait_for(server, "ERROR")
        self.look_at_the_failure(server, failed["fault"]["message"])
        there = self.wait_for_node(bare, "available")
        assert there["instance_uuid"] is None
        assert self.neutron.port_1["id"] in self.all_ports()

    def all_ports(self) -> list[str]:
        """All of Neutron's."""
        return sorted(port["id"] for port in self.neutron.list_ports(True)["ports"])

    def look_at_the_refusal(self, server: dict[str, Any]) -> None:
        """What the server's user learns of an interface for which there is no port."""

    def look_at_the_failure(self, server: dict[str, Any], fault: str) -> None:
        """What the server's user learns of a build for whose port there is none."""


class TestInterfacesInTree(Interfaces, driver=figures.IN_TREE):
    """Nova's own driver."""

    def look_at_the_refusal(self, server: dict[str, Any]) -> None:
        assert "free physical ports" not in self.told_by_the_events(server)

    def look_at_the_failure(self, server: dict[str, Any], fault: str) -> None:
        assert "Failure prepping block device" in fault
        assert "free physical ports" not in self.told_by_the_events(server)


class TestInterfaces(Interfaces, driver=figures.OURS):
    """Ours."""

    def look_at_the_refusal(self, server: dict[str, Any]) -> None:
        assert "not enough free physical ports" in self.told_by_the_events(server)

    def look_at_the_failure(self, server: dict[str, Any], fault: str) -> None:
        assert "aborted" not in fault
        assert "not enough free physical ports" in self.told_by_the_events(server)
