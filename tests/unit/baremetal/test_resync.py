# SPDX-License-Identifier: Apache-2.0

"""What a refresh between full lists asks, and what it can't be fooled by."""

import re
from collections.abc import Callable

import pytest

from ironic_virt import exceptions
from ironic_virt.baremetal.client import IronicClient
from ironic_virt.baremetal.inventory import resync
from ironic_virt.baremetal.inventory.cache import Inventory
from ironic_virt.baremetal.inventory.resync import Resync
from ironic_virt.baremetal.node import Node
from ironic_virt.baremetal.node_filter import NodeFilter
from ironic_virt.testing.fake_ironic import FakeIronic
from tests.unit.baremetal.test_inventory_histories import OURS, before_request, client_of

COUNT = 40


class Fleet:
    """Our nodes, changed one after the other, and an inventory that has listed them."""

    def __init__(
        self,
        fake: FakeIronic | None = None,
        count: int = COUNT,
        short_from: int = 1,
        short_from_nodes: int = resync.SHORT_FROM_NODES,
        sweep_from: int = 1,
    ) -> None:
        self.fake = fake or FakeIronic()
        self.client: IronicClient = client_of(self.fake)
        self.where = OURS
        self.nodes = self.fake.add_nodes(count, shard="a", conductor_group="rack")
        for uuid in self.nodes:
            self.fake.set_node(uuid)
            self.fake.advance(5)
        self.resync = Resync(
            self.client,
            lambda: self.where,
            full_period=3600,
            sweep_period=lambda: 600,
            clock=self.fake.clock.now,
            wall_clock=self.fake.clock.now,
            short_from=short_from,
            short_from_nodes=short_from_nodes,
            sweep_from=sweep_from,
        )
        self.inventory = Inventory(
            self.resync.list_nodes, changes=self.resync.changes, clock=self.fake.clock.now
        )
        self.inventory.refresh()

    def shown(self, index: int = 0) -> Node:
        """A node as the inventory knows it."""
        return self.inventory.snapshot.nodes[self.nodes[index]]

    def change(self, *indices: int, **fields: object) -> None:
        """Change nodes, five seconds after each other."""
        for index in indices:
            self.fake.advance(5)
            self.fake.set_node(self.nodes[index], **fields)

    def kinds(self) -> list[str]:
        """Refresh; what was asked for, in short."""
        self.fake.requests.clear()
        self.inventory.refresh()
        # The versions are asked for again every few minutes.
        asked = [entry for entry in self.fake.requests if entry.path != "/v1"]
        return [_kind(entry.path, entry.query) for entry in asked]

    def limits(self) -> list[str]:
        """How many rows each list of the last refresh has asked for."""
        return re.findall(r"\blimit=(\d+)", " ".join(one.query for one in self.fake.requests))

    def during(self, nth: int, act: Callable[[], None]) -> None:
        """Let something happen just before the nth request from now."""
        before_request(self.fake, nth, act)


def _kind(path: str, query: str) -> str:
    if not path.endswith("/nodes"):
        return "node"
    assert "shard=a" in query
    assert "conductor_group=rack" in query
    if "detail" in query:
        return "newest" if "limit=1&" in query else "head"
    if "sort_key=updated_at" in query:
        return "updated"
    if "sort_key=id" in query and "sort_dir=desc" in query:
        return "created"
    return "full" if "traits" in query else "sweep"


@pytest.fixture
def fleet() -> Fleet:
    return Fleet()


SHORT = ["head", "created"]


def test_between_full_lists_only_the_ends_of_lists_are_read(fleet: Fleet) -> None:
    fleet.fake.set_node(fleet.nodes[0], resource_class="gold")
    # It has no time of change.
    new = fleet.fake.add_node(shard="a", conductor_group="rack")
    assert fleet.kinds() == SHORT
    assert fleet.shown().resource_class == "gold"
    assert new in fleet.inventory.snapshot


def test_a_node_that_went_is_found_by_the_next_sweep(fleet: Fleet) -> None:
    fleet.fake.remove_node(fleet.nodes[0])
    fleet.fake.set_node(fleet.nodes[1], shard="b")
    assert fleet.kinds() == SHORT
    assert len(fleet.inventory.snapshot) == COUNT
    fleet.fake.advance(600)
    assert fleet.kinds() == [*SHORT, "sweep"]
    assert list(fleet.inventory.snapshot.nodes) == fleet.nodes[2:]


def test_the_full_period_and_another_filter_list_all(fleet: Fleet) -> None:
    fleet.fake.advance(3600)
    assert fleet.kinds() == ["full"]
    assert fleet.kinds() == SHORT
    fleet.where = NodeFilter(conductor_group="rack", shard="ab")
    assert fleet.kinds() == ["newest", "full"]
    assert len(fleet.inventory.snapshot) == 0


def test_a_larger_page_is_asked_for_before_all_are(fleet: Fleet) -> None:
    for uuid in fleet.nodes[:30]:
        fleet.fake.set_node(uuid, resource_class="gold")
    assert fleet.kinds() == ["head", "updated", "created"]
    assert fleet.limits() == ["20", "80", "20"]
    assert fleet.kinds() == ["newest", "updated", "created"], "its size is kept"
    assert fleet.limits() == ["1", "80", "20"]


def test_all_nodes_on_one_page_are_all_that_changed(fleet: Fleet) -> None:
    fleet = Fleet(count=15)
    for uuid in fleet.nodes:
        fleet.fake.set_node(uuid, resource_class="gold")
    assert fleet.kinds() == SHORT
    assert {node.resource_class for node in fleet.inventory.snapshot.nodes.values()} == {"gold"}


@pytest.mark.parametrize(("status", "then"), [(500, ["newest", "full"]), (401, SHORT)])
def test_after_a_refused_short_list_all_are_listed(fleet, status, then) -> None:
    fleet.fake.faults.status(status, "GET", "/nodes$", nth=2)
    with pytest.raises(exceptions.IronicError) as caught:
        fleet.inventory.refresh()
    assert caught.value.status == status
    assert len(fleet.inventory.snapshot) == COUNT
    assert fleet.kinds() == then


@pytest.mark.parametrize("more", [0, 1])
def test_what_a_sweep_finds_is_read_one_by_one_if_it_is_little(more: int) -> None:
    fleet = Fleet(count=120)
    count = resync._MOST_SINGLE_READS + more
    for uuid in fleet.nodes[:count]:
        # Behind the timestamps: only the sweep sees it.
        old = "2020-01-01T00:00:00+00:00"
        fleet.fake.set_node(uuid, provision_state="error", updated_at=old)
    fleet.fake.advance(600)
    kinds = fleet.kinds()
    if more:
        assert kinds == [*SHORT, "sweep", "updated", "node", "full"]
    else:
        assert kinds == [*SHORT, "sweep", *["node"] * count]
    nodes = fleet.inventory.snapshot.nodes
    assert [nodes[uuid].provision_state for uuid in fleet.nodes[:count]] == ["error"] * count
    assert fleet.kinds() == SHORT, "it is known now"


@pytest.mark.parametrize("passes", [False, True])
def test_without_times_of_change_a_list_is_still_a_list(fleet: Fleet, passes: bool) -> None:
    fleet.where = NodeFilter(conductor_group="rack", shard="ab")
    if passes:
        fleet.fake.faults.reset("GET", "/nodes$")
        with pytest.raises(exceptions.IronicUnreachable):
            fleet.inventory.refresh()
    else:
        fleet.fake.faults.status(500, "GET", "/nodes$")
        assert fleet.kinds() == ["newest", "full"], "from which time on isn't known then"
    assert fleet.kinds() == ["newest", "full"]
    assert fleet.kinds() == SHORT


@pytest.mark.parametrize("what", ["leave", "delete"])
def test_a_node_that_goes_while_a_sweep_s_findings_are_read(fleet: Fleet, what: str) -> None:
    def go() -> None:
        if what == "leave":
            fleet.fake.set_node(stray, shard="b")
        else:
            fleet.fake.remove_node(stray)

    # Behind the timestamps: only the sweep sees it.
    stray = fleet.nodes[0]
    fleet.fake.set_node(stray, provision_state="error", updated_at="2020-01-01T00:00:00+00:00")
    fleet.fake.advance(600)
    fleet.during(4, go)
    fleet.inventory.refresh()
    known = fleet.inventory.snapshot.get(stray)
    assert known is None or known.provision_state != "error", "it isn't ours any more"
    assert fleet.kinds() == [*SHORT, "sweep"], "the sweep is done again at once"
    assert stray not in fleet.inventory.snapshot


# -- how many requests a fleet of some pages is worth ---------------------------


def paged(pages: int) -> Fleet:
    """As the driver has it, of so many pages."""
    return Fleet(
        FakeIronic(max_limit=COUNT // (pages - 1) if pages > 1 else COUNT + 1),
        short_from=resync.SHORT_FROM,
        sweep_from=resync.SWEEP_FROM,
    )


def test_a_fleet_of_one_page_is_one_request_whatever_happens() -> None:
    fleet = paged(1)
    for _ in range(3):
        new = fleet.fake.add_node(shard="a", conductor_group="rack")
        fleet.fake.set_node(fleet.nodes[1], resource_class="gold")
        gone = fleet.nodes.pop(0)
        fleet.fake.remove_node(gone)
        fleet.fake.add_nodes(1, shard="a", conductor_group="rack")
        fleet.fake.remove_node(new)
        assert fleet.kinds() == ["full"]
        assert gone not in fleet.inventory.snapshot
        assert new not in fleet.inventory.snapshot
        fleet.fake.advance(600)


def test_a_page_of_many_nodes_takes_longer_than_two_short_lists() -> None:
    fleet = Fleet(
        FakeIronic(),
        short_from=resync.SHORT_FROM,
        short_from_nodes=COUNT,
        sweep_from=resync.SWEEP_FROM,
    )
    fleet.fake.set_node(fleet.nodes[1], resource_class="gold")
    assert fleet.kinds() == SHORT
    assert fleet.shown(1).resource_class == "gold"
    fleet.fake.remove_node(fleet.nodes.pop())
    fleet.fake.advance(600)
    assert fleet.kinds() == ["full"], "instead of a sweep"
    assert fleet.kinds() == ["full"], "it has become too small"


@pytest.mark.parametrize("pages", [2, 3])
def test_a_fleet_of_few_pages_never_costs_more_than_its_pages(pages: int) -> None:
    fleet = paged(pages)
    whole = ["full"] * pages
    assert fleet.kinds() == SHORT
    fleet.fake.remove_node(fleet.nodes[0])
    fleet.fake.add_node(shard="a", conductor_group="rack")
    fleet.fake.advance(600)
    assert fleet.kinds() == whole, "instead of a sweep"
    assert fleet.nodes[0] not in fleet.inventory.snapshot
    assert fleet.kinds() == SHORT
    fleet.fake.set_node(fleet.nodes[1], resource_class="gold")
    assert fleet.kinds() == SHORT
    assert fleet.shown(1).resource_class == "gold"


def test_as_many_changes_each_time_are_soon_read_at_once() -> None:
    fleet = paged(2)
    kinds = []
    for _ in range(3):
        fleet.fake.advance(60)
        for uuid in fleet.nodes[:25]:
            fleet.fake.set_node(uuid, power_state="power on")
        kinds.append(fleet.kinds())
    assert kinds == [["head", "full", "full"], SHORT, SHORT]


def test_a_sweep_is_worth_it_from_four_pages_on() -> None:
    fleet = paged(5)
    fleet.fake.remove_node(fleet.nodes[0])
    fleet.fake.advance(600)
    assert fleet.kinds() == [*SHORT, *["sweep"] * 4]
    assert fleet.nodes[0] not in fleet.inventory.snapshot


def test_a_fleet_that_grows_beyond_a_page_is_compared() -> None:
    fleet = paged(1)
    fleet.nodes += fleet.fake.add_nodes(COUNT, shard="a", conductor_group="rack")
    fleet.change(*range(COUNT, 2 * COUNT))
    assert fleet.kinds() == ["full"] * 2
    assert fleet.kinds() == ["head", *["full"] * 2], "what changed since the first list is a lot"
    assert fleet.kinds() == SHORT
