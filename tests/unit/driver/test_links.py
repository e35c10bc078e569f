# SPDX-License-Identifier: Apache-2.0

"""Which physical link each VIF has."""

import pytest
import requests

from ironic_virt.baremetal.ports import Port, Portgroup
from ironic_virt.driver.network_data import Link, free_links, links, with_ports
from ironic_virt.testing.fake_ironic import FakeIronic
from tests.unit.driver.stage import URL, VIF, Stage


def test_a_vif_has_the_address_of_its_port(stage: Stage, fake: FakeIronic, node: str) -> None:
    stage.spawn(stage.instance(node))
    found = stage.driver._network.links(node)
    with fake.mock(URL):
        headers = {"X-OpenStack-Ironic-API-Version": "1.50"}
        (port,) = requests.get(f"{URL}/v1/ports", headers=headers, timeout=5).json()["ports"]
    assert found == {VIF: Link(port["address"])}


def test_a_vif_on_a_port_group_has_its_ports() -> None:
    bonded = [Port(f"port-{number}", portgroup_uuid="group") for number in range(2)]
    other = Port("port-2", "02:00:00:00:00:02", {"tenant_vif_port_id": "vif-2"})
    group = Portgroup(
        "group",
        "02:00:00:00:00:0a",
        {"tenant_vif_port_id": "vif-1"},
        mode="802.3ad",
        properties={"miimon": 100},
    )
    assert links([*bonded, other], [group]) == {
        "vif-1": Link(
            "02:00:00:00:00:0a", tuple(bonded), "802.3ad", {"miimon": 100}, is_bond=True
        ),
        "vif-2": Link("02:00:00:00:00:02"),
    }


def test_where_older_servers_noted_a_vif_counts_too() -> None:
    def found(vif: object) -> object:
        return links([Port("a", "02:00:00:00:00:02", None, {"vif_port_id": vif})], [])

    assert found("vif") == {"vif": Link("02:00:00:00:00:02")}
    assert found(["vif"]) == {}, "what is no text is no VIF"


def test_a_static_address_goes_to_a_port_group_without_a_vif_then_to_a_single_port() -> None:
    bonded = [
        Port(f"port-{number}", f"02:00:00:00:00:0{number}", portgroup_uuid="group")
        for number in range(2)
    ]
    taken = Port("port-2", "02:00:00:00:00:02", {"tenant_vif_port_id": "vif"})
    single = Port("port-3", "02:00:00:00:00:03")
    groups = [Portgroup("group", mode="active-backup"), Portgroup("empty")]
    free = free_links([taken, *bonded, single], groups)
    links = [{"id": f"link{number}", "type": "phy"} for number in range(2)]
    told = with_ports({"links": links}, free)
    assert told["links"] == [
        {
            "id": "link0",
            "type": "bond",
            "ethernet_mac_address": "02:00:00:00:00:00",
            "bond_mode": "active-backup",
            "bond_links": ["port-0", "port-1"],
        },
        {"id": "link1", "type": "phy", "ethernet_mac_address": "02:00:00:00:00:03"},
        {"id": "port-0", "type": "phy", "ethernet_mac_address": "02:00:00:00:00:00"},
        {"id": "port-1", "type": "phy", "ethernet_mac_address": "02:00:00:00:00:01"},
    ]
    with pytest.raises(ValueError, match="3 networks are wanted, and the node has 2 ports and"):
        with_ports({"links": [*links, {"id": "link2", "type": "phy"}]}, free)
