# SPDX-License-Identifier: Apache-2.0

"""What flavor, image and project say of a deployment, as written to the node; both drivers."""

import json
from typing import ClassVar

from nova import utils

from tests.nova import figures
from tests.nova.deployment import Deployment

FAST_IMAGE = "9a1c8b5e-0000-4000-8000-000000000011"
CAPABILITIES = {"boot_mode": "uefi", "secure_boot": "true"}


class Deploying(Deployment, starts=True):
    """One compute service."""

    options: ClassVar = {"api_retry_interval": 1}

    def start(self) -> None:
        self.compute = self.start_service("compute", "compute1")

    def reserved(self, node: str) -> int:
        """What Placement knows."""
        return self._get_provider_inventory(node)["CUSTOM_BAREMETAL_GOLD"]["reserved"]

    def test_traits_and_capabilities_pick_the_node_and_reach_ironic(self) -> None:
        told = ",".join(f"{name}:{value}" for name, value in CAPABILITIES.items())
        properties = {"cpus": 8, "memory_mb": 16384, "local_gb": 100, "cpu_arch": "x86_64"}
        self.make_nodes(1, traits=["CUSTOM_GPU"])
        (right,) = self.make_nodes(
            1,
            traits=["CUSTOM_GPU", "CUSTOM_FAST", "CUSTOM_MORE"],
            properties={**properties, "capabilities": told},
        )
        self.make_nodes(1, traits=["CUSTOM_GPU", "CUSTOM_FAST"])
        self.glance.create(
            None,
            {
                "id": FAST_IMAGE,
                "name": "fast",
                "container_format": "bare",
                "disk_format": "raw",
                "properties": {"trait:CUSTOM_FAST": "required"},
            },
        )
        self.flavor_id = self.make_flavor(trait__CUSTOM_GPU="required")
        wanted = {f"capabilities:{name}": value for name, value in CAPABILITIES.items()}
        # From 2.86 on the API knows of no capabilities but its own.
        with utils.temporary_mutation(self.api, microversion="2.85"):
            self.api.post_extra_spec(self.flavor_id, {"extra_specs": wanted})
        self.start()
        server = self.new_server("asking", imageRef=FAST_IMAGE)
        assert self.node_of(server) == right
        info = self.node(right)["instance_info"]
        assert sorted(info["traits"]) == ["CUSTOM_FAST", "CUSTOM_GPU"]
        assert json.loads(info["capabilities"]) == CAPABILITIES
        assert (info["display_name"], info["nova_host_id"]) == ("asking", "compute1")
        # Ironic has a field for it from 1.104 on.
        assert self.node(right).get("instance_name", "asking") == "asking"
        self.delete(server)
        assert self.wait_for_node(right, "available")["instance_info"] == {}

    def test_a_protected_node_keeps_its_server(self) -> None:
        (node,) = self.make_nodes(1)
        self.start()
        server = self.new_server()
        self.set_on_node(node, protected=True, protected_reason="runs the till")
        self.api.delete_server(server["id"])
        failed = self.until(
            lambda: self.server(server), lambda seen: seen["status"] == "ERROR" and "fault" in seen
        )
        self.look_at_the_advice(failed["fault"]["message"])
        there = self.node(node)
        assert (there["provision_state"], there["instance_uuid"]) == ("active", server["id"])
        self.set_on_node(node, protected=False)
        self.delete_and_free(server)

    def look_at_the_advice(self, told: str) -> None:
        """Check the advice to the user of a server on a protected node."""
        raise NotImplementedError

    def test_a_retired_node_is_not_offered_after_its_server(self) -> None:
        (node,) = self.make_nodes(1)
        self.start()
        server = self.new_server()
        self.set_on_node(node, retired=True)
        self.delete(server)
        self.wait_for_node(node, "manageable")
        self.refresh(self.compute)
        assert self.reserved(node) == 1
        refused = self.wait_for(self.boot("another"), "ERROR")
        assert "No valid host" in refused["fault"]["message"]


class TestDeployingInTree(Deploying, driver=figures.IN_TREE):
    """Nova's own driver."""

    def look_at_the_advice(self, told: str) -> None:
        assert told == "ForbiddenException"


class TestDeploying(Deploying, driver=figures.OURS):
    """Ours, and what only ours does."""

    def look_at_the_advice(self, told: str) -> None:
        assert "is protected (runs the till); take the protection off in Ironic first" in told
        assert "openstack baremetal node unset --protected" in told

    def test_the_project_is_the_nodes_lessee_while_its_server_lives(self) -> None:
        self.flags(project_fields=["lessee"], group="ironic")
        (node,) = self.make_nodes(1)
        self.start()
        assert self.node(node)["lessee"] is None
        server = self.new_server()
        there = self.node(node)
        assert there["lessee"] == self.server(server)["tenant_id"]
        self.delete(server)
        assert self.wait_for_node(node, "available")["lessee"] is None
