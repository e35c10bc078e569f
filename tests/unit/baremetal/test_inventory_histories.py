# SPDX-License-Identifier: Apache-2.0

"""Random histories of a fleet, and what the inventory makes of them.

After any changes of nodes and any failures: a refresh that succeeds shows every
node that is ours as it is, one that sweeps shows no others, and one that fails
changes nothing.
"""

import datetime
import itertools
import os
import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from ironic_virt import exceptions
from ironic_virt.baremetal.client import IronicClient
from ironic_virt.baremetal.http.retry import RetryPolicy
from ironic_virt.baremetal.inventory import comparison, resync
from ironic_virt.baremetal.inventory.cache import Inventory
from ironic_virt.baremetal.inventory.resync import Resync
from ironic_virt.baremetal.node import Node
from ironic_virt.baremetal.node_filter import NodeFilter
from ironic_virt.testing.fake_ironic import Durations, FakeIronic
from tests import depth
from tests.in_process import InProcessChannel

SEED_VARIABLE = "IRONIC_VIRT_TEST_SEED"
SEED = int(os.environ.get(SEED_VARIABLE, "20261121"))

URL = "http://ironic.test"
OURS = NodeFilter(conductor_group="rack", shard="a")
FULL_PERIOD, SWEEP_PERIOD = 3000.0, 600.0
# Two conductors may be wrong by half of it each, less the second that rounding costs.
MOST_SKEW = int(comparison.OVERLAP / 2) - 1
PLACES = st.sampled_from([("a", "rack"), ("a", "rack"), ("a", ""), ("b", "rack")])
PICK = st.integers(min_value=0, max_value=1000)


def client_of(fake: FakeIronic) -> IronicClient:
    retry = RetryPolicy(0, 0.0, clock=fake.clock.now, sleep=fake.advance, rng=random.Random(0))
    return IronicClient(InProcessChannel(fake, URL), retry)


def before_request(fake: FakeIronic, nth: int, act: Callable[[], None]) -> None:
    """Let something happen just before the nth request from now about nodes."""
    requests = itertools.count(1)

    def strike(method: str, path: str, body: Any) -> bool:
        if next(requests) == nth:
            act()
        return False

    fake.faults.status(500, "GET", "/nodes", when=strike)


@seed(SEED)
class Histories(RuleBasedStateMachine):
    """One service's inventory, and all that others do to its nodes."""

    @initialize(
        count=st.integers(min_value=0, max_value=12),
        # So small that the changes of a minute fill several.
        page=st.integers(min_value=1, max_value=5),
        born=st.booleans(),
        ahead=st.sampled_from([0.0, 3600.0]),
        postgresql=st.sampled_from([False, False, False, True]),
        # From how many pages on short lists are asked for, and sweeps.
        worth=st.sampled_from(
            [(1, 1), (1, resync.SWEEP_FROM), (resync.SHORT_FROM, resync.SWEEP_FROM)]
        ),
    )
    def begin(
        self,
        count: int,
        page: int,
        born: bool,
        ahead: float,
        postgresql: bool,
        worth: tuple[int, int],
    ) -> None:
        self.fake = FakeIronic(
            max_limit=page,
            nulls_sort_last=postgresql,
            durations=Durations(deploy=60, clean=30, undeploy=5),
        )
        self.fake.add_nodes(count, shard="a", conductor_group="rack")
        self.client = client_of(self.fake)
        self.resync = Resync(
            self.client,
            lambda: OURS,
            full_period=FULL_PERIOD,
            sweep_period=lambda: SWEEP_PERIOD,
            clock=self.fake.clock.now,
            # This host's own clock may be ahead of all conductors'.
            wall_clock=lambda: self.fake.clock.now() + ahead,
            short_from=worth[0],
            sweep_from=worth[1],
        )
        self.inventory = Inventory(
            self.resync.list_nodes, changes=self.resync.changes, clock=self.fake.clock.now
        )
        if born:
            self.inventory.refresh()

    # -- what happens to nodes --------------------------------------------------

    @rule(place=PLACES, count=st.integers(min_value=1, max_value=25))
    def enrol(self, place: tuple[str, str], count: int) -> None:
        if len(self.fake.nodes()) < 60:
            shard, group = place
            self.fake.add_nodes(count, shard=shard, conductor_group=group)

    @rule(pick=PICK)
    def delete(self, pick: int) -> None:
        if (uuid := self._node(pick)) is not None:
            self.fake.remove_node(uuid)

    @rule(pick=PICK, place=PLACES, skew=st.integers(-MOST_SKEW, MOST_SKEW))
    def move(self, pick: int, place: tuple[str, str], skew: int) -> None:
        shard, group = place
        self._change(pick, skew, shard=shard, conductor_group=group)

    @rule(
        pick=PICK,
        skew=st.integers(-MOST_SKEW, MOST_SKEW),
        what=st.sampled_from(
            [
                {"resource_class": "gold"},
                {"properties": {"cpus": 4}},
                {"maintenance": True},
                {"maintenance": False},
                {"power_state": "power on"},
                {"name": None},
                {"traits": ["CUSTOM_GPU"]},
            ]
        ),
    )
    def patch(self, pick: int, skew: int, what: dict[str, Any]) -> None:
        self._change(pick, skew, **what)

    @rule(pick=PICK, verb=st.sampled_from(["active", "deleted", "manage", "provide"]))
    def transition(self, pick: int, verb: str) -> None:
        if (uuid := self._node(pick)) is not None:
            path = f"/nodes/{uuid}/states/provision"
            InProcessChannel(self.fake, URL).send(
                "PUT", path, json={"target": verb}, version="1.82"
            )

    @rule(seconds=st.sampled_from([0.4, 1, 7, 60]))
    def time_passes(self, seconds: float) -> None:
        self.fake.advance(seconds)

    # -- what is asked ----------------------------------------------------------

    @rule()
    def refresh(self) -> None:
        self._refresh_and_compare()

    @rule(
        kind=st.sampled_from(["reset", "hang", "truncate", "status", "marker"]),
        nth=st.integers(min_value=1, max_value=9),
        sweeps=st.booleans(),
    )
    def refresh_with_trouble(self, kind: str, nth: int, sweeps: bool) -> None:
        self.fake.advance(SWEEP_PERIOD if sweeps else 1)
        before = dict(self.inventory.snapshot.nodes)
        faults, path = self.fake.faults, "/nodes"
        if kind == "marker":
            # Its own answer to a page that follows a node which is gone by then.
            faults.status(404, "GET", "/nodes$", nth=nth, body="Node x could not be found.")
        elif kind == "status":
            faults.status(500, "GET", path, nth=nth)
        else:
            getattr(faults, kind)("GET", path, nth=nth)
        if self._refreshed_in_spite_of_it():
            self._compare()
        else:
            assert dict(self.inventory.snapshot.nodes) == before

    @rule(
        pick=PICK,
        nth=st.integers(min_value=1, max_value=7),
        sweeps=st.booleans(),
        what=st.sampled_from(["delete", "leave", "patch", "come"]),
    )
    def change_during_a_refresh(self, pick: int, nth: int, sweeps: bool, what: str) -> None:
        """Between two requests markers vanish, nodes change, and much time may pass."""
        self.fake.advance(SWEEP_PERIOD if sweeps else 1)
        uuid = self._node(pick)
        if uuid is None:
            return

        def act() -> None:
            if what == "delete":
                self.fake.remove_node(uuid)
            elif what == "leave":
                self.fake.set_node(uuid, shard="b")
            elif what == "come":
                self.fake.set_node(uuid, shard="a", conductor_group="rack")
            else:
                self.fake.set_node(uuid, resource_class=f"during-{pick}")
            self.fake.advance(60)
            # The newest update must not hide the earlier ones.
            if (other := self._node(pick + 1)) is not None:
                self.fake.set_node(other, resource_class=f"after-{pick}")

        before_request(self.fake, nth, act)
        if self._refreshed_in_spite_of_it():
            # A moment later all of it is known.
            self._refresh_and_compare()

    @rule()
    def all_are_touched(self) -> None:
        """By and by each node gets a time of its last change."""
        for node in self.fake.nodes():
            self.fake.set_node(node["uuid"])
            self.fake.advance(1)

    @rule(pick=PICK, slow=st.integers(min_value=1, max_value=MOST_SKEW))
    def slow_clock_after_a_fast_one(self, pick: int, slow: int) -> None:
        """A conductor whose clock is slow writes the last of many changes."""
        self.all_are_touched()
        self._change(pick + 1, MOST_SKEW, resource_class=f"fast-{pick}")
        self._refresh_and_compare()
        self._change(pick, -slow, resource_class=f"slow-{pick}")
        self._refresh_and_compare()

    @rule(pick=PICK, nth=st.integers(min_value=1, max_value=5))
    def changes_far_apart_and_trouble(self, pick: int, nth: int) -> None:
        """What a failed refresh would have brought is brought by the next one."""
        self.all_are_touched()
        self._refresh_and_compare()
        self._change(pick, 0, resource_class=f"early-{pick}")
        self.fake.advance(60)
        for other in range(1, 7):
            self._change(pick + other, 0, resource_class=f"late-{pick}")
        self.refresh_with_trouble("reset", nth, sweeps=False)
        self._refresh_and_compare()

    @rule(
        pick=PICK,
        nth=st.integers(min_value=1, max_value=12),
        what=st.sampled_from(["patch marker", "delete marker", "marker leaves", "marker is late"]),
        again=st.booleans(),
    )
    def changes_on_many_pages(self, pick: int, nth: int, what: str, again: bool) -> None:
        """Something happens to the very node behind which the next page begins."""
        self.all_are_touched()
        self._refresh_and_compare()
        uuids = [node["uuid"] for node in self.fake.nodes()]
        changed = uuids[pick % 7 :: 2][:15]
        for uuid in changed:
            self.fake.advance(9)
            self.fake.set_node(uuid, resource_class=f"early-{pick}")

        def act() -> None:
            if (marker := self._last_marker()) is None:
                return
            if what == "delete marker":
                self.fake.remove_node(marker)
            elif what == "marker leaves":
                self.fake.set_node(marker, shard="b")
            elif what == "marker is late":
                stamp = stamp_of(self.fake.clock.now() - MOST_SKEW)
                self.fake.set_node(marker, resource_class="late", updated_at=stamp)
            else:
                self.fake.set_node(marker, resource_class=f"during-{pick}")
            if again and changed and changed[0] in self._uuids():
                # It moves from what is still to be read to what has been read.
                self.fake.set_node(changed[0], resource_class=f"again-{pick}")

        before_request(self.fake, nth, act)
        self._refreshed_in_spite_of_it()
        self._refresh_and_compare()

    @rule(place=PLACES)
    def come_among_old_ones(self, place: tuple[str, str]) -> None:
        """New nodes, which have no time of change, where all others have one."""
        self.all_are_touched()
        self._refresh_and_compare()
        self.fake.advance(60)
        self.enrol(place, 1)
        self._refresh_and_compare()

    @rule(pick=PICK)
    def changed_behind_the_timestamps(self, pick: int) -> None:
        """Somebody's hand in the database, or a clock that is a day behind."""
        if (uuid := self._node(pick)) is not None:
            self.fake.set_node(uuid, provision_state="error", updated_at=stamp_of(0))
            self.settle()

    @rule()
    def settle(self) -> None:
        self.fake.settle()
        self.fake.advance(SWEEP_PERIOD)
        self.inventory.refresh()
        shown = self.inventory.snapshot
        assert not shown.stale
        assert dict(shown.nodes) == self._truth()
        taken = {n.instance_uuid: n for n in shown.nodes.values() if n.instance_uuid}
        assert {uuid: shown.by_instance(uuid) for uuid in shown.instance_uuids} == taken

    def teardown(self) -> None:
        if hasattr(self, "fake"):
            self.settle()
            lists = self.fake.requests.matching("GET", "/nodes$")
            assert all("shard=a" in entry.query for entry in lists)
            assert all("conductor_group=rack" in entry.query for entry in lists)

    def _refresh_and_compare(self) -> None:
        """Every node that is ours is seen as it is; one that went may still be there."""
        self.fake.advance(1)
        self.inventory.refresh()
        self._compare()

    def _refreshed_in_spite_of_it(self) -> bool:
        """Whether a refresh has succeeded; if not, the snapshot says so."""
        try:
            self.inventory.refresh()
        except exceptions.IronicError:
            assert self.inventory.snapshot.stale
            return False
        finally:
            self.fake.faults.clear()
        return True

    def _compare(self) -> None:
        shown, truth = self.inventory.snapshot, self._truth()
        assert {uuid: shown.get(uuid) for uuid in truth} == truth

    # -- the other side -----------------------------------------------------------

    def _uuids(self) -> set[str]:
        return {node["uuid"] for node in self.fake.nodes()}

    def _last_marker(self) -> str | None:
        """The last node of the page of changes that was sent last: its time is asked for."""
        asked = [
            entry.path.rpartition("/")[2]
            for entry in self.fake.requests.matching("GET", "/nodes/[^/]+$")
        ]
        return asked[-1] if asked and asked[-1] in self._uuids() else None

    def _truth(self) -> dict[str, Node]:
        return {node.uuid: node for node in self.client.list_nodes(OURS)}

    def _node(self, pick: int) -> str | None:
        uuids = [node["uuid"] for node in self.fake.nodes()]
        return uuids[pick % len(uuids)] if uuids else None

    def _change(self, pick: int, skew: int, **fields: Any) -> None:
        uuid = self._node(pick)
        if uuid is not None:
            stamp = stamp_of(self.fake.clock.now() + skew)
            self.fake.set_node(uuid, **fields, updated_at=stamp)


def stamp_of(moment: float) -> str:
    """A time as Ironic writes it."""
    return datetime.datetime.fromtimestamp(int(moment), datetime.UTC).isoformat()


# The limit of one test would fail in the middle of a history, and look like a flaky one.
@pytest.mark.timeout(900)
class TestHistories(Histories.TestCase):  # type: ignore[misc, name-defined]
    """As many histories as a seed gives; a failure says which one it was."""

    settings = settings(
        max_examples=depth.choose(60, 1000),
        stateful_step_count=14,
        # Shrinking a failure can take minutes; the history that is printed is short enough.
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )

    def runTest(self) -> None:  # noqa: N802 - of unittest
        """Run all of them."""
        try:
            super().runTest()
        except BaseException as exc:
            exc.add_note(f"The seed was {SEED}: {SEED_VARIABLE}={SEED} runs the same histories")
            raise
