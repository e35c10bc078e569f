# SPDX-License-Identifier: Apache-2.0

"""Values on their way between Nova and the driver, and the config drive."""

import dataclasses

import pytest
from nova import exception
from nova.compute import provider_tree
from nova.network import model

from ironic_virt import virt
from ironic_virt.nova import values

NODE = "1be26c0b-03f2-4d2e-ae87-c02d7f33c123"
RESOURCE = virt.NodeResource(
    uuid=NODE,
    hypervisor_hostname=NODE,
    vcpus=8,
    memory_mb=16384,
    local_gb=100,
    in_use=True,
    cpu_arch="amd64",
    resource_class="gold",
    stats={"cpu_arch": "amd64", "boot_mode": "uefi"},
)
OFFER = virt.NodeInventory("gold", "CUSTOM_GOLD", 1, 1, frozenset({"CUSTOM_GPU"}))


def test_sizes_are_zero_and_the_real_ones_are_for_filters() -> None:
    told = values.resource_of(RESOURCE)
    assert {told[name] for name in ("vcpus", "memory_mb", "local_gb", "vcpus_used")} == {0}
    assert told["stats"] == {
        "cpu_arch": "amd64",
        "boot_mode": "uefi",
        "ironic_virt.vcpus": "8",
        "ironic_virt.memory_mb": "16384",
        "ironic_virt.local_gb": "100",
    }
    assert told["supported_instances"] == [("x86_64", "baremetal", "hvm")]


@pytest.mark.parametrize("arch", [None, "abacus"])
def test_a_node_of_no_known_architecture_fits_any_image(arch: str | None) -> None:
    node = dataclasses.replace(RESOURCE, cpu_arch=arch)
    assert values.resource_of(node)["supported_instances"] == []


def test_an_offer_becomes_inventory_and_traits() -> None:
    tree = provider_tree.ProviderTree()
    tree.new_root(NODE, NODE, generation=1)
    offer = values.offer_of(NODE, OFFER)
    (name, gold), *others = offer.inventory.items()
    assert (name, gold["total"], gold["reserved"], others) == ("CUSTOM_GOLD", 1, 1, [])
    # All nodes share one of a kind, so what Nova's tree keeps has to be a copy.
    values.update_provider_tree(tree, NODE, offer)
    assert tree.data(NODE).traits == offer.traits == {"CUSTOM_GPU"}
    tree.data(NODE).inventory["CUSTOM_GOLD"]["total"] = 5
    assert values.offer_of("another", OFFER).inventory["CUSTOM_GOLD"]["total"] == 1


def test_a_node_without_resource_class_is_told_of() -> None:
    offered = virt.NodeInventory("", "", 0, 0, frozenset())
    with pytest.raises(exception.NoResourceClass, match=NODE):
        values.offer_of(NODE, offered)


def test_network_information_keeps_novas_own() -> None:
    nova = model.NetworkInfo([model.VIF("vif-1", "02:00:00:00:00:01")])
    vifs = values.Vifs(nova)
    assert vifs == [virt.Vif("vif-1", "02:00:00:00:00:01")]
    assert values.model_of(vifs) is nova
