# SPDX-License-Identifier: Apache-2.0

"""Changes on several pages: what is asked, and what can't be missed between two of them."""

import logging
from typing import Any

import pytest

from ironic_virt import exceptions
from ironic_virt.baremetal.inventory import comparison
from ironic_virt.testing.fake_ironic import FakeIronic
from tests.unit.baremetal.test_resync import COUNT, SHORT, Fleet

PAGE = ["updated", "node"]
MANY = 22
"""Changed nodes: on three pages of ten, the overlap included."""


@pytest.fixture
def fleet() -> Fleet:
    """40 nodes; the first 22 were changed in a minute, the first one first."""
    fleet = Fleet(FakeIronic(max_limit=10))
    for uuid in fleet.nodes[:MANY]:
        fleet.fake.advance(3)
        fleet.fake.set_node(uuid, resource_class="gold")
    return fleet


def classes(fleet: Fleet) -> list[str | None]:
    return [fleet.inventory.snapshot.nodes[uuid].resource_class for uuid in fleet.nodes]


def gold(fleet: Fleet, count: int = MANY) -> bool:
    return [name == "gold" for name in classes(fleet)] == [True] * count + [False] * (
        COUNT - count
    )


def test_a_page_whose_end_is_deleted_has_no_known_reach(fleet: Fleet) -> None:
    fleet.during(3, lambda: fleet.fake.remove_node(fleet.nodes[MANY - 10]))
    fleet.inventory.refresh()
    assert [name == "gold" for name in classes(fleet)].count(True) >= MANY - 1
    assert gold(fleet, MANY - 10) is False
    assert classes(fleet)[0] == "gold", "on the last page"


def test_a_marker_that_is_deleted_makes_the_pages_begin_anew(fleet: Fleet) -> None:
    fleet.during(4, lambda: fleet.fake.remove_node(fleet.nodes[MANY - 10]))
    assert fleet.kinds() == ["head", *PAGE, "updated", *PAGE * 3, "updated", "created"]
    assert [name == "gold" for name in classes(fleet)].count(True) == MANY - 1
    assert len(fleet.inventory.snapshot) == COUNT, "it is there until the next sweep"


def test_markers_that_always_go_away_end_in_a_full_list(fleet: Fleet) -> None:
    asked: list[str] = []

    def strike(method: str, path: str, body: Any) -> bool:
        if path.endswith("/nodes") and asked and not asked[-1].endswith("/nodes"):
            fleet.fake.remove_node(asked[-1].rpartition("/")[2])
        asked.append(path)
        return False

    fleet.fake.faults.status(500, "GET", "/nodes", when=strike)
    kinds = fleet.kinds()
    assert kinds[:10] == ["head", *[*PAGE, "updated"] * 3]
    assert kinds[10] == "full"
    assert len(fleet.inventory.snapshot) == COUNT - 3


@pytest.mark.parametrize("nth", range(1, 10))
def test_whichever_page_fails_the_next_refresh_brings_all(fleet: Fleet, nth: int) -> None:
    before = classes(fleet)
    fleet.fake.faults.reset("GET", "/nodes", nth=nth)
    with pytest.raises(exceptions.IronicUnreachable):
        fleet.inventory.refresh()
    assert classes(fleet) == before
    assert fleet.inventory.snapshot.stale
    assert fleet.kinds() == ["head", *PAGE * 3, "updated", "created"]
    assert gold(fleet)


def test_more_changes_than_are_worth_reading_end_in_a_full_list(fleet, monkeypatch) -> None:
    monkeypatch.setattr(comparison, "most_rows", lambda count: 20)
    assert fleet.kinds() == ["head", *PAGE * 2, *["full"] * 5]
    assert gold(fleet)


@pytest.mark.parametrize("strays", [0, 1], ids=["of ours", "also of one behind the sweep's back"])
def test_changes_during_a_sweep_are_read_from_the_front(strays: int) -> None:
    fleet = Fleet(count=120)

    def change() -> None:
        for uuid in fleet.nodes[strays:70]:
            fleet.fake.set_node(uuid, maintenance=True)

    def come() -> None:
        for uuid in fleet.nodes[:strays]:
            fleet.fake.set_node(uuid, shard="a", maintenance=True)

    for uuid in fleet.nodes[:strays]:
        fleet.fake.set_node(uuid, shard="b")
    fleet.fake.advance(600)
    fleet.during(3, change)
    fleet.during(4, come)
    assert fleet.kinds() == [*SHORT, "sweep", *PAGE * 2]
    shown = fleet.inventory.snapshot.nodes
    assert [shown[uuid].maintenance for uuid in fleet.nodes] == [True] * 70 + [False] * 50


class TestOnPostgresql:
    """Nodes that were never updated come first there."""

    @pytest.fixture
    def fleet(self) -> Fleet:
        return Fleet(FakeIronic(nulls_sort_last=True))

    def test_a_node_that_never_was_means_full_lists_and_one_line(self, fleet, caplog) -> None:
        caplog.set_level(logging.INFO)
        new = fleet.fake.add_node(shard="a", conductor_group="rack")
        assert fleet.kinds() == ["head", "newest", "full"]
        for number in range(2):
            fleet.fake.set_node(fleet.nodes[0], resource_class=f"gold-{number}")
            assert fleet.kinds() == ["head", "newest", "full"]
            assert classes(fleet)[0] == f"gold-{number}"
        assert [record.getMessage() for record in caplog.records] == [
            "The changed nodes can't be found, so all nodes are listed: Ironic's database sorts "
            "nodes that were never updated before all others, as PostgreSQL does"
        ]
        fleet.fake.set_node(new)
        assert fleet.kinds() == SHORT

    # Of 30 a larger page is asked for next.
    @pytest.mark.parametrize("count", [1, 30])
    def test_nodes_that_come_between_two_requests_hide_no_change(self, fleet, count) -> None:
        for uuid in fleet.nodes[:count]:
            fleet.fake.set_node(uuid, resource_class="gold")
        fleet.during(2, lambda: come(fleet))
        fleet.inventory.refresh()
        assert gold(fleet, count)
        assert len(fleet.inventory.snapshot) == COUNT + 100

    def test_where_none_was_ever_updated_short_lists_are_enough(self) -> None:
        fleet = Fleet(FakeIronic(nulls_sort_last=True), count=0)
        come(fleet)
        fleet.inventory.refresh()
        fleet.fake.advance(60)
        fleet.fake.set_node(fleet.fake.nodes()[0]["uuid"], resource_class="gold")
        fleet.inventory.refresh()
        shown = fleet.inventory.snapshot.nodes.values()
        assert [node.resource_class for node in shown].count("gold") == 1


def come(fleet: Fleet) -> None:
    fleet.fake.add_nodes(100, shard="a", conductor_group="rack")
