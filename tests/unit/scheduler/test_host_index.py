# SPDX-License-Identifier: Apache-2.0

"""The index in memory answers as looking at every record would."""

from __future__ import annotations

import datetime
import random
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from ironic_virt.scheduler.candidates import CandidateQuery, RecordList, Span
from ironic_virt.scheduler.host_index import HostIndex
from tests import depth
from tests.unit.scheduler.records import Record

HOSTS = ["c1", "c2", "c3"]
TRAITS = st.frozensets(st.sampled_from(["A", "B", "C"]))
SIZES = st.sampled_from([0, 1, 2, 4])


def records_of(uuids: st.SearchStrategy[str]) -> st.SearchStrategy[Record]:
    return st.builds(
        Record,
        uuid=uuids,
        host=st.sampled_from(HOSTS),
        vcpus=SIZES,
        memory_mb=SIZES,
        local_gb=SIZES,
        resource_class=st.sampled_from([None, "gold", "GOLD", "silver.1"]),
        traits=TRAITS,
        in_use=st.sampled_from([False, False, True]),
        available=st.sampled_from([True, True, False]),
        instance_uuid=st.sampled_from([None, None, "i1"]),
    )


SPANS = st.builds(Span, SIZES) | st.builds(Span, SIZES, SIZES) | SIZES.map(lambda n: Span(n, n))
QUERIES = st.builds(
    CandidateQuery,
    resource_classes=st.none()
    | st.frozensets(st.sampled_from(["CUSTOM_GOLD", "CUSTOM_SILVER_1", "CUSTOM_X"])),
    vcpus=SPANS,
    memory_mb=SPANS,
    local_gb=SPANS,
    required_traits=TRAITS,
    forbidden_traits=TRAITS,
    exclude=st.frozensets(st.sampled_from([f"n{i}" for i in range(6)])),
)
FLEETS = st.lists(
    records_of(st.integers(0, 40).map(lambda n: f"n{n}")), max_size=40, unique_by=lambda r: r.uuid
)


def all_of(source: HostIndex | RecordList, query: CandidateQuery, size: int) -> list[str]:
    batches = list(source.batches(query, size, random.Random(1)))
    assert all(0 < len(batch) <= size for batch in batches)
    return [record.uuid for batch in batches for record in batch]


@given(
    fleet=FLEETS,
    query=QUERIES,
    size=st.integers(1, 9),
    usable=st.none() | st.frozensets(st.sampled_from(HOSTS)),
)
def test_it_finds_what_looking_at_every_record_finds(
    fleet: list[Record], query: CandidateQuery, size: int, usable: frozenset[str] | None
) -> None:
    index, brute = HostIndex(fleet, usable_hosts=usable), RecordList(fleet, usable)
    found = all_of(index, query, size)
    assert len(found) == len(set(found))
    assert sorted(found) == sorted(all_of(brute, query, size))
    assert index.count(query) == brute.count(query) == len(found)
    assert index.known() == brute.known()
    assert index.instances_by_host() == brute.instances_by_host()


class Histories(RuleBasedStateMachine):
    """Whatever happens in whatever order, the index holds what the records and claims say."""

    NODES = st.sampled_from([f"n{i}" for i in range(6)])

    def __init__(self) -> None:
        super().__init__()
        self.index = HostIndex()
        self.records: dict[str, Record] = {}
        self.claims: dict[str, str] = {}

    @rule(record=records_of(NODES))
    def update(self, record: Record) -> None:
        self.index.update([record])
        self.records[record.uuid] = record
        if record.in_use or record.instance_uuid:
            self.claims.pop(record.uuid, None)

    @rule(fleet=st.lists(records_of(NODES), max_size=4, unique_by=lambda r: r.uuid))
    def replace(self, fleet: list[Record]) -> None:
        self.index.replace(fleet)
        for uuid in set(self.records) - {record.uuid for record in fleet}:
            self.claims.pop(uuid, None)
        self.records = {record.uuid: record for record in fleet}
        for record in fleet:
            if record.in_use or record.instance_uuid:
                self.claims.pop(record.uuid, None)

    @rule(node=NODES)
    def remove(self, node: str) -> None:
        self.index.remove([node])
        self.records.pop(node, None)
        self.claims.pop(node, None)

    @rule(node=NODES, owner=st.sampled_from(["a", "b"]))
    def claim(self, node: str, owner: str) -> None:
        offered = node in self.offered()
        assert self.index.claim(node, owner) is offered
        if offered:
            self.claims[node] = owner

    @rule(node=NODES, owner=st.sampled_from(["a", "b"]))
    def release(self, node: str, owner: str) -> None:
        self.index.release(node, owner)
        if self.claims.get(node) == owner:
            del self.claims[node]

    def offered(self) -> set[str]:
        every = RecordList(self.records.values())
        return set(all_of(every, CandidateQuery(), 9)) - set(self.claims)

    @invariant()
    def offers_what_is_free_and_not_claimed(self) -> None:
        assert set(all_of(self.index, CandidateQuery(), 4)) == self.offered()
        assert self.index.known() == len(self.records)
        counts = dict(RecordList(self.records.values()).instances_by_host())
        for node in self.claims:
            record = self.records[node]
            if not record.in_use and record.instance_uuid is None:
                counts[record.host] = counts.get(record.host, 0) + 1
        assert self.index.instances_by_host() == counts


TestHistories = Histories.TestCase
TestHistories.settings = settings(max_examples=depth.choose(15, 300), stateful_step_count=20)


@pytest.mark.parametrize(
    ("classes", "at_least", "first"),
    [(1, 3000, ["n6", "n5", "n4", "n3"]), (3, 0, ["n8", "n7", "n6", "n5"])],
    ids=["that are large enough", "over all classes"],
)
def test_small_ones_come_first(classes: int, at_least: int, first: list[str]) -> None:
    fleet = [
        Record(uuid=f"n{i}", memory_mb=1024 * (9 - i), resource_class=f"kind-{i % classes}")
        for i in range(9)
    ]
    query = CandidateQuery(memory_mb=Span(at_least))
    assert all_of(HostIndex(fleet), query, 4)[:4] == first


def test_the_first_batch_is_of_the_services_with_the_fewest_instances() -> None:
    fleet = [Record(uuid=f"{host}-{i}", host=host) for host in HOSTS for i in range(10)]
    index = HostIndex(fleet)
    for node in ("c1-0", "c1-1", "c2-0"):
        assert index.claim(node, "x")
    first = next(index.batches(CandidateQuery(), 3, random.Random(1)))
    assert [record.host for record in first] == ["c3", "c2", "c1"]


def test_who_asks_at_once_does_not_get_the_same_first() -> None:
    index = HostIndex(Record(uuid=f"n{i}") for i in range(1000))
    firsts = {
        next(index.batches(CandidateQuery(), 1, random.Random(seed)))[0].uuid for seed in range(20)
    }
    assert len(firsts) > 15


def test_only_who_has_claimed_a_node_gives_it_back() -> None:
    index = HostIndex([Record()])
    assert index.claim("node-1", "i1")
    index.release("node-1", "i2")
    assert index.count(CandidateQuery()) == 0
    index.release("node-1", "i1")
    assert index.count(CandidateQuery()) == 1


def test_an_older_record_does_not_undo_a_claim_and_a_later_one_does() -> None:
    claimed = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    second = datetime.timedelta(seconds=1)
    index = HostIndex([Record()], clock=lambda: claimed)
    assert index.claim("node-1", "i1")
    index.update([Record(updated_at=claimed - second)])
    assert index.count(CandidateQuery()) == 0
    index.update([Record(updated_at=claimed + second)])
    assert index.count(CandidateQuery()) == 1


def test_a_node_is_claimed_once_by_however_many_threads() -> None:
    index = HostIndex(Record(uuid=f"n{i}") for i in range(50))

    def claim_all(owner: int) -> list[str]:
        return [f"n{i}" for i in range(50) if index.claim(f"n{i}", str(owner))]

    with ThreadPoolExecutor(8) as pool:
        claimed = [node for nodes in pool.map(claim_all, range(8)) for node in nodes]
    assert sorted(claimed) == sorted(f"n{i}" for i in range(50))
