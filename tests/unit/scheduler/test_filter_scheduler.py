# SPDX-License-Identifier: Apache-2.0

"""What is picked, how much is looked at for it, and what is said when nothing is left."""

from __future__ import annotations

import dataclasses
import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ironic_virt import exceptions
from ironic_virt.request.spec import RequestSpec
from ironic_virt.scheduler.candidates import CandidateQuery, ComputeNodeLike, RecordList
from ironic_virt.scheduler.filter_scheduler import FilterScheduler
from ironic_virt.scheduler.filters.at_least import RamFilter
from ironic_virt.scheduler.host_index import HostIndex
from ironic_virt.scheduler.host_state import HostState
from tests.unit.scheduler.records import Record, options, scheduler
from tests.unit.scheduler.test_host_index import FLEETS, SIZES, TRAITS

DEFAULT = options().scheduler.enabled_filters
EXACT = options().scheduler.baremetal_enabled_filters
GOLD = {"CUSTOM_GOLD": 1}


class InOrder(RecordList):
    """A source that hands out whatever it has, always in the same order."""

    def batches(
        self, query: CandidateQuery, size: int, rng: random.Random
    ) -> Iterator[Sequence[ComputeNodeLike]]:
        for begin in range(0, len(self._records), size):
            yield self._records[begin : begin + size]


class Watched(HostIndex):
    """An index that counts what it hands out."""

    handed_out = 0

    def batches(
        self, query: CandidateQuery, size: int, rng: random.Random
    ) -> Iterator[Sequence[ComputeNodeLike]]:
        for batch in super().batches(query, size, rng):
            self.handed_out += len(batch)
            yield batch


def names(hosts: list[HostState]) -> list[str]:
    return [host.nodename for host in hosts]


def refused(
    picker: FilterScheduler, spec: RequestSpec, source: HostIndex | RecordList, count: int = 1
) -> exceptions.NoValidHost:
    """How it is told that nothing is left."""
    with pytest.raises(exceptions.NoValidHost) as caught:
        picker.select(spec, source, count=count)
    return caught.value


SIZED = RequestSpec(memory_mb=16384, vcpus=8, root_gb=480)
each_source = pytest.mark.parametrize("source", [HostIndex, RecordList])


# -- picking ----------------------------------------------------------------------


def test_the_best_that_passes_is_picked_consumed_and_claimed() -> None:
    sizes = {"small": 1024, "right": 4096, "large": 65536}
    index = HostIndex([Record(name, memory_mb=size) for name, size in sizes.items()])
    spec = RequestSpec(instance_uuid="i1", memory_mb=2048)
    (host,) = scheduler(*DEFAULT).select(spec, index)
    assert (host.host, host.nodename, host.is_free) == ("compute-1", "right", False)
    assert not index.claim("right", "i2")
    assert names(scheduler(*DEFAULT).select(spec, index)) == ["large"]
    refused(scheduler(*DEFAULT), spec, index)
    index.release("right", "i1")
    assert names(scheduler(*DEFAULT).select(spec, index)) == ["right"]


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
    batch=st.integers(1, 7),
)
def test_exactly_what_all_filters_pass_is_found(
    fleet: list[Record], enabled: list[str], spec: RequestSpec, batch: int
) -> None:
    picker = scheduler(*enabled, candidate_batch_size=batch)
    manager = picker.host_manager
    states = [state for state in manager.host_states(fleet) if state.is_free]
    passing = names(manager.get_filtered_hosts(states, spec))
    expected = [name for name in passing if name not in spec.exclude_nodes]
    for source in (HostIndex(fleet), RecordList(fleet)):
        found: list[str] = []
        with pytest.raises(exceptions.NoValidHost):
            found.extend(host.nodename for host in picker.ranked(spec, source))
        assert sorted(found) == sorted(expected)
        if expected:
            assert picker.select(spec, source)[0].nodename in expected


@pytest.mark.parametrize(("values", "batch"), [({}, 32), ({"candidate_batch_size": 5}, 5)])
def test_no_more_is_looked_at_than_one_batch(values: dict[str, int], batch: int) -> None:
    index = Watched(Record(f"n{i}") for i in range(500))
    scheduler(*EXACT, **values).select(SIZED, index)
    assert index.handed_out == batch


@pytest.mark.parametrize(
    "more",
    [
        {"swap": 1000},
        {"resources": {"CUSTOM_GOLD": 2}},
        {"resources": {"CUSTOM_GOLD": 1, "CUSTOM_FPGA": 1}},
        {"required_traits": frozenset({"A"})},
    ],
    ids=["no whole GiB", "two of a class", "two classes", "a trait"],
)
def test_what_an_index_can_rule_out_is_looked_at_for_an_example_only(more: dict[str, Any]) -> None:
    index = Watched(Record(f"n{i}") for i in range(100))
    refused(scheduler(*EXACT), dataclasses.replace(SIZED, **more), index)
    assert index.handed_out == 8


def test_when_filters_reject_a_whole_batch_all_the_others_are_looked_at() -> None:
    fleet = [Record(f"n{i}", stats={"boot_mode": "bios"}) for i in range(200)]
    index = Watched([*fleet, Record("last", stats={"boot_mode": "uefi"})])
    spec = RequestSpec(extra_specs={"capabilities:boot_mode": "uefi"})
    (host,) = scheduler(*DEFAULT).select(spec, index)
    assert host.nodename == "last"
    assert index.handed_out > 32


def test_nodes_that_were_tried_are_not_picked_again() -> None:
    index = HostIndex([Record("a"), Record("b")])
    spec = RequestSpec().without({"a"})
    assert names(scheduler(*DEFAULT).select(spec, index)) == ["b"]


@pytest.mark.parametrize("kind", [RecordList, InOrder])
def test_ties_are_broken_by_chance_and_the_chance_is_given(kind: type[RecordList]) -> None:
    source = kind(Record(f"n{i}") for i in range(20))

    def picked(seed: int, **values: Any) -> str:
        (host,) = scheduler(*DEFAULT, seed=seed, **values).select(RequestSpec(), source)
        return host.nodename

    assert len({picked(seed) for seed in range(20)}) > 5
    assert picked(7) == picked(7)
    source = kind(Record(f"n{i}", memory_mb=1024 * (i + 1)) for i in range(10))
    assert {picked(seed, host_subset_size=3) for seed in range(40)} == {"n0", "n1", "n2"}


def test_a_node_that_is_not_free_is_never_picked() -> None:
    source = InOrder([Record("a", available=False), Record("b", in_use=True), Record("c")])
    assert names(scheduler().select(RequestSpec(), source)) == ["c"]
    assert next(scheduler().ranked(RequestSpec(), source)).nodename == "c"
    only = scheduler().ranked(RequestSpec(), InOrder([Record("b", in_use=True)]))
    with pytest.raises(exceptions.NoValidHost):
        next(only)


# -- several at once --------------------------------------------------------------


def test_instances_spread_evenly_over_compute_services() -> None:
    index = HostIndex(Record(f"{host}-{i}", host=host) for host in "abc" for i in range(40))
    picker = scheduler(*DEFAULT)
    for _ in range(10):
        picker.select(RequestSpec(), index)
    picker.select(RequestSpec(), index, count=50)
    assert sorted(index.instances_by_host().values()) == [20, 20, 20]


def test_all_of_several_instances_get_a_node_or_none() -> None:
    index = HostIndex(Record(f"n{i}") for i in range(3))
    error = refused(scheduler(*DEFAULT), RequestSpec(), index, 4)
    assert (error.wanted, error.found) == (4, 3)
    assert "a node was found for 3 of 4 servers" in str(error)
    assert index.count(CandidateQuery()) == 3
    hosts = scheduler(*DEFAULT).select(RequestSpec(), index, count=3)
    assert sorted(names(hosts)) == ["n0", "n1", "n2"]


# With batches of one, the small ones, all of one service, come first and fill the first batch.
@pytest.mark.parametrize(("batch", "memory"), [(32, 1024), (1, 4096)])
def test_several_instances_respect_what_a_compute_service_may_have(
    batch: int, memory: int
) -> None:
    fleet = [Record(f"a{i}", host="a", memory_mb=1024) for i in range(10)]
    fleet += [Record(f"b{i}", host="b", memory_mb=memory) for i in range(10)]
    options = {"max_instances_per_host": 3, "candidate_batch_size": batch}
    picker, index = scheduler("NumInstancesFilter", **options), HostIndex(fleet)
    hosts = picker.select(RequestSpec(), index, count=6)
    assert Counter(host.host for host in hosts) == {"a": 3, "b": 3}
    said = str(refused(picker, RequestSpec(), index))
    assert re.search("NumInstancesFilter .* left 0", said)


def test_threads_never_get_the_same_node() -> None:
    index = HostIndex(Record(f"n{i}", host=f"c{i % 4}") for i in range(200))
    picker = scheduler(*EXACT)

    def pick(_: int) -> list[str]:
        return [name for _ in range(25) for name in names(picker.select(SIZED, index))]

    with ThreadPoolExecutor(8) as pool:
        picked = [name for found in pool.map(pick, range(8)) for name in found]
    assert sorted(picked) == sorted(f"n{i}" for i in range(200))
    assert "none of 200 nodes is free" in str(refused(picker, SIZED, index))


def test_a_node_that_somebody_else_got_first_is_passed_over() -> None:
    class Contended(HostIndex):
        refused: list[str] = []  # noqa: RUF012 - one object of it only

        def claim(self, node: str, owner: str) -> bool:
            if len(self.refused) < 40:
                self.refused.append(node)
                super().claim(node, "somebody")
                return False
            return super().claim(node, owner)

    index = Contended(Record(f"n{i}") for i in range(50))
    (host,) = scheduler(*DEFAULT).select(RequestSpec(), index)
    assert host.nodename not in index.refused
    assert len(set(index.refused)) == 40


def test_claims_go_back_when_something_breaks_half_way() -> None:
    class Breaking(HostIndex):
        def claim(self, node: str, owner: str) -> bool:
            if self.instances_by_host():
                raise ConnectionError
            return super().claim(node, owner)

    index = Breaking(Record(f"n{i}") for i in range(5))
    with pytest.raises(ConnectionError):
        scheduler(*DEFAULT).select(RequestSpec(), index, count=2)
    assert index.count(CandidateQuery()) == 5


# -- no valid host ----------------------------------------------------------------


@each_source
def test_it_is_told_filter_by_filter_how_many_were_left(source) -> None:
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
    # In whatever order they are enabled.
    error = refused(scheduler(*reversed(EXACT)), spec, source(fleet))
    assert (error.instance, error.flavor, error.known, error.free) == ("i1", "large", 19, 15)
    assert str(error) == (
        "No valid host for server i1 (flavor large): 15 of 19 nodes free; "
        "ExactRamFilter (exactly 16384 MiB of memory) left 11; "
        "ResourceClassFilter (1 CUSTOM_GOLD) left 3; "
        "TraitsFilter (with GPU) left 1; "
        "ComputeCapabilitiesFilter (boot_mode uefi) left 0, "
        "for example bios: its boot_mode is bios, not uefi"
    )


def test_a_filter_that_an_index_decides_in_part_is_blamed_for_what_it_rejects() -> None:
    class Picky(RamFilter):
        def why_not(self, host: HostState, spec: RequestSpec) -> str | None:
            return "it is not liked"

    picker = scheduler("RamFilter", "TraitsFilter")
    picker.host_manager.filters = {**picker.host_manager.filters, "RamFilter": Picky(options())}
    spec = RequestSpec(memory_mb=1, required_traits=frozenset({"GPU"}))
    fleet = [Record(f"n{i}", traits=frozenset({"GPU"})) for i in range(5)]
    said = str(refused(picker, spec, HostIndex(fleet)))
    assert re.search(r"RamFilter .* left 0, for example n.: it is", said)


@each_source
def test_of_nodes_that_name_no_cores_a_request_in_vain_warns_once(source, caplog) -> None:
    fleet = [*(Record(f"n{i}", vcpus=4) for i in range(50)), Record("unknown", vcpus=0)]
    picker = scheduler(*EXACT)
    for _ in range(2):
        refused(picker, SIZED, source(fleet))
    (warning,) = [one for one in caplog.messages if "properties/cpus" in one]
    assert "unknown" in warning


@each_source
def test_what_the_index_has_ruled_out_is_explained_by_an_example(source, caplog) -> None:
    error = refused(scheduler(*EXACT), SIZED, source([Record("a", memory_mb=1024)]))
    assert str(error).endswith(
        "ExactRamFilter (exactly 16384 MiB of memory) left 0, "
        "for example a: 1024 MiB of memory are free, not 16384"
    )
    # Also what is an operator's to mend.
    error = refused(scheduler(*EXACT), SIZED, source([Record("a", vcpus=0)]))
    assert "a: it doesn't say how many cores it has" in str(error)
    (warning,) = [one for one in caplog.records if one.levelname == "WARNING"]
    assert "properties/cpus" in warning.getMessage()


@given(
    fleet=FLEETS,
    spec=st.builds(
        RequestSpec,
        memory_mb=SIZES,
        vcpus=SIZES,
        resources=st.just(GOLD),
        required_traits=TRAITS,
        extra_specs=st.just({"capabilities:lacking": "1"}),
    ),
    enabled=st.permutations(DEFAULT),
)
def test_what_is_told_is_what_the_filters_one_by_one_would_leave(
    fleet: list[Record], spec: RequestSpec, enabled: list[str]
) -> None:
    picker = scheduler(*enabled, candidate_batch_size=3)
    for source in (HostIndex(fleet), RecordList(fleet)):
        hosts = [host for host in picker.host_manager.host_states(fleet) if host.is_free]
        for name, _, left in refused(picker, spec, source).left:
            filter_ = picker.host_manager.filters[name]
            hosts = [host for host in hosts if filter_.host_passes(host, spec)]
            assert left == len(hosts), name


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
    assert says in str(refused(scheduler(*DEFAULT), spec, HostIndex(fleet)))


def test_that_all_were_taken_meanwhile_is_told() -> None:
    ranked = scheduler("RamFilter").ranked(RequestSpec(), HostIndex([Record()]))
    assert next(ranked).nodename == "node-1"
    with pytest.raises(exceptions.NoValidHost, match=r"claim \(1 were taken meanwhile\) left 0"):
        next(ranked)
