# SPDX-License-Identifier: Apache-2.0

"""The inventory: what a refresh changes, what it never changes, who shares it."""

import copy
import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ironic_virt import exceptions
from ironic_virt.baremetal.inventory import cache as inventory_module
from ironic_virt.baremetal.inventory.cache import Inventory
from ironic_virt.baremetal.inventory.comparison import Changes
from ironic_virt.baremetal.inventory.snapshot import Snapshot
from ironic_virt.baremetal.node import Node
from tests.clock import PATIENCE, VirtualClock

A = Node(uuid="a", name="node-a", provision_state="available")
B = Node(uuid="b", name="node-b", provision_state="active", instance_uuid="instance-b")
DOWN = exceptions.IronicUnreachable("connection refused")


def with_instance(node: Node, instance: str | None) -> Node:
    return msgspec.structs.replace(node, instance_uuid=instance)


class Script:
    """A list of nodes that answers as written; an answer may be an error or act first."""

    def __init__(self, *answers: Sequence[Node] | Exception | Callable[[], Sequence[Node]]):
        self._answers: Iterator[object] = iter(answers)
        self.calls = 0

    def __call__(self) -> Sequence[Node]:
        self.calls += 1
        answer = next(self._answers)
        if isinstance(answer, Exception):
            raise answer
        return answer() if callable(answer) else answer  # type: ignore[return-value]


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


def test_before_the_first_list_it_is_empty_stale_and_says_so(caplog) -> None:
    inventory = Inventory(Script(DOWN))
    snapshot = inventory.snapshot
    assert (len(snapshot), snapshot.taken_at, snapshot.stale) == (0, None, True)
    assert snapshot.error == "nodes have not been listed yet"
    with pytest.raises(exceptions.IronicUnreachable):
        inventory.refresh()
    assert inventory.snapshot.stale
    assert "none is known yet" in caplog.text


def test_each_refresh_is_observed_with_its_time_and_outcome(clock: VirtualClock) -> None:
    def slowly() -> Sequence[Node]:
        clock.now += 3
        return [A]

    observed: list[tuple[float, bool]] = []
    inventory = Inventory(
        Script(slowly, DOWN), clock=clock, observe=lambda *seen: observed.append(seen)
    )
    assert inventory.refresh().taken_at == 1000.0, "the age counts from the list's start"
    with pytest.raises(exceptions.IronicUnreachable):
        inventory.refresh()
    assert observed == [(3.0, True), (0.0, False)]


@pytest.mark.parametrize("error", [DOWN, ValueError("a bug")])
def test_a_failed_list_changes_no_node(error: Exception, clock: VirtualClock) -> None:
    inventory = Inventory(Script([A, B], error, [A]), clock=clock)
    inventory.refresh()
    clock.now += 10
    with pytest.raises(type(error)) as raised:
        inventory.refresh()
    assert raised.value is error
    snapshot = inventory.snapshot
    assert list(snapshot.nodes) == ["a", "b"]
    assert snapshot.by_instance("instance-b") is B
    assert (snapshot.stale, snapshot.error, snapshot.taken_at) == (True, str(error), 1000.0)
    assert inventory.refresh().stale is False


@pytest.mark.parametrize(
    ("error", "level"),
    [(DOWN, "WARNING"), (exceptions.IronicUnauthorized("who are you?", status=401), "ERROR")],
)
def test_an_outage_of_hours_is_told_every_few_minutes(clock, caplog, error, level) -> None:
    caplog.set_level(logging.INFO)
    inventory = Inventory(Script([A, B], *[error] * 120), clock=clock)
    inventory.refresh()
    for _ in range(120):
        clock.now += 60
        with pytest.raises(type(error)):
            inventory.refresh()
    assert {record.levelname for record in caplog.records} == {level}
    assert len(caplog.records) == 24
    assert "could not be listed for 6900 s now; the 2 nodes of 6960 s ago" in caplog.messages[-1]


def test_one_line_when_it_becomes_stale_and_one_when_it_recovers(clock, caplog) -> None:
    caplog.set_level(logging.INFO)
    inventory = Inventory(Script([A, B], DOWN, DOWN, DOWN, [A], [A]), clock=clock)
    for _ in range(6):
        clock.now += 60
        try:
            inventory.refresh()
        except exceptions.IronicUnreachable:
            continue
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        (
            "WARNING",
            "[nodes-not-listed] The nodes could not be listed; the 2 nodes of 60 s ago stay in "
            "force: Ironic: connection refused",
        ),
        ("INFO", "The nodes could be listed again after 180 s: 1 nodes"),
    ]


def test_a_moved_instance_is_found_in_any_order_of_its_nodes() -> None:
    for order in (("a", "b"), ("b", "a")):
        inventory = Inventory(Script([A, B]))
        inventory.refresh()
        now = {"a": with_instance(A, "instance-b"), "b": with_instance(B, None)}
        for uuid in order:
            inventory.put(now[uuid])
        found = inventory.snapshot.by_instance("instance-b")
        assert found is not None
        assert found.uuid == "a"


@pytest.mark.parametrize(
    "more",
    [{"instance_info": {"image_source": "x" * 1000}}, {"provision_updated_at": "2026-01-01"}],
)
def test_fields_that_a_list_lacks_are_not_kept_nor_compared(more: Any) -> None:
    inventory = Inventory(Script([A]))
    inventory.refresh()
    inventory.put(msgspec.structs.replace(A, **more))
    assert inventory.snapshot.nodes["a"] == A


def test_a_list_keeps_the_objects_of_nodes_that_are_as_before() -> None:
    unreadable = Node(uuid="b", malformed=("name",))
    taken = with_instance(A, "instance-a")
    lists = ([A, B], [copy.copy(A), copy.copy(B)], [taken, unreadable], [taken, unreadable])
    inventory = Inventory(Script(*lists))
    inventory.refresh()
    same = inventory.refresh().nodes
    assert same["a"] is A
    assert same["b"] is B
    later = inventory.refresh().nodes
    assert later["a"] is taken
    known = later["b"]
    assert (known.name, known.malformed) == ("node-b", ("name",)), "what can't be read is kept"
    assert inventory.refresh().nodes["b"] is known


def test_changes_are_merged_into_what_is_known(clock: VirtualClock) -> None:
    taken = with_instance(B, "instance-c")
    unreadable = Node(uuid="c", malformed=("name",))
    known = Node(uuid="c", name="node-c", resource_class="gold")

    def changes(former: Mapping[str, Node]) -> Changes:
        clock.now += 3
        assert dict(former) == {"a": A, "b": B, "c": known, "d": gone}
        inventory.put(taken)
        found = {"a": copy.copy(A), "b": B, "c": unreadable, "e": new}
        return Changes(found, gone=frozenset({"d"}))

    gone, new = Node(uuid="d"), Node(uuid="e")
    inventory = Inventory(Script([A, B, known, gone]), changes=changes, clock=clock)
    inventory.refresh()
    inventory._fail(DOWN)
    clock.now += 10
    snapshot = inventory.refresh()
    assert snapshot.nodes.keys() == {"a", "b", "c", "e"}
    assert snapshot.nodes["a"] is A, "what is as before stays the same object"
    assert snapshot.nodes["b"] == taken, "what was read meanwhile is newer"
    assert snapshot.nodes["c"].name == "node-c", "what can't be read is as it was"
    assert (snapshot.taken_at, snapshot.stale, snapshot.error) == (1010.0, False, None)


class SlowList:
    """Answers when the test says so."""

    def __init__(self) -> None:
        self.begun = threading.Semaphore(0)
        self.answer: Sequence[Node] | BaseException = [A]
        self.may_answer = threading.Semaphore(0)
        self.calls = 0

    def __call__(self) -> Sequence[Node]:
        self.calls += 1
        self.begun.release()
        assert self.may_answer.acquire(timeout=PATIENCE)
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(6) as pool:
        yield pool


def outcome(caller: Future[Snapshot]) -> Snapshot | BaseException:
    return caller.exception(PATIENCE) or caller.result()


@pytest.mark.parametrize("error", [None, DOWN, KeyboardInterrupt()])
def test_callers_that_come_meanwhile_share_one_list(error, pool, monkeypatch) -> None:
    slow = SlowList()
    inventory = Inventory(slow)
    leader = pool.submit(inventory.refresh)
    assert slow.begun.acquire(timeout=PATIENCE)
    arrived = threading.Semaphore(0)
    refresh = inventory._under_way
    assert refresh is not None
    wait = refresh.ended.wait

    def wait_and_tell(timeout: float) -> bool:
        assert timeout == inventory_module.PATIENCE
        arrived.release()
        return wait(PATIENCE)

    monkeypatch.setattr(refresh.ended, "wait", wait_and_tell)
    others = [pool.submit(inventory.refresh) for _ in range(5)]
    for _ in others:
        assert arrived.acquire(timeout=PATIENCE)
    if error is not None:
        slow.answer = error
    slow.may_answer.release()
    first = outcome(leader)
    rest = [outcome(other) for other in others]
    assert slow.calls == 1
    if isinstance(error, KeyboardInterrupt):
        assert first is error
        assert all(isinstance(one, exceptions.IronicError) for one in rest)
    elif error is None:
        assert all(one is first is inventory.snapshot for one in rest)
    else:
        assert [str(one) for one in rest] == [str(first)] * 5
        assert len({id(one) for one in (first, *rest)}) == 6, "callers add notes to theirs"
    slow.may_answer.release()
    slow.answer = [A, B]
    assert len(inventory.refresh()) == 2, "the next caller lists anew"


def test_a_list_that_does_not_end_holds_up_only_its_caller(pool: ThreadPoolExecutor) -> None:
    slow = SlowList()
    inventory = Inventory(slow, patience=0.0)
    leader = pool.submit(inventory.refresh)
    assert slow.begun.acquire(timeout=PATIENCE)
    with pytest.raises(exceptions.IronicError, match="has not ended within 0 s"):
        inventory.refresh()
    slow.may_answer.release()
    assert outcome(leader) is inventory.snapshot
    assert not inventory.snapshot.stale


UUIDS = st.sampled_from(["a", "b", "c"])
NODES = st.builds(
    lambda uuid, taken: Node(uuid=uuid, instance_uuid=f"instance-{uuid}" if taken else None),
    UUIDS,
    st.booleans(),
)
CHANGES = st.lists(st.one_of(NODES, UUIDS), max_size=4)
ROUNDS = st.tuples(
    st.lists(NODES, max_size=3, unique_by=lambda node: node.uuid),  # what is listed
    st.booleans(),  # whether the list fails
    CHANGES,  # puts and discards (by uuid) while it is under way
    CHANGES,  # and afterwards
)
Round = tuple[list[Node], bool, list[Node | str], list[Node | str]]
TAKEN = with_instance(A, "instance-a")


# A node leaves the list with its instance, and then all do.
@example([([A, B], False, [], []), ([A], False, [], []), ([], False, [], [])])
# A put replaces a node and its instance, and adds none.
@example([([A, B], False, [], [TAKEN, with_instance(B, None), Node(uuid="c")])])
# What is discarded goes with its instance, if there is any.
@example([([A, B], False, [], ["b", "never heard of"])])
# A list that began earlier doesn't undo a put, and brings nothing back: a later one does.
@example([([A, B], False, [], []), ([A, B], False, [TAKEN, "b"], []), ([A, B], False, [], [])])
# What is put while a list fails stands, until the next one.
@example([([A], False, [], []), ([], True, [TAKEN], []), ([A], False, [], [])])
@given(st.lists(ROUNDS, max_size=5))
def test_any_history_ends_with_what_was_known_last(history: list[Round]) -> None:
    model: dict[str, Node] = {}
    rounds = iter(history)

    def change(what: Node | str) -> None:
        if isinstance(what, str):
            inventory.discard(what)
            model.pop(what, None)
        else:
            inventory.put(what)
            if what.uuid in model:
                model[what.uuid] = what

    def list_nodes() -> list[Node]:
        listed, fails, during, after = next(rounds)
        upcoming.extend(after)
        for what in during:
            change(what)
        if fails:
            raise DOWN
        last = {what if isinstance(what, str) else what.uuid: what for what in during}
        model.clear()
        for node in listed:
            known = last.get(node.uuid, node)
            if isinstance(known, Node):
                model[node.uuid] = known
        return listed

    upcoming: list[Node | str] = []
    inventory = Inventory(list_nodes)
    for _, fails, _, _ in history:
        former, held = inventory.snapshot, dict(model)
        upcoming.clear()
        if fails:
            with pytest.raises(exceptions.IronicUnreachable):
                inventory.refresh()
        else:
            inventory.refresh()
        for what in upcoming:
            change(what)
        snapshot = inventory.snapshot
        assert snapshot.nodes == model
        assert snapshot.stale is fails
        taken = {node.instance_uuid: node for node in model.values() if node.instance_uuid}
        assert {uuid: snapshot.by_instance(uuid) for uuid in snapshot.instance_uuids} == taken
        assert dict(former.nodes) == held, "readers keep what they hold"
