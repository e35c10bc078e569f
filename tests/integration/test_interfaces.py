# SPDX-License-Identifier: Apache-2.0

"""Interfaces of an instance on a real Ironic, and what Neutron records of them."""

import uuid
from typing import Any

import pytest
import requests

from ironic_virt import exceptions, virt
from tests.integration.services import Service, node_of
from tests.integration.stage import Stage
from tools import real_ironic
from tools.real_ironic.neutron import REFUSES


class Neutron:
    """Somebody who looks at Neutron's ports."""

    def __init__(self, ironic: real_ironic.RealIronic) -> None:
        self._url = f"{ironic.neutron_url}/v2.0/ports"

    def port(self, vif: virt.Vif) -> dict[str, Any]:
        answer = requests.get(f"{self._url}/{vif.id}", timeout=60)
        found: dict[str, Any] = answer.json()["port"]
        return found

    def change(self, vif: virt.Vif, **attributes: Any) -> None:
        """Change a port."""
        requests.put(f"{self._url}/{vif.id}", json={"port": attributes}, timeout=60)

    def connected_to(self, vif: virt.Vif) -> str | None:
        """The node whose switch port a port is connected to."""
        port = self.port(vif)
        return port["binding:host_id"] if port["binding:profile"] else None


@pytest.fixture
def neutron(ironic_on_mariadb: real_ironic.RealIronic) -> Neutron:
    """Neutron, as Ironic sees it."""
    return Neutron(ironic_on_mariadb)


def new_vif() -> virt.Vif:
    return virt.Vif(str(uuid.uuid4()))


def attach(service: Service, instance: virt.Instance, vif: virt.Vif) -> None:
    service.driver.attach_interface(instance, vif)


def detach(service: Service, instance: virt.Instance, vif: virt.Vif) -> None:
    service.driver.detach_interface(instance, vif)


def refused(neutron: Neutron) -> virt.Vif:
    """A VIF whose port Neutron does not connect."""
    vif = new_vif()
    neutron.change(vif, **{REFUSES: "binding:vnic_type"})
    return vif


def test_what_neutron_refuses_stays_on_no_node(stage: Stage, neutron: Neutron) -> None:
    node = stage.node(ports=2)
    first, second = new_vif(), refused(neutron)
    # What Ironic itself does (39.0.0): it answers 500, and the VIF is there.
    with pytest.raises(requests.HTTPError, match="500"):
        stage.operator.request("POST", f"/nodes/{node}/vifs", {"id": second.id})
    assert stage.operator.vifs(node) == [second.id]
    stage.operator.request("DELETE", f"/nodes/{node}/vifs/{second.id}")

    instance = stage.service.instance_on(node)
    with pytest.raises(exceptions.VifAttachFailed, match=r"Could not seed.*taken off again"):
        stage.service.spawn(instance, [first, second])
    assert stage.operator.vifs(node) == []
    assert stage.operator.node(node)["instance_uuid"] is None

    stage.service.spawn(instance, [first])
    with pytest.raises(exceptions.VifAttachFailed, match=r"Could not add.*taken off") as caught:
        attach(stage.service, instance, second)
    assert caught.value.left is False
    assert "does not take binding:vnic_type" in str(caught.value)
    assert stage.operator.vifs(node) == [first.id]
    assert neutron.port(second)["binding:host_id"] == ""

    stage.service.driver.rescue(instance, "correct horse")
    with pytest.raises(exceptions.VifAttachFailed, match=r"Could not seed.*taken off"):
        attach(stage.service, instance, second)
    assert stage.operator.vifs(node) == [first.id]
    stage.service.destroy(instance)


def test_a_system_on_bonded_ports_is_told_of_them(stage: Stage, neutron: Neutron) -> None:
    node = stage.node(ports=1)
    members = [f"02:b0:4e:00:00:0{number}" for number in range(2)]
    bond = {
        "node_uuid": node,
        "address": "02:b0:4e:00:00:0a",
        "mode": "802.3ad",
        "properties": {"miimon": "100"},
    }
    group = stage.operator.request("POST", "/portgroups", bond)["uuid"]
    for address in members:
        port = {"node_uuid": node, "address": address, "portgroup_uuid": group}
        stage.operator.request("POST", "/ports", port)
    instance = stage.service.instance_on(node)
    on_bond, on_port = new_vif(), new_vif()
    stage.service.spawn(instance, [on_bond, on_port])
    found, _ = stage.service.driver._network.links(node)
    # Ironic prefers port groups.
    link = found[on_bond.id]
    assert (link.address, link.bond.mode) == (bond["address"], "802.3ad")
    assert link.bond.properties == {"miimon": "100"}
    assert sorted(str(port.address) for port in link.ports) == members
    assert neutron.port(on_bond)["mac_address"] == bond["address"]
    assert neutron.port(on_port)["mac_address"] == found[on_port.id].address
    told = stage.operator.kept_by_ironic(node)["configdrive"]["network_data"]
    assert [one["type"] for one in told["links"]] == ["bond", "phy", "phy", "phy"]
    assert told["links"][0]["ethernet_mac_address"] == bond["address"]
    assert {one["mtu"] for one in told["links"]} == {1500}
    stage.service.destroy(instance)


@pytest.mark.parametrize("size", [1, 1024**2], ids=["small", "large"])
def test_ironic_keeps_network_data_in_which_a_link_had_no_mtu(stage, monkeypatch, size) -> None:
    """It would put its own in their place, which it makes of Neutron's networks."""
    node = stage.node(ports=1)
    instance, vif = stage.service.instance_on(node), new_vif()
    network = {"id": "network0", "link": "tap0", "type": "ipv4", "ip_address": "192.0.2.7"}
    drive = virt.ConfigDrive(
        meta_data={"uuid": instance.uuid},
        user_data="#" * size,
        network_data={
            "links": [{"id": "tap0", "vif_id": vif.id, "type": "ovs", "mtu": None}],
            "networks": [network],
            "services": [],
        },
    )
    monkeypatch.setattr(stage.service, "config_drive", lambda request: drive)
    stage.service.spawn(instance, [vif])
    told = stage.operator.kept_by_ironic(node)["configdrive"]["network_data"]
    assert told["networks"] == [network]
    assert [(one["id"], one["type"], one["mtu"]) for one in told["links"]] == [
        ("tap0", "phy", 1500)
    ]
    stage.service.destroy(instance)


def test_in_the_rescue_system(stage: Stage, neutron: Neutron) -> None:
    instance = stage.instance(ports=2)
    node = node_of(instance)
    first, second = new_vif(), new_vif()
    stage.service.spawn(instance, [first])
    stage.service.driver.rescue(instance, "correct horse")
    attach(stage.service, instance, second)
    assert neutron.connected_to(second) is None
    with pytest.raises(exceptions.VifDetachFailed, match="'rescue'"):
        detach(stage.service, instance, first)
    stage.service.driver.unrescue(instance)
    assert neutron.port(second)["binding:host_id"] == node
    detach(stage.service, instance, second)
    assert neutron.port(second)["binding:host_id"] == ""
    # Why a detach is refused while the node is rescued: Ironic would only forget about it.
    stage.service.driver.rescue(instance, "correct horse")
    stage.operator.request("DELETE", f"/nodes/{node}/vifs/{first.id}")
    assert stage.operator.vifs(node) == []
    assert neutron.port(first)["binding:host_id"] == node
    stage.service.destroy(instance)
