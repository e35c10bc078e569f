# SPDX-License-Identifier: Apache-2.0

"""The config drive of a server on ports and bonds, compared with Nova's own driver's."""

import json
from typing import Any

from nova import context, objects
from nova.network import model
from nova.virt import netutils
from nova.virt.ironic import driver as in_tree

from ironic_virt.nova import config_drive
from tests.nova import figures
from tests.nova.deployment import Deployment

ADDRESS = "02:b0:4d:00:00:01"
MEMBERS = ["02:b0:4d:00:01:01", "02:b0:4d:00:01:02", "02:b0:4d:00:02:01", "02:b0:4d:00:02:02"]

MTU = 1450
"""Of the networks of Nova's stand-in for Neutron."""


def test_where_nova_leaves_the_mtu_to_dhcp_the_network_has_it() -> None:
    subnet = model.Subnet(cidr="192.0.2.0/24", ips=[], dhcp_server="192.0.2.2")
    network = model.Network(id="n", subnets=[subnet], mtu=8900)
    vifs = model.NetworkInfo([model.VIF("vif-1", ADDRESS, network)])
    document = netutils.get_network_metadata(vifs)
    assert [link["mtu"] for link in document["links"]] == [None]
    (link,) = config_drive._with_mtus(document, vifs)["links"]
    assert (link["vif_id"], link["mtu"]) == ("vif-1", 8900)


class TestNetworkData(Deployment, starts=True, driver=figures.OURS):
    """Ours; what Nova's driver would say is asked of it for the same server."""

    def bond(self, node: str, members: list[str], **fields: Any) -> str:
        """A port group of new ports."""
        made = self.ironic("POST", "/portgroups", {"node_uuid": node, **fields})
        for address in members:
            port = {"node_uuid": node, "address": address, "portgroup_uuid": made["uuid"]}
            self.ironic("POST", "/ports", port)
        return made["uuid"]

    def test_it_is_what_novas_own_driver_says(self) -> None:
        (node,) = self.make_nodes(1, ports=1)
        options = {"miimon": "100", "xmit_hash_policy": "layer3+4"}
        self.bond(node, MEMBERS[:2], address=ADDRESS, mode="802.3ad", properties=options)
        self.bond(node, MEMBERS[2:], mode="active-backup")
        self.start_service("compute", "compute1")
        network = {"uuid": self.neutron.network_1["id"]}
        server = self.boot(
            networks=[{"port": self.neutron.port_1["id"]}, network, network], config_drive=True
        )
        self.wait_for(server, "ACTIVE")

        instance = objects.Instance.get_by_uuid(context.get_admin_context(), server["id"])
        theirs = in_tree.IronicDriver(None)
        expected = theirs._get_network_metadata(
            theirs._get_node(node), instance.get_network_info()
        )
        told = self.kept_by_ironic(node)["configdrive"]["network_data"]
        for link in expected["links"]:
            # Nova's driver doesn't say it of the members of a bond.
            link.setdefault("mtu", MTU)
        assert told == json.loads(json.dumps(expected))
        assert sorted(link["type"] for link in told["links"]) == ["bond"] * 2 + ["phy"] * 5
        modes = {
            link["bond_mode"]: link["ethernet_mac_address"]
            for link in told["links"]
            if link["type"] == "bond"
        }
        assert modes["802.3ad"] == ADDRESS
        # Without its own address a port group keeps the one that Neutron gave.
        assert modes["active-backup"] in {vif["address"] for vif in instance.get_network_info()}
