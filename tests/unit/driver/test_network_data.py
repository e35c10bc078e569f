# SPDX-License-Identifier: Apache-2.0

"""What a config drive tells of networks, and which physical link each VIF has."""

import json
from typing import Any

import pytest

from ironic_virt import virt
from ironic_virt.baremetal.ports import Port, Portgroup
from ironic_virt.driver.network_data import (
    Link,
    links_of,
    network_data,
    with_links,
    with_mtus,
)
from ironic_virt.testing.fake_ironic import FakeIronic
from tests.config_drives import sent_drive, sent_drives
from tests.unit.driver.conftest import DURATIONS
from tests.unit.driver.stage import VIF, SetStage, Stage

MAC = "02:00:00:00:00:0a"
MEMBERS = (Port("port-1", "02:00:00:00:00:01"), Port("port-2", "02:00:00:00:00:02"))
OPTIONS = {"miimon": "100", "bond_xmit_hash_policy": "layer3+4"}


def bond(address: str | None) -> Link:
    group = Portgroup("group", address, mode="802.3ad", properties=OPTIONS)
    return Link(address, group, MEMBERS)


def bonded(address: str | None) -> dict[str, Any]:
    return {
        "id": VIF,
        "vif_id": VIF,
        "type": "bond",
        "ethernet_mac_address": address,
        "bond_mode": "802.3ad",
        "bond_links": ["port-1", "port-2"],
        "bond_miimon": "100",
        "bond_xmit_hash_policy": "layer3+4",
    }


PHYSICAL = [
    {"id": "port-1", "type": "phy", "ethernet_mac_address": "02:00:00:00:00:01"},
    {"id": "port-2", "type": "phy", "ethernet_mac_address": "02:00:00:00:00:02"},
]


def test_a_port_has_its_own_address_and_dhcp() -> None:
    assert network_data([virt.Vif(VIF, "fa:16:3e:00:00:01")], {VIF: Link(MAC)}) == {
        "links": [{"id": VIF, "vif_id": VIF, "type": "phy", "ethernet_mac_address": MAC}],
        "networks": [{"id": "network0", "link": VIF, "type": "ipv4_dhcp"}],
        "services": [],
    }


@pytest.mark.parametrize(
    ("of_group", "of_vif", "told"),
    [
        (MAC, None, MAC),
        (MAC, "fa:16:3e:00:00:01", MAC),
        # Ironic leaves Neutron's address then, and Neutron lets pass no other.
        (None, "fa:16:3e:00:00:01", "fa:16:3e:00:00:01"),
        (None, None, "02:00:00:00:00:01"),
    ],
)
def test_a_port_group_is_a_bond_of_its_ports(of_group, of_vif, told) -> None:
    data = network_data([virt.Vif(VIF, of_vif)], {VIF: bond(of_group)})
    assert data is not None
    assert data["links"] == [bonded(told), *PHYSICAL]
    assert [network["link"] for network in data["networks"]] == [VIF]


def test_members_come_after_all_vifs() -> None:
    vifs = [virt.Vif(VIF), virt.Vif("other")]
    data = network_data(vifs, {VIF: bond(MAC), "other": Link("02:00:00:00:00:03")})
    assert data is not None
    assert [link["id"] for link in data["links"]] == [VIF, "other", "port-1", "port-2"]
    assert [network["id"] for network in data["networks"]] == ["network0", "network1"]


def test_where_no_vif_has_a_port_there_is_nothing_to_tell() -> None:
    assert network_data([virt.Vif(VIF)], {}) is None
    assert network_data([], {VIF: Link(MAC)}) is None


def test_what_the_service_says_of_a_network_stays() -> None:
    said = {
        "links": [
            {"id": "tap1", "vif_id": VIF, "type": "ovs", "mtu": 1400, "ethernet_mac_address": "x"},
            {"id": "tap2", "vif_id": "elsewhere", "type": "ovs"},
        ],
        "networks": [{"id": "n", "ip_address": "192.0.2.7"}],
        "services": ["dns"],
    }
    assert with_links(said, {VIF: Link(MAC)}) == {
        "links": [
            {"id": "tap1", "vif_id": VIF, "type": "phy", "mtu": 1400, "ethernet_mac_address": MAC},
            said["links"][1],
        ],
        "networks": said["networks"],
        "services": ["dns"],
    }
    assert said["links"][0]["type"] == "ovs"


# -- through the driver -------------------------------------------------------


def make_bond(stage: Stage, node: str, count: int, **fields: Any) -> list[str]:
    """Make a port group; the addresses of its ports."""

    def create(path: str, body: dict[str, Any]) -> dict[str, Any]:
        answer = stage.channel.send("POST", path, json=body, version="1.26")
        created: dict[str, Any] = json.loads(answer.body)
        return created

    group = create("/portgroups", {"node_uuid": node, **fields})
    addresses = [f"02:00:00:00:01:{number:02x}" for number in range(count)]
    for address in addresses:
        create("/ports", {"node_uuid": node, "address": address, "portgroup_uuid": group["uuid"]})
    return addresses


def test_an_instance_on_a_bond_is_told_of_it(set_stage: SetStage) -> None:
    """Also if its ports are on several pages."""
    fake = FakeIronic(durations=DURATIONS, max_limit=1)
    stage = set_stage(fake)
    node = fake.add_node(ports=0)
    addresses = make_bond(
        stage, node, 2, address=MAC, mode="802.3ad", properties={"miimon": "100"}
    )
    instance = stage.instance(node)
    stage.spawn(instance)
    told = sent_drive(fake)["network_data"]
    (link, *members) = told["links"]
    assert (link["type"], link["ethernet_mac_address"]) == ("bond", MAC)
    assert (link["bond_mode"], link["bond_miimon"]) == ("802.3ad", "100")
    assert [member["ethernet_mac_address"] for member in members] == addresses
    assert link["bond_links"] == [member["id"] for member in members]
    fake.advance(60)
    stage.rebuild(instance)
    assert sent_drives(fake)[-1]["network_data"] == told


@pytest.mark.parametrize("wired", [False, True])
def test_network_data_of_the_service_get_the_addresses_of_ports(stage, fake, node, wired) -> None:
    said = {"links": [{"id": "tap1", "vif_id": VIF, "mtu": 1400}, {"id": "tap2"}] * wired}
    stage.service.drive = virt.ConfigDrive(meta_data={"name": "web"}, network_data=said)
    stage.spawn(stage.instance(node))
    told = sent_drive(fake)["network_data"]["links"]
    assert len(fake.requests.matching("GET", "/ports")) == wired
    if wired:
        (address,) = (one.address for one in stage.driver._network.links(node)[0].values())
        first = {**said["links"][0], "type": "phy", "ethernet_mac_address": address}
        assert told == [first, {"id": "tap2", "mtu": 1500}]


def test_each_link_has_an_mtu_and_bond_members_the_bonds() -> None:
    jumbo = {**bonded(MAC), "mtu": 9000}
    data = {"links": [jumbo, *PHYSICAL, {"id": "tap0", "mtu": None}], "networks": [{"id": "n"}]}
    told = with_mtus(data)
    assert [link["mtu"] for link in told["links"]] == [9000, 9000, 9000, 1500]
    assert with_mtus(told) == told
    assert told["networks"] == data["networks"]
    assert [link["mtu"] for link in with_mtus({"links": [bonded(MAC), *PHYSICAL]})["links"]] == [
        1500
    ] * 3


# -- links --------------------------------------------------------------------


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
    assert links_of([*bonded, other], [group])[0] == {
        "vif-1": Link("02:00:00:00:00:0a", group, tuple(bonded)),
        "vif-2": Link("02:00:00:00:00:02"),
    }


def test_where_older_servers_noted_a_vif_counts_too() -> None:
    def found(vif: object) -> object:
        return links_of([Port("a", "02:00:00:00:00:02", None, {"vif_port_id": vif})], [])[0]

    assert found("vif") == {"vif": Link("02:00:00:00:00:02")}
    assert found(["vif"]) == {}, "what is no text is no VIF"


def test_a_static_address_prefers_a_free_port_group() -> None:
    bonded = [
        Port(f"port-{number}", f"02:00:00:00:00:0{number}", portgroup_uuid="group")
        for number in range(2)
    ]
    taken = Port("port-2", "02:00:00:00:00:02", {"tenant_vif_port_id": "vif"})
    single = Port("port-3", "02:00:00:00:00:03")
    groups = [Portgroup("group", mode="active-backup"), Portgroup("empty")]
    _, free = links_of([taken, *bonded, single], groups)
    links = [{"id": f"link{number}", "type": "phy"} for number in range(2)]
    told = with_links({"links": links}, {}, free)
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
        with_links({"links": [*links, {"id": "link2", "type": "phy"}]}, {}, free)
