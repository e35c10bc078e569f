# SPDX-License-Identifier: Apache-2.0

"""Rebuilds that keep a disk, and rebuilds that fail in Ironic, with both drivers."""

from typing import Any

import pytest
from nova import utils

from tests.nova import figures
from tests.nova.deployment import IMAGE, OTHER_IMAGE, Deployment

PARTITION = "9a1c8b5e-0000-4000-8000-000000000001"


class Rebuild(Deployment, starts=True):
    """One compute service with one node."""

    def setUp(self) -> None:
        super().setUp()
        (self.bare_metal,) = self.make_nodes(1)
        self.glance.create(
            None,
            {
                "id": PARTITION,
                "name": "partition",
                "container_format": "ami",
                "disk_format": "ami",
                "properties": {"kernel_id": IMAGE, "ramdisk_id": OTHER_IMAGE},
            },
        )

    def test_an_ephemeral_disk_is_kept_if_that_is_asked_for(self) -> None:
        self.flavor_id = self.make_flavor(ephemeral=20)
        self.start_service("compute", "compute1")
        server = self.new_server(imageRef=PARTITION)
        info = self.node(self.bare_metal)["instance_info"]
        assert (info["image_source"], info["ephemeral_gb"]) == (PARTITION, "20")
        assert "preserve_ephemeral" not in info
        # Ironic would learn that of Glance.
        self.say_image_type(self.bare_metal, "partition")
        before = self.deployed_long_ago(self.bare_metal)
        asked = {"imageRef": PARTITION, "preserve_ephemeral": True}
        with utils.temporary_mutation(self.api, microversion="2.92"):
            self.act(server, rebuild=asked)
        self.wait_for(server, "ACTIVE")
        there = self.node(self.bare_metal)
        assert there["provision_updated_at"] != before
        info = there["instance_info"]
        assert (info["image_source"], info["ephemeral_gb"]) == (PARTITION, "20")
        assert info["preserve_ephemeral"] == "True"
        self.delete(server)

    @pytest.mark.seldom
    def test_a_rebuild_that_fails_on_the_node_ends_in_error(self) -> None:
        compute = self.start_service("compute", "compute1")
        server = self.new_server()
        self.say_image_type(self.bare_metal)
        fails = {"fails": {"deploy": "the disk is gone"}}
        self.set_on_node(self.bare_metal, driver_info=fails)
        self.rebuild(server)
        self.look_at_the_failure(self.wait_for(server, "ERROR"))
        there = self.wait_for_node(self.bare_metal, "deploy failed")
        assert there["instance_uuid"] == server["id"]
        # Nova does so with any driver; the node stays reserved.
        assert self._get_allocations_by_server_uuid(server["id"]) == {}
        self.refresh(compute)
        (inventory,) = self._get_provider_inventory(self.bare_metal).values()
        assert inventory["reserved"] == 1
        self.set_on_node(self.bare_metal, driver_info={})
        self.rebuild(server)
        self.until(lambda: self.server(server)["status"], lambda seen: seen == "ACTIVE")
        assert self.node(self.bare_metal)["provision_state"] == "active"
        self.delete(server)

    def look_at_the_failure(self, server: dict[str, Any]) -> None:
        """What the server's user learns of it."""
        raise NotImplementedError


class TestRebuildInTree(Rebuild, driver=figures.IN_TREE):
    """Nova's own driver."""

    def look_at_the_failure(self, server: dict[str, Any]) -> None:
        assert "disk" not in server["fault"]["message"].replace("the disk is gone", "")


class TestRebuild(Rebuild, driver=figures.OURS):
    """Ours."""

    def look_at_the_failure(self, server: dict[str, Any]) -> None:
        told = server["fault"]["message"]
        assert "the disk may be rewritten in part" in told
        assert "the disk is gone" in told
