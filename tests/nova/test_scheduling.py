# SPDX-License-Identifier: Apache-2.0

"""Our filters and our weigher in Nova's scheduler."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from nova import objects
from nova.scheduler import host_manager, weights
from nova.scheduler.filters import HostFilterHandler

from ironic_virt import virt
from ironic_virt.nova import values
from tests.nova.deployment import Deployment

NAMES = ["ExactRamFilter", "ExactCoreFilter", "ExactDiskFilter"]


def host(
    name: str = "node", vcpus: int = 8, memory_mb: int = 16384, local_gb: int = 100
) -> host_manager.HostState:
    """A node as Nova's scheduler has it, by way of what the driver tells Nova."""
    node = virt.NodeResource(name, name, vcpus, memory_mb, local_gb, False, "x86_64", "gold", {})
    state = host_manager.HostState("compute1", name, "cell1")
    told = values.resource_of(node)
    state.hypervisor_type, state.stats = told["hypervisor_type"], told["stats"]
    return state


def request(**flavor: int) -> objects.RequestSpec:
    """A request for a flavor."""
    sizes = {"vcpus": 8, "memory_mb": 16384, "root_gb": 100, "ephemeral_gb": 0, "swap": 0}
    return objects.RequestSpec(flavor=objects.Flavor(**sizes | flavor), scheduler_hints={})


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    """The name of a filter, as enabled_filters has it."""
    return request.param


@pytest.fixture
def filters() -> dict[str, Any]:
    """The filters, as Nova's own handler finds them."""
    handler = HostFilterHandler()
    found = handler.get_matching_classes(["ironic_virt.nova.filters.all_filters"])
    return {kind.__name__: kind() for kind in found}


def test_nova_finds_them_by_their_function(filters: dict[str, Any]) -> None:
    assert list(filters) == NAMES


def test_a_node_of_the_flavors_sizes_passes(filters: dict[str, Any], name: str) -> None:
    assert filters[name].host_passes(host(), request())


@pytest.mark.parametrize("factor", [0.5, 2])
def test_a_node_that_has_more_or_less_does_not(filters, name, factor) -> None:
    node = host(vcpus=int(8 * factor), memory_mb=int(16384 * factor), local_gb=int(100 * factor))
    assert not filters[name].host_passes(node, request())


def test_disks_are_added_up(filters: dict[str, Any]) -> None:
    exact = filters["ExactDiskFilter"]
    assert exact.host_passes(host(), request(root_gb=50, ephemeral_gb=49, swap=1024))
    assert not exact.host_passes(host(), request(root_gb=50, ephemeral_gb=49, swap=1023))


def test_a_node_whose_sizes_are_not_known_does_not_pass(filters, name) -> None:
    unknown = host(vcpus=0, memory_mb=0, local_gb=0)
    nothing = request(vcpus=0, memory_mb=0, root_gb=0)
    assert not filters[name].host_passes(unknown, nothing)
    unknown.stats = {}
    assert not filters[name].host_passes(unknown, request())


def test_what_is_no_bare_metal_passes(filters: dict[str, Any], name: str) -> None:
    other = host(vcpus=1, memory_mb=1, local_gb=1)
    other.hypervisor_type = "QEMU"
    assert filters[name].host_passes(other, request())


def test_the_snuggest_node_weighs_most() -> None:
    handler = weights.HostWeightHandler()
    found = handler.get_matching_classes(["ironic_virt.nova.weighers.SnugFitWeigher"])
    nodes = [
        host("large", 64, 262144, 1000),
        host("snug"),
        host("unknown", 0, 0, 0),
        host("double", 16),
    ]
    spec = request()
    order = [
        weighed.obj.nodename
        for weighed in handler.get_weighed_objects([kind() for kind in found], nodes, spec)
    ]
    assert order.index("snug") < order.index("double") < order.index("large")


@pytest.mark.parametrize(
    ("specs", "image", "expected"),
    [
        ({}, [], "plain"),
        ({"trait:CUSTOM_GPU": "forbidden"}, [], "plain"),
        ({"trait:CUSTOM_GPU": "required"}, [], "gpu"),
        ({}, ["CUSTOM_GPU"], "gpu"),
        ({"trait1:CUSTOM_GPU": "required"}, ["CUSTOM_SSD"], "both"),
    ],
)
def test_the_pool_with_the_fewest_needless_traits_weighs_most(specs, image, expected) -> None:
    traits = {"both": {"CUSTOM_GPU", "CUSTOM_SSD"}, "gpu": {"CUSTOM_GPU"}, "plain": set()}
    # What Placement offers has the traits that are required.
    required = {key.partition(":")[2] for key, how in specs.items() if how == "required"}
    required.update(image)
    pools = []
    for name in (name for name, has in traits.items() if required <= has):
        pool = virt.NodeResource(name, name, 0, 0, 0, False, None, "gold", {})
        pools.append(host_manager.HostState("compute1", name, "cell1"))
        told = values.resource_of(dataclasses.replace(pool, traits=frozenset(traits[name])))
        pools[-1].hypervisor_type, pools[-1].stats = told["hypervisor_type"], told["stats"]
    properties = objects.ImageMetaProps(traits_required=image)
    spec = objects.RequestSpec(
        flavor=objects.Flavor(extra_specs=specs), image=objects.ImageMeta(properties=properties)
    )
    handler = weights.HostWeightHandler()
    found = handler.get_matching_classes(["ironic_virt.nova.weighers.PlainPoolWeigher"])
    best, *_ = handler.get_weighed_objects([kind() for kind in found], pools, spec)
    assert best.obj.nodename == expected


def test_a_weigher_of_pools_finds_all_other_hosts_alike() -> None:
    handler = weights.HostWeightHandler()
    found = handler.get_matching_classes(["ironic_virt.nova.weighers.PlainPoolWeigher"])
    spec = objects.RequestSpec(flavor=objects.Flavor(extra_specs={}), image=None)
    weighed = handler.get_weighed_objects(
        [kind() for kind in found], [host("a"), host("b", 16)], spec
    )
    assert len({one.weight for one in weighed}) == 1


class TestScheduling(Deployment):
    """In the real scheduler."""

    def setUp(self) -> None:
        # Before the scheduler starts.
        self.flags(
            available_filters=[
                "nova.scheduler.filters.all_filters",
                "ironic_virt.nova.filters.all_filters",
            ],
            enabled_filters=["ComputeFilter", *NAMES],
            group="filter_scheduler",
        )
        super().setUp()
        self.start_nova(self._real)

    def test_a_server_gets_the_node_of_its_sizes(self) -> None:
        sizes = {"cpus": 8, "local_gb": 100, "cpu_arch": "x86_64"}
        self.make_nodes(2, properties={**sizes, "memory_mb": 32768})
        right = self.start_with_a_node(properties={**sizes, "memory_mb": 16384})
        server = self.new_server()
        assert self.node_of(server) == right
        refused = self.wait_for(self.boot("another"), "ERROR")
        assert "No valid host" in refused["fault"]["message"]
        self.delete(server)
