# SPDX-License-Identifier: Apache-2.0

"""How far a page reaches back, and how large the next one is."""

from unittest import mock

import pytest

from ironic_virt.baremetal.inventory import comparison, recent_updates
from ironic_virt.baremetal.node import Node
from ironic_virt.baremetal.node_filter import NodeFilter
from ironic_virt.baremetal.node_lists import Stamp


@pytest.mark.parametrize(
    ("oldest", "since", "expected"),
    [
        (None, None, True),
        (None, 100.0, True),
        (50.0, None, False),
        (100.0 - comparison.OVERLAP, 100.0, False),
        (99.9 - comparison.OVERLAP, 100.0, True),
    ],
)
def test_a_page_reaches_back_over_the_overlap(oldest, since, expected) -> None:
    assert comparison.reaches_back(oldest, since) is expected


@pytest.mark.parametrize(
    ("size", "position", "expected"),
    [(20, 0, 20), (40, 40, 100), (100, 10, 75), (101, 0, 75), (1000, 0, 750), (900, 800, 1000)],
)
def test_the_next_page_holds_twice_the_changes(size: int, position: int, expected: int) -> None:
    assert comparison.next_page_size(size, position) == expected


@pytest.mark.parametrize(("count", "rows"), [(0, 1000), (2001, 1000), (3001, 1500)])
def test_half_of_the_nodes_are_read_at_most(count: int, rows: int) -> None:
    found = comparison.most_rows(count)
    assert (found, type(found)) == (rows, int)


@pytest.mark.parametrize("position", range(6))
def test_the_last_difference_is_found_wherever_it_is(position: int) -> None:
    known = {str(number): Node(uuid=str(number)) for number in range(5)}
    read = dict(known)
    if position:
        read[str(position - 1)] = Node(uuid="other")
        read["0"] = Node(uuid="other")
    assert comparison.last_difference(read, known) == position


@pytest.mark.parametrize("oldest", [None, Stamp("b", None)])
def test_where_no_node_was_ever_updated_there_is_no_newest(oldest: Stamp | None) -> None:
    lists = mock.Mock(first_update=lambda where, direction: oldest)
    assert recent_updates.checked(lists, NodeFilter(), Stamp("a", None)) is None
