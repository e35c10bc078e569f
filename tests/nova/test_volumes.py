# SPDX-License-Identifier: Apache-2.0

"""Servers with volumes, with Nova's in-tree driver and with ours.

Cinder is Nova's stand-in, Ironic's storage interface the real one for Cinder, which
looks at connectors and targets when the node is validated.
"""

import itertools
from typing import Any

from nova.tests import fixtures as nova_fixtures

from tests.nova import figures
from tests.nova.deployment import IMAGE, Deployment

ROOT = "5f0e7a3c-0000-4000-8000-000000000000"
DATA = ["5f0e7a3c-0000-4000-8000-000000000001", "5f0e7a3c-0000-4000-8000-000000000002"]
CHAP_SECRET = "chap-secret-0815"
NUMBERS = itertools.count(1)


def disk(volume: str, index: int) -> dict[str, Any]:
    """A volume in a request for a server."""
    return {
        "source_type": "volume",
        "destination_type": "volume",
        "uuid": volume,
        "boot_index": index,
    }


class Volumes(Deployment, starts=True):
    """What both drivers go through."""

    def setUp(self) -> None:
        super().setUp()
        self.cinder = self.useFixture(nova_fixtures.CinderFixture(self))
        self.cinder.VOLUME_CONNECTION_INFO = {
            volume: {
                "driver_volume_type": "iscsi",
                "data": {
                    "target_iqn": f"iqn.2026-01.test:{volume}",
                    "target_lun": 1,
                    "auth_method": "CHAP",
                    "auth_password": CHAP_SECRET,
                },
            }
            for volume in (ROOT, *DATA)
        }
        properties = {"cpu_arch": "x86_64", "capabilities": "iscsi_boot:True"}
        (self.storage_node,) = self.make_nodes(
            1, properties=properties, fields={"storage_interface": "cinder"}
        )
        self.iqn = f"iqn.2026-01.test:{self.driver}-{next(NUMBERS)}"
        connector = {"node_uuid": self.storage_node, "type": "iqn", "connector_id": self.iqn}
        self.ironic("POST", "/volume/connectors", connector)
        self.start_service("compute", "compute1")

    def targets(self) -> list[tuple[int, str]]:
        """What the node is to have: boot indices and volumes."""
        path = f"/volume/targets?node={self.storage_node}&detail=true"
        listed = self.ironic("GET", path)["targets"]
        return sorted((target["boot_index"], target["volume_id"]) for target in listed)

    def test_boot_from_a_volume(self) -> None:
        server = self.new_server(imageRef="", block_device_mapping_v2=[disk(ROOT, 0)])
        there = self.node(self.storage_node)
        assert (there["provision_state"], there["instance_uuid"]) == ("active", server["id"])
        assert "image_source" not in there["instance_info"]
        assert self.targets() == [(0, ROOT)]
        (attachment,) = self.cinder.volume_to_attachment[ROOT].values()
        connector = attachment["connector"]
        assert (connector["initiator"], connector["platform"]) == (self.iqn, "x86_64")
        assert (connector["os_type"], connector["multipath"]) == ("baremetal", False)
        assert connector["host"]
        self.delete_and_free(server)
        self.check_what_is_left()
        assert not self.cinder.volume_to_attachment[ROOT]

    def test_a_server_that_boots_from_a_volume_is_not_rebuilt(self) -> None:
        server = self.new_server(imageRef="", block_device_mapping_v2=[disk(ROOT, 0)])
        # Ironic lets go of the node a little later than Nova is done.
        before, sent = self.wait_for_node(self.storage_node, "active"), len(self.counted.log)
        self.rebuild(server, IMAGE, microversion="2.93")
        self.look_at_the_refusal(server)
        asked = [line for line in self.counted.log[sent:] if line.startswith("ironic ")]
        assert {line.split()[1] for line in asked} <= {"GET"}
        assert self.node(self.storage_node) == before
        assert self.targets() == [(0, ROOT)]
        self.delete(server)

    def look_at_the_refusal(self, server: dict[str, Any]) -> None:
        """What becomes of a server that can't be rebuilt."""
        raise NotImplementedError

    def check_what_is_left(self) -> None:
        """See what the node still has of the server's volumes."""
        raise NotImplementedError


class TestVolumesInTree(Volumes, driver=figures.IN_TREE):
    """Nova's own driver."""

    def look_at_the_refusal(self, server: dict[str, Any]) -> None:
        failed = self.wait_for(server, "ERROR")
        assert "volume backed" in failed["fault"]["message"]

    def check_what_is_left(self) -> None:
        """Of Nova's own driver anything: it doesn't wait until cleaning lets go of the node."""

    def test_two_volumes_for_data_are_one_too_many(self) -> None:
        """Nova gives both the boot index -1, and Ironic takes no two of an index."""
        disks = [disk(volume, -1) for volume in DATA]
        server = self.boot(block_device_mapping_v2=[*disks, IMAGE_DISK])
        self.wait_for(server, "ERROR")
        self.delete(server)


class TestVolumes(Volumes):
    """Ours."""

    def look_at_the_refusal(self, server: dict[str, Any]) -> None:
        self.until(
            lambda: self.told_by_the_events(server),
            lambda told: "rebuilding a server that boots from a volume" in told,
        )
        self.wait_for(server, "ACTIVE")

    def check_what_is_left(self) -> None:
        """Nothing."""
        assert self.targets() == []

    def test_a_build_that_is_refused_gives_its_volumes_back(self) -> None:
        self.flavor_id = self.make_flavor(ironic__deploy_steps="7")
        server = self.boot(imageRef="", block_device_mapping_v2=[disk(ROOT, 0)])
        failed = self.wait_for(server, "ERROR")
        assert "ironic:deploy_steps" in failed["fault"]["message"]
        assert not self.cinder.volume_to_attachment[ROOT]
        self.delete(server)

    def test_two_volumes_for_data_and_no_more_at_run_time(self) -> None:
        disks = [disk(volume, -1) for volume in DATA]
        server = self.new_server(block_device_mapping_v2=[*disks, IMAGE_DISK])
        assert self.node(self.storage_node)["instance_info"]["image_source"] == IMAGE
        assert self.targets() == [(1, DATA[0]), (2, DATA[1])]
        self.api.post_server_volume(server["id"], {"volumeAttachment": {"volumeId": ROOT}})
        self.until(
            lambda: self.told_by_the_events(server),
            lambda told: "when the server is created" in told,
        )
        self.until(lambda: self.cinder.volume_to_attachment[ROOT], lambda left: not left)
        assert [index for index, _ in self.targets()] == [1, 2]
        self.delete_and_free(server)
        assert self.targets() == []


IMAGE_DISK = {
    "source_type": "image",
    "destination_type": "local",
    "uuid": IMAGE,
    "boot_index": 0,
    "delete_on_termination": True,
}
