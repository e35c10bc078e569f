# SPDX-License-Identifier: Apache-2.0

"""What nodes do while they are waited for, whose a request is, and what is told of it."""

from __future__ import annotations

import threading

import pytest

from benchmarks import waiting
from benchmarks.waiting_sides import Waiting
from ironic_virt.testing.fake_ironic.journal import Entry

NODE = "11111111-1111-4111-8111-111111111111"
INSTANCE = "22222222-2222-4222-8222-222222222222"
OTHER = "33333333-3333-4333-8333-333333333333"
OWNERS = {"ours-2": "ours-2", NODE: "ours-2", INSTANCE: "ours-2", OTHER: "peer-2"}


# -- what the nodes do --------------------------------------------------------------


def test_both_sides_nodes_take_equally_long_and_no_two_rounds_are_alike() -> None:
    first, again, next_round = (waiting.durations(200, seed) for seed in (1, 1, 2))
    assert first == again != next_round
    assert len(first) == 200
    low, high = waiting.SECONDS
    assert low <= min(first) < low + 1
    assert high - 1 < max(first) <= high


def test_a_node_waits_for_its_ramdisk_most_of_the_time_and_is_active_at_the_end() -> None:
    phases = waiting.phases(50.0)
    times = [at for at, _ in phases]
    assert times == sorted(times)
    assert phases[-1] == (50.0, "active")
    assert [state for _, state in phases] == ["wait call-back", "deploying", "active"]
    assert times[1] - times[0] > 25


# -- whose a request is -------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "query", "owner"),
    [
        ("/v1/nodes", "fields=uuid&shard=ours-2&provision_state=deploying", "ours-2"),
        (f"/v1/nodes/{NODE}", "fields=uuid,name", "ours-2"),
        ("/v1/nodes", f"fields=uuid%2Ctraits&instance_uuid={INSTANCE}", "ours-2"),
        (f"/v1/nodes/{OTHER}/states", "", "peer-2"),
        ("/v1/nodes", f"marker={NODE}&shard=ours-2", "ours-2"),
        ("/v1/nodes", f"marker={OTHER}&shard=ours-2", None),
        ("/v1/nodes", "provision_state=deploying", None),
        ("/v1", "", None),
    ],
)
def test_a_request_is_that_side_s_whose_shard_node_or_instance_it_names(
    path: str, query: str, owner: str | None
) -> None:
    assert waiting.whose(path, query, OWNERS) == owner


def test_what_is_nobody_s_is_kept_and_not_counted() -> None:
    tally = waiting.Tally(OWNERS)
    for path in (f"/v1/nodes/{NODE}", f"/v1/nodes/{NODE}", f"/v1/nodes/{OTHER}", "/v1/drivers"):
        tally.add(Entry("GET", path, "limit=1", "1.82", None, 200, None, 0.0))
    assert dict(tally.counts) == {"ours-2": 2, "peer-2": 1}
    assert tally.strays == ["GET /v1/drivers?limit=1"]


def test_what_changes_something_is_kept_also_from_before_the_counting() -> None:
    tally = waiting.Tally(OWNERS)
    for method, path in (("GET", "/v1"), ("PATCH", f"/v1/nodes/{NODE}")):
        tally.add(Entry(method, path, "", "1.82", None, 200, None, 0.0))
    tally.begin()
    tally.add(Entry("GET", f"/v1/nodes/{NODE}", "", "1.82", None, 200, None, 0.0))
    assert dict(tally.counts) == {"ours-2": 1}
    assert not tally.strays
    assert tally.changes == [f"PATCH /v1/nodes/{NODE}?"]


# -- what is told -------------------------------------------------------------------


def test_the_figures_are_the_total_the_median_and_what_all_but_a_few_are_below() -> None:
    delays = [float(number) for number in range(1, 101)]
    assert waiting.figures(321, delays[::-1]) == {
        "requests": 321.0,
        "delay": 50.5,
        "delay_95": 95.0,
    }
    assert set(waiting.figures(321, delays)) == set(waiting.UNITS)


def test_a_single_wait_is_its_own_median_and_percentile() -> None:
    assert waiting.figures(1, [0.5]) == {"requests": 1.0, "delay": 0.5, "delay_95": 0.5}


# -- a service that waits -----------------------------------------------------------


class Scripted(Waiting):
    """Waits for what a test lets happen."""

    def connect(self, url: str, shard: str) -> None:
        self.active = threading.Event()
        self.fails = False

    def wait(self, instance: str, node: str) -> None:
        self.note_asked(instance)
        assert self.active.wait(10)
        if self.fails:
            raise RuntimeError(f"{node} is lost")


def test_a_service_begins_again_with_other_deployments() -> None:
    side = Scripted("http://ironic.test", "ours-2")
    for deployments in ([("a", "1"), ("b", "2")], [("c", "3")]):
        side.active.clear()
        side.begin(deployments)
        side.active.set()
        returned = side.returned()
        assert set(returned) == {instance for instance, _ in deployments}


def test_a_wait_that_fails_fails_the_side() -> None:
    side = Scripted("http://ironic.test", "ours-2")
    side.fails = True
    side.begin([("a", "1")])
    side.active.set()
    with pytest.raises(RuntimeError, match="1 is lost"):
        side.returned()
