# SPDX-License-Identifier: Apache-2.0

"""Hooks of a project that is installed next to Nova: the example of the documentation."""

import dataclasses
import json
import shutil
import types
from pathlib import Path
from typing import Any

import pytest
from nova import exception

from ironic_virt import virt
from ironic_virt.driver import hooks
from ironic_virt.nova import config_drive
from tests import entry_points, iso_images
from tests.nova import figures
from tests.nova.deployment import Deployment

EXAMPLE = Path(__file__).parents[2] / "doc" / "source" / "examples" / "storage_network.py"
STORAGE = "02:b0:4d:00:05:07"


class TooLate(hooks.Hook):
    """Fails when all is done."""

    def after_deploy(self, deployment: hooks.Deployment) -> None:
        raise LookupError("no inventory at https://inventory.internal.test")


class WithHooks(Deployment, driver=figures.OURS, hook="storage_network"):
    """One compute service with a hook."""

    @pytest.fixture(autouse=True)
    def _given(self, ironic, tmp_path, monkeypatch) -> None:
        self._real = ironic
        site = tmp_path / "storage"
        points = {
            "storage_network": "storage_network:StorageNetwork",
            "too_late": f"{__name__}:TooLate",
        }
        entry_points.install(site, monkeypatch, hooks.NAMESPACE, points)
        shutil.copy(EXAMPLE, site)

    def setUp(self) -> None:
        super().setUp()
        self.start_nova(self._real, hooks=[self.hook])

    def plug_in(self, node: str) -> None:
        """Give a node a port in the storage network."""
        port = {
            "node_uuid": node,
            "address": STORAGE,
            "physical_network": "storage",
            "pxe_enabled": False,
            "extra": {"storage_address": "10.7.0.4/24"},
        }
        self.ironic("POST", "/ports", port)

    def boot_for_storage(self, **more: Any) -> dict[str, Any]:
        """Ask for a server that wants the second network."""
        return self.boot(
            networks=[{"port": self.neutron.port_1["id"]}],
            config_drive=True,
            metadata={"storage": "wanted"},
            **more,
        )

    def look_at(self, data: dict[str, Any]) -> None:
        """See that the network data have both networks."""
        own, storage = data["links"]
        assert own["vif_id"] == self.neutron.port_1["id"]
        assert (storage["ethernet_mac_address"], storage["mtu"]) == (STORAGE, 9000)
        assert [network["link"] for network in data["networks"]] == [own["id"], storage["id"]]
        assert data["networks"][1]["ip_address"] == "10.7.0.4"


def test_novas_image_has_the_changes_in_each_version() -> None:
    novas = {
        "ec2/latest/meta-data.json": b'{"hostname": "web"}',
        "openstack/2012-08-10/meta_data.json": b'{"uuid": "u", "name": "web"}',
        "openstack/latest/meta_data.json": b'{"uuid": "u", "name": "web", "devices": []}',
        "openstack/latest/network_data.json": "{}",
        "openstack/latest/user_data": b"#!/bin/sh",
    }
    metadata = types.SimpleNamespace(metadata_for_config_drive=novas.items)
    given = virt.ConfigDrive(
        meta_data={"uuid": "u", "name": "web", "devices": []}, network_data={}
    )
    changes = {"meta_data": {"uuid": "u", "name": "WEB", "rack": 1}, "network_data": {"links": []}}
    wanted = dataclasses.replace(given, **changes)
    found = iso_images.contents(config_drive._image(metadata, given, wanted))
    assert found.keys() == novas.keys()
    same = {"ec2/latest/meta-data.json", "openstack/latest/user_data"}
    assert {path: found[path] for path in same} == {path: novas[path] for path in same}
    changed = {path: json.loads(found[path]) for path in found if path not in same}
    assert changed == {
        "openstack/2012-08-10/meta_data.json": {"uuid": "u", "name": "WEB", "rack": 1},
        "openstack/latest/meta_data.json": {"uuid": "u", "name": "WEB", "rack": 1},
        "openstack/latest/network_data.json": {"links": []},
    }


class TestExample(WithHooks):
    """Each server that requests it gets the storage network's data."""

    def test_a_hook_names_another_network_at_a_build_and_a_rebuild(self) -> None:
        (node,) = self.make_nodes(1)
        self.plug_in(node)
        self.start_service("compute", "compute1")
        server = self.wait_for(self.boot_for_storage(), "ACTIVE")
        told = self.kept_by_ironic(node)["configdrive"]
        self.look_at(told["network_data"])
        assert told["meta_data"]["meta"] == {"storage": "wanted"}
        self.say_image_type(node)
        self.rebuild(server)
        self.wait_for(server, "ACTIVE")
        self.look_at(self.kept_by_ironic(node)["configdrive"]["network_data"])
        self.delete(server)

    def test_an_image_says_it_in_each_version_of_the_document(self) -> None:
        self.flags(config_drive_form="iso", group="ironic")
        (node,) = self.make_nodes(1)
        self.plug_in(node)
        self.start_service("compute", "compute1")
        server = self.wait_for(self.boot_for_storage(), "ACTIVE")
        image = iso_images.contents(iso_images.unpacked(self.kept_by_ironic(node)["configdrive"]))
        documents = [path for path in image if path.endswith("/network_data.json")]
        assert len(documents) > 2
        for path in documents:
            self.look_at(json.loads(image[path]))
        self.delete(server)

    def test_a_server_that_declines_the_hook_has_its_own_network(self) -> None:
        node = self.start_with_a_node()
        port = {"port": self.neutron.port_1["id"]}
        server = self.new_server(networks=[port], config_drive=True)
        (link,) = self.kept_by_ironic(node)["configdrive"]["network_data"]["links"]
        assert link["vif_id"] == self.neutron.port_1["id"]
        self.delete(server)

    def test_a_node_that_a_hook_refuses_is_given_back_and_says_why(self) -> None:
        node = self.start_with_a_node()
        server = self.wait_for(self.boot_for_storage(), "ERROR")
        said = "hook 'storage_network' refused the deployment: its node has no storage port"
        assert said in self.told_by_the_events(server).replace("\\'", "'")
        there = self.node(node)
        assert (there["provision_state"], there["instance_uuid"]) == ("available", None)
        assert there["instance_info"] == {}
        self.delete(server)


class TestFailing(WithHooks, hook="too_late"):
    """A hook that fails when the node is active."""

    def test_the_build_fails_and_no_other_node_is_tried(self) -> None:
        nodes = self.make_nodes(2)
        self.start_service("compute", "compute1")
        server = self.wait_for(self.boot(), "ERROR")
        message = server["fault"]["message"]
        assert "hook 'too_late' failed in after_deploy (LookupError)" in message
        assert "internal" not in message
        assert "no inventory at https://inventory.internal.test" in self.stdlog.logger.output
        for node in nodes:
            there = self.wait_for_node(node, "available")
            assert there["instance_uuid"] is None
        deployed = [node for node in nodes if self.node(node)["provision_updated_at"]]
        assert len(deployed) == 1
        self.delete(server)


class TestUnknown(WithHooks, hook="storage_networks"):
    """A hook that is not installed."""

    def test_nova_compute_does_not_start(self) -> None:
        said = (
            r"\[ironic\] hooks: storage_networks is not installed; there are: storage_network, "
            "too_late"
        )
        with pytest.raises(exception.InvalidConfiguration, match=said):
            self.start_service("compute", "compute1")
