# SPDX-License-Identifier: Apache-2.0

"""A server's config drive, as it has come to the real Ironic."""

import base64
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import fixtures
import pytest
from nova import utils

from ironic_virt.driver.deploy import iso_image
from tests import iso_images
from tests.nova import figures
from tests.nova.deployment import OTHER_IMAGE, Deployment

pytestmark = pytest.mark.skipif(
    shutil.which("genisoimage") is None,
    reason="Nova's own driver and Ironic make config drives with genisoimage",
)

USER_DATA = "#!/bin/sh\necho told by the user who booted the server\n"
NEW_USER_DATA = "#!/bin/sh\necho told by the user who rebuilt the server\n"
PASSWORD = "only-the-server-may-know"
NEW_PASSWORD = "only-the-rebuilt-server-may-know"
FILE = "/etc/motd"

_AS_THE_CONDUCTOR_DOES = """
import json, sys, types
try:
    from ironic.conductor.configdrive_utils import get_configdrive_image
except ImportError:
    # Up to 2025.2.
    from ironic.conductor.utils import get_configdrive_image
drive = json.load(sys.stdin)
node = types.SimpleNamespace(uuid="a", name="b", instance_info={"configdrive": drive})
print(get_configdrive_image(node))
"""


class ConfigDrive(Deployment, starts=True):
    """What both drivers send."""

    def image_on(self, node: str) -> bytes:
        """The image that an agent would put on the node."""
        kept = self.kept_by_ironic(node)["configdrive"]
        if not isinstance(kept, str):
            arguments = [self._real.environment.python, "-c", _AS_THE_CONDUCTOR_DOES]
            kept = subprocess.run(
                arguments, input=json.dumps(kept), capture_output=True, text=True, check=True
            ).stdout
        return iso_images.unpacked(kept)

    def documents(self, node: str) -> dict[str, Any]:
        """What is in OpenStack's newest directory of it, but for what is random."""
        image = iso_images.contents(self.image_on(node))
        names = ("meta_data.json", "network_data.json", "vendor_data2.json", "user_data")
        found = {name: self.document(image, name) for name in names}
        assert found["meta_data.json"].pop("random_seed")
        return found

    def document(self, image: dict[str, bytes], name: str) -> Any:
        text = image[f"openstack/latest/{name}"].decode()
        return json.loads(text) if text and name.endswith("json") else text

    def boot_with_drive(self, networks: Any, **more: Any) -> dict[str, Any]:
        """Request a server with a large config drive."""
        self.start_service("compute", "compute1")
        return self.boot(
            "told-of-itself",
            networks,
            config_drive=True,
            user_data=base64.b64encode(USER_DATA.encode()).decode(),
            adminPass=PASSWORD,
            metadata={"colour": "green"},
            **more,
        )

    def test_it_comes_to_ironic_whole_and_is_shown_to_nobody(self) -> None:
        (node,) = self.make_nodes(1)
        (port,) = self.ironic("GET", f"/ports?node={node}")["ports"]
        server = self.boot_with_drive([{"port": self.neutron.port_1["id"]}])
        self.wait_for(server, "ACTIVE")

        image = self.image_on(node)
        assert iso_images.label(image) == "config-2"
        # Word for word the same of both drivers.
        network = self.neutron.network_1["id"]
        link, vif = "tapce531f90-19", self.neutron.port_1["id"]
        address = port["address"]
        assert self.documents(node) == {
            "meta_data.json": {
                "uuid": server["id"],
                "meta": {"colour": "green"},
                "admin_pass": PASSWORD,
                "hostname": "told-of-itself.novalocal",
                "name": "told-of-itself",
                "launch_index": 0,
                "availability_zone": "nova",
                "project_id": self.api.project_id,
                "devices": [],
                "dedicated_cpus": [],
            },
            "network_data.json": {
                "links": [
                    {
                        "id": link,
                        "vif_id": vif,
                        "type": "phy",
                        "mtu": 1450,
                        "ethernet_mac_address": address,
                    }
                ],
                "networks": [
                    {"id": "network0", "type": "ipv4_dhcp", "link": link, "network_id": network}
                ],
                "services": [],
            },
            "vendor_data2.json": {"static": {}},
            "user_data": USER_DATA,
        }
        assert self.node(node)["instance_info"]["configdrive"] == "******"
        log = self.stdlog.logger.output
        assert node in log
        kept = self.kept_by_ironic(node)["configdrive"]
        for secret in (PASSWORD, kept[:60] if isinstance(kept, str) else "told by the user"):
            assert secret not in log

    def test_a_rebuild_brings_a_new_one(self) -> None:
        (node,) = self.make_nodes(1)
        server = self.boot_with_drive([{"port": self.neutron.port_1["id"]}])
        self.wait_for(server, "ACTIVE")
        self.say_image_type(node)
        asked = {
            "imageRef": OTHER_IMAGE,
            "user_data": base64.b64encode(NEW_USER_DATA.encode()).decode(),
            "adminPass": NEW_PASSWORD,
            "metadata": {"colour": "blue"},
        }
        with utils.temporary_mutation(self.api, microversion="2.92"):
            self.act(server, rebuild=asked)
        self.wait_for(server, "ACTIVE")
        told = self.documents(node)
        assert told["user_data"] == NEW_USER_DATA
        assert told["meta_data.json"]["meta"] == {"colour": "blue"}
        assert told["meta_data.json"]["admin_pass"] == NEW_PASSWORD
        assert told["meta_data.json"]["uuid"] == server["id"]
        log = self.stdlog.logger.output
        assert node in log
        for secret in (PASSWORD, NEW_PASSWORD, "told by the user"):
            assert secret not in log

    def test_injected_files_are_on_an_image(self) -> None:
        (node,) = self.make_nodes(1)
        content = b"hello, and welcome"
        personality = [{"path": FILE, "contents": base64.b64encode(content).decode()}]
        port = {"port": self.neutron.port_1["id"]}
        with utils.temporary_mutation(self.api, microversion="2.56"):
            server = self.boot_with_drive([port], personality=personality)
        self.wait_for(server, "ACTIVE")
        assert isinstance(self.kept_by_ironic(node)["configdrive"], str)
        assert content in self.image_on(node)
        (file,) = self.documents(node)["meta_data.json"]["files"]
        assert file["path"] == FILE

    def test_what_an_operator_tells_all_servers_is_on_it(self) -> None:
        path = Path(self.useFixture(fixtures.TempDir()).path, "vendor.json")
        path.write_text(json.dumps({"mirror": "http://mirror.example.org"}))
        self.flags(vendordata_jsonfile_path=str(path), group="api")
        (node,) = self.make_nodes(1)
        self.wait_for(self.boot_with_drive([{"port": self.neutron.port_1["id"]}]), "ACTIVE")
        image = iso_images.contents(self.image_on(node))
        assert self.document(image, "vendor_data.json") == {"mirror": "http://mirror.example.org"}
        static = self.documents(node)["vendor_data2.json"]["static"]
        assert static == {"mirror": "http://mirror.example.org"}


class TestConfigDriveInTree(ConfigDrive, driver=figures.IN_TREE):
    """Nova's own driver."""

    def test_it_fails_for_a_server_without_networks(self) -> None:
        (node,) = self.make_nodes(1)
        self.wait_for(self.boot_with_drive("none"), "ERROR")
        assert "configdrive" not in self.kept_by_ironic(node)


class TestConfigDrive(ConfigDrive, driver=figures.OURS):
    """Ours."""

    def test_a_server_without_networks_has_one_too(self) -> None:
        (node,) = self.make_nodes(1)
        self.flags(mkisofs_cmd="a-program-that-is-not-there")
        self.wait_for(self.boot_with_drive("none"), "ACTIVE")
        assert self.kept_by_ironic(node)["configdrive"]["user_data"] == USER_DATA

    def test_a_rebuild_without_a_config_drive_leaves_the_server(self) -> None:
        (node,) = self.make_nodes(1)
        self.flags(config_drive_form="iso", group="ironic")
        self.flags(mkisofs_cmd="a-program-that-is-not-there")
        server = self.boot_with_drive("none")
        self.wait_for(server, "ACTIVE")
        before = self.kept_by_ironic(node)
        assert isinstance(before["configdrive"], str)

        def image(files: Any) -> bytes:
            raise iso_image.NotMade("the host has no memory left")

        self.useFixture(
            fixtures.MonkeyPatch("ironic_virt.driver.deploy.iso_image.make_image", image)
        )
        self.act(server, rebuild={"imageRef": OTHER_IMAGE})
        told = self.until(
            lambda: self.told_by_the_events(server), lambda told: "config drive" in told
        )
        assert "the disk is as it was" in told
        self.wait_for(server, "ACTIVE")
        assert self.kept_by_ironic(node) == before
