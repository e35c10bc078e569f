# SPDX-License-Identifier: Apache-2.0

"""Nodes are passed over only where a whole pass would change nothing."""

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from ironic_virt.nova.settled import (
    CachedNode,
    Inputs,
    Period,
    Reason,
    Server,
    Servers,
    SettledNodes,
    is_clean,
)
from tests import depth
from tests.unit.nova.small_nova import (
    CAPABILITY,
    DISABLED,
    HOST,
    Cloud,
    Compute,
    after_a_whole_pass,
)
from tests.unit.nova.small_nova import Server as Row

NODES = ["n1", "n2", "n3"]
INFINITE = 1e12
node_names = st.sampled_from(NODES)
any_server = st.integers(0, 5)
STEPS = ["servers", "allocations", "reading", "traits", "saved"]


class Histories(RuleBasedStateMachine):
    """Events in any order, servers are numbered; after a period a whole pass changes nothing."""

    @initialize(max_age=st.sampled_from([100.0, 3600.0, INFINITE]))
    def begin(self, max_age: float) -> None:
        self.cloud = Cloud(dict.fromkeys(NODES, 1))
        self.compute = Compute(self.cloud, max_age)
        self.checked = False
        self.compute.period()

    @rule(node=node_names)
    def change(self, node: str) -> None:
        """Maintenance, cleaning, other properties."""
        self.checked = False
        if node in self.cloud.offers:
            self.cloud.offers[node] += 1

    @rule(node=node_names, what=st.integers(0, 6))
    def edit(self, node: str, what: int) -> None:
        """In Placement: inventory, each kind of trait, or the provider itself."""
        self.checked = False
        provider = self.cloud.providers.get(node)
        if provider is None:
            return
        kinds: list[dict[str, object]] = [
            {"inventory": 0},
            {"inventory": 77},
            {"traits": frozenset()},
            {"traits": provider.traits | {"FOREIGN"}},
            {"traits": provider.traits ^ {DISABLED}},
            {"traits": provider.traits - {CAPABILITY}},
        ]
        if what == len(kinds):
            if not provider.consumers:
                del self.cloud.providers[node]
            return
        provider.write(**kinds[what])

    @rule(disabled=st.booleans(), told=st.booleans())
    def disable(self, disabled: bool, told: bool) -> None:
        self.checked = False
        if told:
            self.compute.disable(disabled)
        else:
            self.cloud.disabled = disabled

    @rule(node=node_names, what=st.integers(0, 6), disabled=st.booleans())
    def edit_and_disable(self, node: str, what: int, disabled: bool) -> None:
        self.edit(node, what)
        self.disable(disabled, True)

    @rule(node=node_names, count=st.integers(0, 2))
    def fail_builds(self, node: str, count: int) -> None:
        self.checked = False
        self.compute.failed[node] = count

    @rule(
        node=node_names,
        number=any_server,
        state=st.sampled_from(["building", "active", "error"]),
        ahead=st.sampled_from([0.0, 0.0, -100.0, 3600.0]),
    )
    def claim(self, node: str, number: int, state: str, ahead: float) -> None:
        """The scheduler and a build, or any later state of the server, at another node too."""
        self.checked = False
        uuid = f"s{number}"
        row = self.cloud.servers.get(uuid)
        provider = self.cloud.providers.get(node)
        if row is None and provider is not None:
            provider.consumers.add(uuid)
            provider.generation += 1
            self.cloud.servers[uuid] = Row(node, HOST)
            self.cloud.write_server(uuid, ahead, state=state)
        elif row is not None and not row.deleted:
            self.cloud.write_server(uuid, ahead, state=state, node=node, host=HOST)

    @rule(node=node_names, number=any_server, deleted=st.booleans())
    def allocate(self, node: str, number: int, deleted: bool) -> None:
        """By hand, or for a server that another host has."""
        self.checked = False
        uuid = f"x{number}"
        provider = self.cloud.providers.get(node)
        if provider is not None:
            provider.consumers.add(uuid)
            provider.generation += 1
            self.cloud.servers.setdefault(uuid, Row("elsewhere", "compute-2"))
            if deleted:
                self.cloud.write_server(uuid, deleted=True)

    @rule(number=any_server, kind=st.sampled_from("sx"), freed=st.booleans())
    def delete(self, number: int, kind: str, freed: bool) -> None:
        """A server, perhaps by the API alone, and perhaps without its allocation."""
        self.checked = False
        uuid = f"{kind}{number}"
        row = self.cloud.servers.get(uuid)
        if row is None:
            return
        if not row.deleted:
            self.cloud.write_server(uuid, deleted=True)
        if freed:
            for provider in self.cloud.providers.values():
                provider.consumers.discard(uuid)

    @rule(node=node_names)
    def free(self, node: str) -> None:
        """Allocations are deleted by hand."""
        self.checked = False
        provider = self.cloud.providers.get(node)
        if provider is not None:
            provider.consumers.clear()

    @rule(number=any_server)
    def give_up(self, number: int) -> None:
        """A build: the server is nobody's again, and its allocation is gone."""
        self.checked = False
        uuid = f"s{number}"
        row = self.cloud.servers.get(uuid)
        if row is not None and not row.deleted and row.host:
            for provider in self.cloud.providers.values():
                provider.consumers.discard(uuid)
            self.cloud.write_server(uuid, host="", node="", deleted=False)

    @rule()
    def archive(self) -> None:
        """Rows of servers that are gone, or nobody's."""
        self.checked = False
        rows = self.cloud.servers
        for uuid in [uuid for uuid, row in rows.items() if row.deleted or not row.host]:
            del rows[uuid]

    @rule(node=node_names, there=st.booleans())
    def move_record(self, node: str, there: bool) -> None:
        self.checked = False
        record = self.cloud.records.get(node)
        if record is not None:
            record.host = "compute-2" if there else HOST

    @rule(node=node_names)
    def delete_record(self, node: str) -> None:
        self.checked = False
        self.cloud.records.pop(node, None)

    @rule(node=node_names, there=st.booleans())
    def enroll(self, node: str, there: bool) -> None:
        self.checked = False
        if there:
            self.cloud.offers.setdefault(node, 1)
        else:
            self.cloud.offers.pop(node, None)

    @rule()
    def hang_up(self) -> None:
        """SIGHUP."""
        self.checked = False
        self.compute.clear_cache()

    @rule(seconds=st.sampled_from([1.0, 60.0, 301.0, 2000.0]))
    def wait(self, seconds: float) -> None:
        self.cloud.now += seconds

    @rule(hidden=node_names)
    def period_without_a_node(self, hidden: str) -> None:
        self.cloud.hidden = frozenset({hidden})
        self.compute.period()
        self.cloud.hidden = frozenset()
        self.checked = False

    @rule(what=st.sampled_from(["placement_away", "conductor_away"]))
    def period_while_somebody_is_away(self, what: str) -> None:
        setattr(self.cloud, what, True)
        self.compute.period()
        setattr(self.cloud, what, False)
        self.checked = False

    @rule(
        node=node_names,
        step=st.sampled_from(STEPS),
        event=st.sampled_from(
            [("edit", n) for n in range(7)]
            + [("disable", True), ("disable", False)]
            + [("claim", n) for n in range(3)]
            + [("allocate", n) for n in range(3)]
            + [("change", 0), ("conductor_away", 0)]
        ),
    )
    def period_while_something_happens(self, node: str, step: str, event: tuple[str, int]) -> None:
        """In the midst of a pass of the node, once."""
        happens = iter([event])

        def meanwhile(at: str, passed: str) -> None:
            if (at, passed) == (step, node):
                for what, number in happens:
                    if what == "edit":
                        self.edit(node, number)
                    elif what == "disable":
                        self.disable(bool(number), False)
                    elif what == "claim":
                        self.claim(node, number, "building", 0.0)
                    elif what == "allocate":
                        self.allocate(node, number, True)
                    elif what == "change":
                        self.change(node)
                    else:
                        self.cloud.conductor_away = True

        self.cloud.meanwhile = meanwhile
        self.compute.period()
        self.cloud.meanwhile = lambda at, passed: None
        self.cloud.conductor_away = False
        self.checked = False

    @rule()
    def period(self) -> None:
        self.compute.period()
        self.checked = True

    @invariant()
    def a_whole_pass_changes_nothing(self) -> None:
        if getattr(self, "checked", False):
            assert self.cloud.seen() == after_a_whole_pass(self.compute)


TestHistories = Histories.TestCase
TestHistories.settings = settings(
    max_examples=depth.choose(150, 5000), stateful_step_count=30, deadline=None
)


# -- decisions, one by one ----------------------------------------------------

SAVED = object()
INPUTS = Inputs("offered", False, 0)
OUTCOME = CachedNode("n1", 7, False, SAVED)
QUIET = Period({"n1": 7}, False, frozenset({"s1"}), frozenset())


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def settled_node(clock: Clock, jitter: float = 0.0) -> SettledNodes:
    nodes = SettledNodes(3600, clock=clock, jitter=lambda: jitter)
    nodes.begin(QUIET)
    assert nodes.reason("n1", INPUTS, OUTCOME) is Reason.UNSETTLED
    nodes.keep("n1", INPUTS, OUTCOME, frozenset({"s1"}))
    nodes.begin(QUIET)
    return nodes


def test_a_node_in_which_nothing_has_changed_is_passed_over() -> None:
    nodes = settled_node(Clock())
    assert nodes.is_current("n1", OUTCOME)
    assert nodes.reason("n1", INPUTS, OUTCOME) is None
    # Placement is away: it is left alone.
    nodes.begin(Period(None, False, frozenset({"s1"}), frozenset()))
    assert nodes.reason("n1", INPUTS, OUTCOME) is None


@pytest.mark.parametrize(
    ("inputs", "outcome", "reason"),
    [
        (None, OUTCOME, Reason.UNKNOWN),
        (INPUTS, None, Reason.RECORD),
        (INPUTS._replace(offered="other"), OUTCOME, Reason.CHANGED),
        (INPUTS._replace(disabled=True), OUTCOME, Reason.CHANGED),
        (INPUTS._replace(failed_builds=1), OUTCOME, Reason.CHANGED),
        (INPUTS, OUTCOME._replace(generation=8), Reason.PLACEMENT),
        (INPUTS, OUTCOME._replace(generation=None), Reason.PLACEMENT),
        (INPUTS, OUTCOME._replace(saved=object()), Reason.RECORD),
    ],
)
def test_what_a_pass_depends_on(inputs, outcome, reason) -> None:
    nodes = settled_node(Clock())
    assert nodes.reason("n1", inputs, outcome) is reason
    # It is not settled again before it had a clean pass.
    assert nodes.reason("n1", INPUTS, OUTCOME) is Reason.UNSETTLED


@pytest.mark.parametrize("generations", [{"n1": 8}, {}])
def test_placement_says_another_generation(generations: dict[str, int]) -> None:
    nodes = settled_node(Clock())
    nodes.reason("n1", INPUTS, OUTCOME)
    nodes.begin(Period(generations, False, frozenset({"s1"}), frozenset()))
    assert nodes.reason("n1", INPUTS, OUTCOME) is Reason.PLACEMENT


def test_a_write_of_nova_may_hide_an_edit() -> None:
    nodes = settled_node(Clock())
    nodes.reason("n1", INPUTS, OUTCOME)
    nodes.begin(Period({"n1": 9}, False, frozenset({"s1"}), frozenset()))
    outcome = OUTCOME._replace(generation=9)
    assert not nodes.is_current("n1", outcome)
    assert nodes.reason("n1", INPUTS, outcome) is Reason.PLACEMENT
    # Without a clean pass nothing of the cache is sure.
    assert not nodes.is_current("n1", outcome)


@pytest.mark.parametrize(
    ("touched", "reason"), [(frozenset({"n1"}), Reason.SERVERS), (None, Reason.UNKNOWN)]
)
def test_a_touched_node_is_not_settled_even_if_asked_for_later(touched, reason) -> None:
    nodes = settled_node(Clock())
    touched_period = Period({"n1": 7}, False, frozenset({"s1"}), touched)
    nodes.begin(touched_period)
    assert nodes.reason("n1", INPUTS, OUTCOME) is reason
    nodes = settled_node(Clock())
    nodes.reason("n1", INPUTS, OUTCOME)
    nodes.begin(touched_period)
    nodes.begin(QUIET)
    assert nodes.reason("n1", INPUTS, OUTCOME) is Reason.UNSETTLED


def test_a_node_not_asked_for_in_a_period_is_not_settled() -> None:
    nodes = settled_node(Clock())
    nodes.begin(QUIET)
    assert nodes.reason("n1", INPUTS, OUTCOME) is Reason.UNSETTLED


@pytest.mark.parametrize(("jitter", "seconds"), [(0.0, 1800), (1.0, 3600)])
def test_each_node_has_an_age_of_its_own(jitter: float, seconds: float) -> None:
    clock = Clock()
    nodes = settled_node(clock, jitter)
    clock.now += seconds - 1
    assert nodes.reason("n1", INPUTS, OUTCOME) is None
    assert nodes.oldest() == seconds - 1
    clock.now += 1
    assert nodes.reason("n1", INPUTS, OUTCOME) is Reason.AGE
    assert nodes.oldest() == 0


def test_a_service_that_starts_passes_all_nodes() -> None:
    assert settled_node(Clock()).reason("n1", INPUTS, OUTCOME, starts=True) is Reason.START


def test_nothing_is_known_before_the_first_period() -> None:
    assert SettledNodes(3600).reason("n1", INPUTS, OUTCOME) is Reason.UNKNOWN


def test_a_pass_names_the_consumers_that_it_has_seen() -> None:
    nodes = settled_node(Clock())
    assert nodes.with_consumer("s1") == ["n1"]
    assert nodes.with_consumer("s2") == []
    assert nodes.passes().keys() == {"n1"}


@pytest.mark.parametrize(
    ("generation", "listed", "writes", "clean"),
    [
        (7, {"n1": 7}, 0, True),
        (9, {"n1": 7}, 2, True),
        (9, {"n1": 7}, 1, False),
        (8, {"n1": 7}, 2, False),
        (2, {}, 2, True),
        (None, {"n1": 7}, 0, False),
        (7, None, 0, False),
    ],
)
def test_a_pass_is_clean_if_nobody_else_has_written(generation, listed, writes, clean) -> None:
    period = Period(listed, False, frozenset({"s1"}), frozenset())
    outcome = OUTCOME._replace(generation=generation)
    assert is_clean(outcome, period, writes, frozenset()) is clean


def test_a_clean_pass_knows_all_consumers_and_the_service() -> None:
    assert is_clean(OUTCOME, QUIET, 0, frozenset({"s1"}))
    assert not is_clean(OUTCOME, QUIET, 0, frozenset({"s1", "s2"}))
    assert not is_clean(OUTCOME._replace(disabled=True), QUIET, 0, frozenset())


class Look:
    """Servers by their records, and who had an allocation where."""

    def __init__(self) -> None:
        self.servers = Servers()
        self.records: dict[str, str] = {}
        self.held: dict[str, list[str]] = {}

    def touched(self, uuids: str, *written: Server) -> frozenset[str] | None:
        return self.servers.touched(
            frozenset(uuids.split()),
            written,
            lambda moved: {uuid: self.records[uuid] for uuid in moved if uuid in self.records},
            lambda uuid: self.held.get(uuid, []),
        )


def test_servers_that_come_go_and_change_touch_their_nodes() -> None:
    look = Look()
    assert look.touched("s1 s2") is None
    assert look.touched("s1 s2") == frozenset()
    look.records = {"s2": "n2", "s3": "n3"}
    assert look.touched("s1 s3") == {"n2", "n3"}
    assert look.touched("s1 s3", Server("s1", "n1", 1)) == {"n1"}
    assert look.touched("s1 s3", Server("s1", "n1", 1)) == frozenset()
    assert look.touched("s1 s3", Server("s1", "n4", 2)) == {"n1", "n4"}
    # Its record names no node any more; the look before last has seen where it was.
    look.records = {"s3": ""}
    assert look.touched("s1") == {"n3"}
    # The record is gone, but a pass has seen its allocation; then nothing is known.
    look.held = {"s1": ["n1"]}
    assert look.touched("") == {"n1", "n4"}
    assert look.touched("s4") is None


def test_a_server_written_before_the_first_look_is_unknown() -> None:
    look = Look()
    assert look.touched("s1", Server("s1", "n1", 1)) is None
    assert look.touched("s1", Server("s1", "n1", 1)) == frozenset()
    # It has left its node.
    assert look.touched("s1", Server("s1", "", 2)) == {"n1"}


def test_looks_go_on_from_what_another_process_has_seen() -> None:
    look = Look()
    look.servers.restore(frozenset({"s1", "s2"}), {"s1": "n1"})

    def fail(uuids: object) -> Any:
        raise AssertionError(f"only servers that came or went are looked for, not {uuids}")

    assert look.servers.touched(frozenset({"s1", "s2"}), [], fail, fail) == frozenset()
    assert look.touched("s2") == {"n1"}
    assert look.touched("") is None


def test_a_look_that_fails_is_made_up_for() -> None:
    look = Look()
    look.touched("s1")
    look.records = {"s2": "n2"}
    with pytest.raises(TypeError):
        look.servers.touched(frozenset({"s1", "s2"}), [], None, None)  # type: ignore[arg-type]
    assert look.touched("s1 s2") == {"n2"}
