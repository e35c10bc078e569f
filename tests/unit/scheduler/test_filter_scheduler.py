# SPDX-License-Identifier: Apache-2.0

"""What is picked, how much is looked at for it, and what is said when nothing is left."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

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


# -- picking ----------------------------------------------------------------------


def test_the_best_that_passes_is_picked_consumed_and_claimed() -> None:
    index = HostIndex(
        [
            Record("small", memory_mb=1024),
            Record("right", memory_mb=4096),
            Record("large", memory_mb=65536),
        ]
    )
    spec = RequestSpec(instance_uuid="i1", memory_mb=2048)
    (host,) = scheduler(*DEFAULT).select(spec, index)
    assert (host.host, host.nodename, host.is_free) == ("compute-1", "right", False)
    assert not index.claim("right", "i2")
    assert names(scheduler(*DEFAULT).select(spec, index)) == ["large"]
    with pytest.raises(exceptions.NoValidHost):
        scheduler(*DEFAULT).select(spec, index)
    index.release("right", "i1")
    assert names(scheduler(*DEFAULT).select(spec, index)) == ["right"]


@given(
    fleet=FLEETS,
    enabled=st.sampled_from([DEFAULT, EXACT, [], ["TraitsFilter"]]),
    memory=SIZES,
    vcpus=SIZES,
    disk=SIZES,
    wanted=st.sampled_from([{}, GOLD, {"CUSTOM_SILVER_1": 1}, {"CUSTOM_GOLD": 2}]),
    required=TRAITS,
    forbidden=TRAITS,
    batch=st.integers(1, 7),
)
def test_exactly_what_all_filters_pass_is_found(
    fleet: list[Record],
    enabled: list[str],
    memory: int,
    vcpus: int,
    disk: int,
    wanted: dict[str, int],
    required: frozenset[str],
    forbidden: frozenset[str],
    batch: int,
) -> None:
    spec = RequestSpec(
        memory_mb=memory,
        vcpus=vcpus,
        root_gb=disk,
        resources=wanted,
        required_traits=required,
        forbidden_traits=forbidden,
        exclude_nodes=frozenset({"n1"}),
    )
    picker = scheduler(*enabled, candidate_batch_size=batch)
    manager = picker.host_manager
    states = [state for state in manager.host_states(fleet) if state.is_free]
    expected = [
        host.nodename
        for host in manager.get_filtered_hosts(states, spec)
        if host.nodename not in spec.exclude_nodes
    ]
    for source in (HostIndex(fleet), RecordList(fleet)):
        found: list[str] = []
        with pytest.raises(exceptions.NoValidHost):
            found.extend(host.nodename for host in picker.ranked(spec, source))
        assert sorted(found) == sorted(expected)
        if expected:
            assert picker.select(spec, source)[0].nodename in expected


def test_no_more_is_looked_at_than_one_batch() -> None:
    index = Watched(Record(f"n{i}") for i in range(500))
    scheduler(*EXACT).select(RequestSpec(memory_mb=16384, vcpus=8, root_gb=480), index)
    assert index.handed_out == 32


@pytest.mark.parametrize(
    "spec",
    [
        RequestSpec(memory_mb=16384, vcpus=8, root_gb=480, swap=1000),
        RequestSpec(memory_mb=16384, vcpus=8, root_gb=480, resources={"CUSTOM_GOLD": 2}),
        RequestSpec(
            memory_mb=16384, vcpus=8, root_gb=480, resources={"CUSTOM_GOLD": 1, "CUSTOM_FPGA": 1}
        ),
        RequestSpec(memory_mb=16384, vcpus=8, root_gb=480, required_traits=frozenset({"A"})),
    ],
    ids=["no whole GiB", "two of a class", "two classes", "a trait"],
)
def test_what_an_index_can_rule_out_is_looked_at_for_an_example_only(spec: RequestSpec) -> None:
    index = Watched(Record(f"n{i}") for i in range(100))
    with pytest.raises(exceptions.NoValidHost):
        scheduler(*EXACT).select(spec, index)
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


def test_ties_are_broken_by_chance_and_the_chance_is_given() -> None:
    index = RecordList(Record(f"n{i}") for i in range(20))

    def picked(seed: int) -> str:
        (host,) = scheduler(*DEFAULT, seed=seed).select(RequestSpec(), index)
        return host.nodename

    assert len({picked(seed) for seed in range(20)}) > 5
    assert picked(7) == picked(7)


def test_ties_are_broken_also_when_the_source_has_one_order_only() -> None:
    source = InOrder(Record(f"n{i}") for i in range(20))
    picked = {
        scheduler(*DEFAULT, seed=seed).select(RequestSpec(), source)[0].nodename
        for seed in range(20)
    }
    assert len(picked) > 5


def test_a_node_that_is_not_free_is_never_picked() -> None:
    source = InOrder([Record("a", available=False), Record("b", in_use=True), Record("c")])
    assert names(scheduler().select(RequestSpec(), source)) == ["c"]
    assert next(scheduler().ranked(RequestSpec(), source)).nodename == "c"
    only = scheduler().ranked(RequestSpec(), InOrder([Record("b", in_use=True)]))
    with pytest.raises(exceptions.NoValidHost):
        next(only)


def test_one_of_the_best_is_picked_where_that_is_wanted() -> None:
    index = RecordList(Record(f"n{i}", memory_mb=1024 * (i + 1)) for i in range(10))
    picked = {
        scheduler(*DEFAULT, seed=seed, host_subset_size=3).select(RequestSpec(), index)[0].nodename
        for seed in range(40)
    }
    assert picked == {"n0", "n1", "n2"}


def test_a_scheduler_is_made_by_its_options() -> None:
    picker = FilterScheduler.from_conf(options(host_subset_size=4, candidate_batch_size=5))
    assert (picker.subset_size, picker.batch_size) == (4, 5)


# -- several at once --------------------------------------------------------------


def test_instances_spread_evenly_over_compute_services() -> None:
    index = HostIndex(Record(f"{host}-{i}", host=host) for host in "abc" for i in range(40))
    picker = scheduler(*DEFAULT)
    for _ in range(10):
        picker.select(RequestSpec(), index)
    picker.select(RequestSpec(), index, count=50)
    assert sorted(index.instances_by_host().values()) == [20, 20, 20]


def test_several_instances_get_a_node_each() -> None:
    index = HostIndex(Record(f"n{i}") for i in range(5))
    hosts = scheduler(*DEFAULT).select(RequestSpec(), index, count=5)
    assert sorted(names(hosts)) == [f"n{i}" for i in range(5)]


def test_all_of_several_instances_get_a_node_or_none() -> None:
    index = HostIndex(Record(f"n{i}") for i in range(3))
    with pytest.raises(exceptions.NoValidHost) as caught:
        scheduler(*DEFAULT).select(RequestSpec(), index, count=4)
    assert (caught.value.wanted, caught.value.found) == (4, 3)
    assert "a node was found for 3 of 4 servers" in str(caught.value)
    assert index.count(CandidateQuery()) == 3


def test_several_instances_respect_what_a_compute_service_may_have() -> None:
    index = HostIndex(Record(f"{host}-{i}", host=host) for host in "ab" for i in range(10))
    picker = scheduler("NumInstancesFilter", max_instances_per_host=3)
    hosts = picker.select(RequestSpec(), index, count=6)
    assert Counter(host.host for host in hosts) == {"a": 3, "b": 3}
    with pytest.raises(exceptions.NoValidHost, match=r"NumInstancesFilter .* left 0"):
        picker.select(RequestSpec(), index)


def test_what_was_picked_counts_for_the_next_batch_too() -> None:
    # The small ones, all of one service, come first and fill the first batch.
    small = [Record(f"a{i}", host="a", memory_mb=1024) for i in range(10)]
    large = [Record(f"b{i}", host="b", memory_mb=4096) for i in range(10)]
    picker = scheduler("NumInstancesFilter", max_instances_per_host=3, candidate_batch_size=1)
    hosts = picker.select(RequestSpec(), HostIndex([*small, *large]), count=6)
    assert Counter(host.host for host in hosts) == {"a": 3, "b": 3}


def test_threads_never_get_the_same_node() -> None:
    index = HostIndex(Record(f"n{i}", host=f"c{i % 4}") for i in range(200))
    picker = scheduler(*EXACT)
    spec = RequestSpec(memory_mb=16384, vcpus=8, root_gb=480)

    def pick(_: int) -> list[str]:
        return [name for _ in range(25) for name in names(picker.select(spec, index))]

    with ThreadPoolExecutor(8) as pool:
        picked = [name for found in pool.map(pick, range(8)) for name in found]
    assert sorted(picked) == sorted(f"n{i}" for i in range(200))
    with pytest.raises(exceptions.NoValidHost, match="none of 200 nodes is free"):
        picker.select(spec, index)


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


@pytest.mark.parametrize("source", [HostIndex, RecordList])
def test_it_is_told_filter_by_filter_how_many_were_left(
    source: type[HostIndex] | type[RecordList],
) -> None:
    fleet = [
        *(Record(f"taken{i}", instance_uuid="i") for i in range(4)),
        *(Record(f"silver{i}", resource_class="silver") for i in range(8)),
        *(Record(f"little{i}", memory_mb=1024) for i in range(4)),
        *(Record(f"plain{i}") for i in range(2)),
        Record("bios", traits=frozenset({"GPU"}), stats={"boot_mode": "bios"}),
    ]
    spec = RequestSpec(
        instance_uuid="i1",
        flavor_name="large",
        memory_mb=16384,
        vcpus=8,
        root_gb=480,
        resources=GOLD,
        required_traits=frozenset({"GPU"}),
        extra_specs={"capabilities:boot_mode": "uefi"},
    )
    # In whatever order they are enabled.
    picker = scheduler(*reversed(EXACT))
    with pytest.raises(exceptions.NoValidHost) as caught:
        picker.select(spec, source(fleet))
    error = caught.value
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
    with pytest.raises(
        exceptions.NoValidHost, match=r"RamFilter .* left 0, for example n.: it is"
    ):
        picker.select(spec, HostIndex(fleet))


@pytest.mark.parametrize("source", [HostIndex, RecordList])
def test_of_nodes_that_name_no_cores_a_request_in_vain_warns_once(
    source: type[HostIndex] | type[RecordList], caplog: pytest.LogCaptureFixture
) -> None:
    fleet = [*(Record(f"n{i}", vcpus=4) for i in range(50)), Record("unknown", vcpus=0)]
    picker = scheduler(*EXACT)
    for _ in range(2):
        with pytest.raises(exceptions.NoValidHost):
            picker.select(RequestSpec(memory_mb=16384, vcpus=8, root_gb=480), source(fleet))
    (warning,) = [one for one in caplog.messages if "properties/cpus" in one]
    assert "unknown" in warning


@given(fleet=FLEETS, memory=SIZES, vcpus=SIZES, required=TRAITS, enabled=st.permutations(DEFAULT))
def test_what_is_told_is_what_the_filters_one_by_one_would_leave(
    fleet: list[Record], memory: int, vcpus: int, required: frozenset[str], enabled: list[str]
) -> None:
    spec = RequestSpec(
        memory_mb=memory,
        vcpus=vcpus,
        resources=GOLD,
        required_traits=required,
        extra_specs={"capabilities:lacking": "1"},
    )
    picker = scheduler(*enabled, candidate_batch_size=3)
    for source in (HostIndex(fleet), RecordList(fleet)):
        with pytest.raises(exceptions.NoValidHost) as caught:
            picker.select(spec, source)
        hosts = [host for host in picker.host_manager.host_states(fleet) if host.is_free]
        for name, _, left in caught.value.left:
            filter_ = picker.host_manager.filters[name]
            hosts = [host for host in hosts if filter_.host_passes(host, spec)]
            assert left == len(hosts), name


@pytest.mark.parametrize("source", [HostIndex, RecordList])
def test_what_the_index_has_ruled_out_is_explained_by_an_example(
    source: type[HostIndex] | type[RecordList], caplog: pytest.LogCaptureFixture
) -> None:
    spec = RequestSpec(memory_mb=16384, vcpus=8, root_gb=480)
    with pytest.raises(exceptions.NoValidHost) as caught:
        scheduler(*EXACT).select(spec, source([Record("a", memory_mb=1024)]))
    assert str(caught.value).endswith(
        "ExactRamFilter (exactly 16384 MiB of memory) left 0, "
        "for example a: 1024 MiB of memory are free, not 16384"
    )
    # Also what is an operator's to mend.
    with pytest.raises(exceptions.NoValidHost, match="a: it doesn't say how many cores it has"):
        scheduler(*EXACT).select(spec, source([Record("a", vcpus=0)]))
    (warning,) = [one for one in caplog.records if one.levelname == "WARNING"]
    assert "properties/cpus" in warning.getMessage()


def test_the_last_filter_that_is_told_is_the_one_that_left_none() -> None:
    error = exceptions.NoValidHost(
        None, "", known=9, free=9, left=[("A", "", 3), ("B", "b", 0), ("C", "", 0)]
    )
    assert str(error) == "No valid host: 9 of 9 nodes free; A left 3; B (b) left 0"


def test_when_there_are_some_only_what_rejected_any_is_told() -> None:
    error = exceptions.NoValidHost(
        None,
        "gold",
        known=9,
        free=5,
        left=[("A", "", 5), ("B", "b", 2), ("C", "", 2)],
        wanted=10,
        found=2,
    )
    assert str(error) == (
        "No valid host (flavor gold): 5 of 9 nodes free; B (b) left 2; "
        "a node was found for 2 of 10 servers"
    )


@pytest.mark.parametrize(
    ("fleet", "says"),
    [
        ([], "there are no compute nodes (is a compute service running?)"),
        ([Record(in_use=True)], "none of 1 node is free and has a compute service that is up"),
    ],
)
def test_that_there_is_nothing_at_all_is_told(fleet: list[Record], says: str) -> None:
    with pytest.raises(exceptions.NoValidHost) as caught:
        scheduler(*DEFAULT).select(RequestSpec(), HostIndex(fleet))
    assert says in str(caught.value)


def test_that_all_were_tried_is_told() -> None:
    spec = RequestSpec(exclude_nodes=frozenset({"node-1"}))
    with pytest.raises(exceptions.NoValidHost) as caught:
        scheduler(*DEFAULT).select(spec, HostIndex([Record()]))
    assert "1 of 1 node free; retry (without the 1 tried) left 0" in str(caught.value)


def test_that_all_were_taken_meanwhile_is_told() -> None:
    ranked = scheduler("RamFilter").ranked(RequestSpec(), HostIndex([Record()]))
    assert next(ranked).nodename == "node-1"
    with pytest.raises(exceptions.NoValidHost, match=r"claim \(1 were taken meanwhile\) left 0"):
        next(ranked)
