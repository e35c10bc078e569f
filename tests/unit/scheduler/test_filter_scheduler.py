# SPDX-License-Identifier: Apache-2.0

"""What is picked, and what is said when nothing is left."""

import dataclasses
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ironic_virt import exceptions
from ironic_virt.request.spec import RequestSpec
from ironic_virt.scheduler.filter_scheduler import FilterScheduler
from ironic_virt.scheduler.host_state import HostState
from tests.unit.scheduler.records import Record, options, scheduler

DEFAULT = options().scheduler.enabled_filters
EXACT = options().scheduler.baremetal_enabled_filters
GOLD = {"CUSTOM_GOLD": 1}
SIZED = RequestSpec(memory_mb=16384, vcpus=8, root_gb=480)

TRAITS = st.frozensets(st.sampled_from(["A", "B", "C"]))
SIZES = st.sampled_from([0, 1, 2, 4])
FLEETS = st.lists(
    st.builds(
        Record,
        uuid=st.integers(0, 40).map(lambda number: f"n{number}"),
        host=st.sampled_from(["c1", "c2", "c3"]),
        vcpus=SIZES,
        memory_mb=SIZES,
        local_gb=SIZES,
        resource_class=st.sampled_from([None, "gold", "GOLD", "silver.1"]),
        traits=TRAITS,
        in_use=st.sampled_from([False, False, True]),
        available=st.sampled_from([True, True, False]),
        instance_uuid=st.sampled_from([None, None, "i1"]),
    ),
    max_size=40,
    unique_by=lambda record: record.uuid,
)


def names(hosts: Iterable[HostState]) -> list[str]:
    return [host.nodename for host in hosts]


def refused(
    picker: FilterScheduler, spec: RequestSpec, records: list[Record], count: int = 1
) -> exceptions.NoValidHost:
    """The error when no host is left."""
    with pytest.raises(exceptions.NoValidHost) as caught:
        picker.select(spec, records, count=count)
    return caught.value


# -- picking ----------------------------------------------------------------------


def test_the_best_that_passes_is_picked_and_consumed() -> None:
    sizes = {"small": 1024, "large": 65536, "right": 4096}
    records = [Record(name, memory_mb=size) for name, size in sizes.items()]
    (host,) = scheduler(*DEFAULT).select(RequestSpec(memory_mb=2048), records)
    assert (host.host, host.nodename, host.is_free) == ("compute-1", "right", False)
    assert names(scheduler(*DEFAULT).select(RequestSpec(), records, 3)) == [
        *("small", "right", "large")
    ]


@given(
    fleet=FLEETS,
    enabled=st.sampled_from([DEFAULT, EXACT, [], ["TraitsFilter"]]),
    spec=st.builds(
        RequestSpec,
        memory_mb=SIZES,
        vcpus=SIZES,
        root_gb=SIZES,
        resources=st.sampled_from([{}, GOLD, {"CUSTOM_SILVER_1": 1}, {"CUSTOM_GOLD": 2}]),
        required_traits=TRAITS,
        forbidden_traits=TRAITS,
        exclude_nodes=st.just(frozenset({"n1"})),
    ),
    subset=st.integers(1, 3),
)
def test_a_node_that_passes_all_filters_is_picked_and_each_told(fleet, enabled, spec, subset):
    picker = scheduler(*enabled, host_subset_size=subset)
    hosts = [state for state in picker.host_manager.host_states(fleet) if state.is_free]
    free = len(hosts)
    hosts = [host for host in hosts if host.nodename not in spec.exclude_nodes]
    left = [len(hosts)]
    for row in picker.host_manager.filters.values():
        hosts = [host for host in hosts if row.why_not(host, spec) is None]
        left.append(len(hosts))
    assert sorted(names(picker.select(spec, fleet, len(hosts)))) == sorted(names(hosts))
    error = refused(picker, spec, fleet, len(hosts) + 1)
    assert (error.known, error.free, error.found) == (len(fleet), free, len(hosts))
    assert [number for _, _, number in error.left] == left


def test_ties_are_broken_by_chance_and_the_chance_is_given() -> None:
    def picked(records: list[Record], seed: int, **values: Any) -> str:
        (host,) = scheduler(*DEFAULT, seed=seed, **values).select(RequestSpec(), records)
        return host.nodename

    alike = [Record(f"n{i}", host=f"c{i % 4}") for i in range(20)]
    assert len({picked(alike, seed) for seed in range(20)}) > 5
    assert picked(alike, 7) == picked(alike, 7)
    larger = [Record(f"n{i}", memory_mb=1024 * (i + 1)) for i in range(10)]
    best = {picked(larger, seed, host_subset_size=3) for seed in range(40)}
    assert best == {"n0", "n1", "n2"}


# -- several at once --------------------------------------------------------------


def test_instances_spread_evenly_over_compute_services() -> None:
    fleet = [
        Record(f"{host}-{i}", host=host)
        for host, n in zip("abc", (90, 40, 40), strict=True)
        for i in range(n)
    ]
    picked = scheduler(*DEFAULT).select(RequestSpec(), fleet, 60)
    assert sorted(Counter(host.host for host in picked).values()) == [20, 20, 20]
    picked = scheduler(*DEFAULT).select(RequestSpec(), fleet, 40, counts={"a": 20})
    assert Counter(host.host for host in picked) == {"b": 20, "c": 20}


# -- no valid host ----------------------------------------------------------------


def test_it_is_told_filter_by_filter_how_many_were_left() -> None:
    fleet = [
        *(Record(f"taken{i}", instance_uuid="i") for i in range(4)),
        *(Record(f"silver{i}", resource_class="silver") for i in range(8)),
        *(Record(f"little{i}", memory_mb=1024) for i in range(4)),
        *(Record(f"plain{i}") for i in range(2)),
        Record("bios", traits=frozenset({"GPU"}), stats={"boot_mode": "bios"}),
    ]
    spec = dataclasses.replace(
        SIZED,
        instance_uuid="i1",
        flavor_name="large",
        resources=GOLD,
        required_traits=frozenset({"GPU"}),
        extra_specs={"capabilities:boot_mode": "uefi"},
    )
    error = refused(scheduler(*EXACT), spec, fleet)
    assert (error.instance, error.flavor, error.known, error.free) == ("i1", "large", 19, 15)
    assert str(error) == (
        "No valid host for server i1 (flavor large): 15 of 19 nodes free; "
        "ResourceClassFilter (1 CUSTOM_GOLD) left 7; "
        "ExactRamFilter (exactly 16384 MiB of memory) left 3; "
        "TraitsFilter (with GPU) left 1; "
        "ComputeCapabilitiesFilter (boot_mode uefi) left 0, "
        "for example bios: its boot_mode is bios, not uefi"
    )


def test_nodes_that_name_no_cores_cause_one_warning(caplog) -> None:
    fleet = [*(Record(f"n{i}", vcpus=4) for i in range(50)), Record("unknown", vcpus=0)]
    picker = scheduler(*EXACT)
    for _ in range(2):
        refused(picker, SIZED, fleet)
    (warning,) = [one for one in caplog.messages if "properties/cpus" in one]
    assert "unknown" in warning


@pytest.mark.parametrize(
    ("flavor", "free", "left", "counts", "said"),
    [
        ("", 9, [3, 0, 0], {}, ": 9 of 9 nodes free; A left 3; B (b) left 0"),
        (
            "gold",
            5,
            [5, 2, 2],
            {"wanted": 10, "found": 2},
            " (flavor gold): 5 of 9 nodes free; B (b) left 2; "
            "a node was found for 2 of 10 servers",
        ),
    ],
    ids=[
        "the last that is told is the one that left none",
        "some only: what rejected any is told",
    ],
)
def test_what_is_told_of_filters(flavor, free, left, counts, said) -> None:
    told = list(zip("ABC", ("", "b", ""), left, strict=True))
    error = exceptions.NoValidHost(None, flavor, known=9, free=free, left=told, **counts)
    assert str(error) == f"No valid host{said}"


@pytest.mark.parametrize(
    ("fleet", "says"),
    [
        ([], "there are no compute nodes (is a compute service running?)"),
        ([Record(in_use=True)], "none of 1 node is free and has a compute service that is up"),
        ([Record("tried")], "1 of 1 node free; retry (without the 1 tried) left 0"),
    ],
)
def test_that_there_is_nothing_at_all_is_told(fleet: list[Record], says: str) -> None:
    spec = RequestSpec(exclude_nodes=frozenset({"tried"}))
    assert says in str(refused(scheduler(*DEFAULT), spec, fleet))
