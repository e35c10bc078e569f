# SPDX-License-Identifier: Apache-2.0

"""The stand-in for Neutron."""

from http import HTTPStatus

from tools.real_ironic.configuration import CLEANING_NETWORK
from tools.real_ironic.neutron import REFUSES, Network

PORT = "/v2.0/ports/6b9dc1b3-1b7e-44a5-9d44-61bd6ec4f2f0"


def test_version_discovery_leads_to_version_two():
    network = Network()
    network.url = "http://there"
    _, body = network.handle("GET", "/", {})
    assert body["versions"][0]["links"][0]["href"] == "http://there/v2.0/"


def test_every_uuid_is_an_unbound_port_and_nothing_else_is():
    network = Network()
    status, body = network.handle("GET", PORT, {})
    assert status == HTTPStatus.OK
    assert body["port"]["binding:host_id"] == ""
    assert body["port"]["network_id"] == CLEANING_NETWORK
    status, body = network.handle("GET", "/v2.0/ports/nothing", {})
    assert status == HTTPStatus.NOT_FOUND
    assert "nothing" in body["NeutronError"]["message"]


def test_an_update_is_remembered():
    network = Network()
    network.handle("PUT", PORT, {"port": {"mac_address": "02:00:00:00:00:01"}})
    network.handle("PUT", PORT, {"port": {"binding:host_id": "node"}})
    _, body = network.handle("GET", PORT, {})
    assert body["port"]["mac_address"] == "02:00:00:00:00:01"
    assert body["port"]["binding:host_id"] == "node"


def test_a_port_refuses_what_it_is_told_to():
    network = Network()
    network.handle("PUT", PORT, {"port": {REFUSES: "binding:vnic_type"}})
    status, _ = network.handle("PUT", PORT, {"port": {"binding:vnic_type": "baremetal"}})
    assert status == HTTPStatus.CONFLICT
    status, _ = network.handle("PUT", PORT, {"port": {"binding:host_id": "node"}})
    assert status == HTTPStatus.OK


def test_created_ports_are_listed_by_what_they_are_until_deleted():
    network = Network()
    status, body = network.handle("POST", "/v2.0/ports", {"port": {"device_id": "a"}})
    assert status == HTTPStatus.CREATED
    network.handle("POST", "/v2.0/ports", {"port": {"device_id": "b"}})
    _, listed = network.handle("GET", "/v2.0/ports?device_id=a", {})
    assert listed["ports"] == [body["port"]]
    status, _ = network.handle("DELETE", f"/v2.0/ports/{body['port']['id']}", {})
    assert status == HTTPStatus.NO_CONTENT
    assert network.handle("GET", "/v2.0/ports?device_id=a", {})[1] == {"ports": []}


def test_there_is_one_network():
    network = Network()
    assert network.handle("GET", f"/v2.0/networks/{CLEANING_NETWORK}", {})[0] == HTTPStatus.OK
    assert network.handle("GET", "/v2.0/networks/other", {})[0] == HTTPStatus.NOT_FOUND
    assert len(network.handle("GET", "/v2.0/networks", {})[1]["networks"]) == 1
