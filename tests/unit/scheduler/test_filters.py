# SPDX-License-Identifier: Apache-2.0

"""What each filter passes, and what it says of what it rejects."""

from typing import Any

import pytest

from ironic_virt import exceptions
from ironic_virt.request.spec import RequestSpec
from ironic_virt.scheduler import filters
from ironic_virt.scheduler.host_state import HostState
from ironic_virt.virt import Flavor, ImageMeta
from tests.unit.scheduler.records import Record, options

CONF = options()
GOLD = {"resources:CUSTOM_GOLD": "1"}


def spec_of(extra_specs: dict[str, str] | None = None, **flavor: Any) -> RequestSpec:
    return RequestSpec.from_flavor(Flavor("small", extra_specs=extra_specs or {}, **flavor))


def passes(row: filters.Filter, spec: RequestSpec, record: Record | None = None) -> bool:
    return row.why_not(HostState(record or Record()), spec) is None


# -- sizes ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "sizes", "fits"),
    [
        *(
            (filters.exact_ram, {"memory_mb": asked}, asked == 16384)
            for asked in (16384, 16383, 16385)
        ),
        *((filters.exact_core, {"vcpus": asked}, asked == 8) for asked in (8, 7, 9)),
        *((filters.exact_disk, {"root_gb": asked}, asked == 480) for asked in (480, 479, 481)),
        (filters.exact_disk, {"root_gb": 400, "ephemeral_gb": 80}, True),
        (filters.exact_disk, {"root_gb": 400, "ephemeral_gb": 79, "swap": 1024}, True),
        (filters.exact_disk, {"root_gb": 480, "swap": 1}, False),
        *((filters.ram, {"memory_mb": size}, True) for size in (16384, 1)),
        (filters.ram, {"memory_mb": 16385}, False),
        *((filters.core, {"vcpus": size}, True) for size in (8, 0)),
        (filters.core, {"vcpus": 9}, False),
        (filters.disk, {"root_gb": 480}, True),
        (filters.disk, {"root_gb": 1, "ephemeral_gb": 1, "swap": 1}, True),
        (filters.disk, {"root_gb": 480, "swap": 1}, False),
    ],
)
def test_a_size_is_what_is_free_or_at_least_that(kind, sizes, fits) -> None:
    assert passes(kind(CONF), spec_of(**sizes)) is fits


@pytest.mark.parametrize(
    ("kind", "size", "resource", "has"),
    [
        (filters.exact_ram, "memory_mb", "MEMORY_MB", 16384),
        (filters.exact_core, "vcpus", "VCPU", 8),
        (filters.exact_disk, "root_gb", "DISK_GB", 480),
    ],
)
def test_an_exact_size_of_0_is_ignored_and_an_amount_counts(kind, size, resource, has) -> None:
    row = kind(CONF)
    for record in (Record(), Record(memory_mb=0, vcpus=0, local_gb=0)):
        for spec in (spec_of(), spec_of({f"resources:{resource}": "0"}, **{size: 7})):
            assert passes(row, spec, record)
            assert row.wish(spec).startswith("any ")
    for amount, fits in ((has, True), (has - 1, False)):
        spec = spec_of({f"resources:{resource}": str(amount)}, **{size: 7})
        assert passes(row, spec) is fits


# -- resource class ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("resource_class", "amounts", "why"),
    [
        *((resource_class, {}, None) for resource_class in ("gold", None)),
        ("gold", {"GOLD": 1}, None),
        ("CUSTOM_GOLD", {"CUSTOM_GOLD": 1}, None),
        ("gold.8-x", {"GOLD_8_X": 1}, None),
        ("gold", {"SILVER": 0}, None),
        ("gold", {"SILVER": 1}, "its resource class is gold, not CUSTOM_SILVER"),
        (None, {"GOLD": 1}, "its resource class is not set, not CUSTOM_GOLD"),
        ("gold", {"GOLD": 2}, "it has one CUSTOM_GOLD, not 2"),
        ("gold", {"GOLD": 1, "FPGA": 1}, "its resource class is gold, not CUSTOM_FPGA"),
    ],
)
def test_a_node_has_one_of_its_resource_class(resource_class, amounts, why) -> None:
    state = HostState(Record(resource_class=resource_class))
    wanted = {f"resources:CUSTOM_{name}": str(amount) for name, amount in amounts.items()}
    assert filters.resource_class(CONF).why_not(state, spec_of(wanted)) == why


def test_groups_and_sizes_are_no_resource_class() -> None:
    for specs in ({"resources1:CUSTOM_GOLD": "1"}, {"resources:VCPU": "0", **GOLD}):
        assert filters.resource_class(CONF).why_not(HostState(Record()), spec_of(specs)) is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(("resources:CUSTOM_GOLD", value) for value in ("one", "-1", "1.5")),
        ("trait:CUSTOM_GPU", "perhaps"),
    ],
)
def test_an_unreadable_extra_spec_is_an_error_that_names_it(key: str, value: str) -> None:
    with pytest.raises(exceptions.InvalidExtraSpec, match=f"small: the value of {key}"):
        spec_of({key: value})


# -- traits -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("traits", "extra_specs", "why"),
    [
        ("", {}, None),
        ("A B", {}, None),
        ("A B", {"trait:A": "required"}, None),
        ("A B", {"trait:A": "required", "trait:C": "forbidden"}, None),
        ("A", {"trait:A": "required", "trait:C": "required", "trait:B": "required"}, "B, C"),
        ("A B", {"trait:B": "forbidden"}, "it has B"),
        ("A", {"trait_GROUP:C": "required"}, "it lacks C"),
    ],
)
def test_traits_are_required_or_forbidden(traits, extra_specs, why) -> None:
    state = HostState(Record(traits=frozenset(traits.split())))
    found = filters.traits(CONF).why_not(state, spec_of(extra_specs))
    assert found == why if why is None else why in (found or "")


@pytest.mark.parametrize("properties", [{"traits_required": ["C"]}, {"trait:C": "required"}])
def test_an_image_requires_traits(properties: dict[str, Any]) -> None:
    image = ImageMeta("http://images/x", properties=properties)
    spec = RequestSpec.from_flavor(Flavor("small"), image=image)
    assert not passes(filters.traits(CONF), spec)
    assert passes(filters.traits(CONF), spec, Record(traits=frozenset({"C"})))


# -- capabilities -----------------------------------------------------------------

STATS = {
    "boot_mode": "uefi",
    "gpus": "4",
    "cpu_arch": "x86_64",
    "cpu_info": '{"features": ["aes", "mmx"], "topology": {"sockets": 2}}',
    "broken": "{",
}


@pytest.mark.parametrize(
    ("extra_specs", "why"),
    [
        ({}, None),
        ({"capabilities:boot_mode": "uefi"}, None),
        ({"capabilities:boot_mode": "bios"}, "its boot_mode is uefi, not bios"),
        ({"capabilities:boot_mode": "<or> bios <or> uefi"}, None),
        ({"capabilities:gpus": ">= 2"}, None),
        ({"capabilities:gpus": ">= 8"}, "its gpus is 4, not >= 8"),
        ({"capabilities:lacking": "1"}, "it has no capability lacking"),
        ({"capabilities:lacking": "!= 1"}, "it has no capability lacking"),
        ({"capabilities:cpu_info:topology:sockets": "2"}, None),
        ({"capabilities:cpu_info:features": "<all-in> aes mmx"}, None),
        ({"capabilities:cpu_info:lacking": "2"}, "it has no capability cpu_info:lacking"),
        ({"capabilities:broken:x": "2"}, "it has no capability broken:x"),
        ({"capabilities:boot_mode:x": "2"}, "it has no capability boot_mode:x"),
        ({"capabilities:cpu_info:features:x": "2"}, "it has no capability cpu_info:features:x"),
        # Facts of the host, by scope or not.
        ({"capabilities:hypervisor_type": "ironic"}, None),
        ({"hypervisor_type": "QEMU"}, "its hypervisor_type is ironic, not QEMU"),
        ({"cpu_arch": "x86_64"}, None),
        ({"capabilities:cpu_arch": "aarch64"}, "its cpu_arch is x86_64, not aarch64"),
        # Without a scope, a key counts for those only that have it.
        ({"boot_mode": "bios"}, "its boot_mode is uefi, not bios"),
        ({"lacking": "1"}, None),
        # Other scopes don't count.
        ({"hw:boot_mode": "bios"}, None),
        ({"trait:CUSTOM_X": "required"}, None),
        # A method isn't a fact.
        ({"update": "1"}, None),
        ({"capabilities:update": "1"}, "it has no capability update"),
        ({"capabilities:": "1"}, "it has no capability "),
    ],
)
def test_capabilities_fulfil_extra_specs(extra_specs: dict[str, str], why: str | None) -> None:
    state = HostState(Record(stats=STATS))
    assert filters.compute_capabilities(CONF).why_not(state, spec_of(extra_specs)) == why


# -- instances of a compute service -----------------------------------------------


@pytest.mark.parametrize(
    ("instances", "reason"),
    [(0, None), (2, None), (3, "compute-1 has 3 servers, 3 are allowed")],
)
def test_a_compute_service_gets_no_more_than_it_may_have(instances, reason) -> None:
    row = filters.num_instances(options(max_instances_per_host=3))
    assert row.why_not(HostState(Record(), instances), spec_of()) == reason
