# SPDX-License-Identifier: Apache-2.0

"""Random histories of a fleet, and what the inventory makes of them.

Whatever happens to the nodes and to the answers: a refresh that succeeds shows
every node that is ours as it is, one that sweeps shows no others, and one that
fails changes nothing.
"""

from __future__ import annotations

import datetime
import random
from typing import Any

import requests
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from keystoneauth1 import adapter, session
from keystoneauth1.noauth import NoAuth

from ironic_virt import exceptions
from ironic_virt.baremetal import changes
from ironic_virt.baremetal.client import IronicClient, NodeFilter
from ironic_virt.baremetal.connection import KeystoneChannel
from ironic_virt.baremetal.inventory import Inventory
from ironic_virt.baremetal.node import Node
from ironic_virt.baremetal.resync import Resync
from ironic_virt.baremetal.retry import RetryPolicy
from ironic_virt.testing.fake_ironic import Durations, FakeIronic

URL = "http://ironic.test"
OURS = NodeFilter(conductor_group="rack", shard="a")
FULL_PERIOD, SWEEP_PERIOD = 3000.0, 600.0
# Two conductors may be wrong by half of it each, less the second that rounding costs.
MOST_SKEW = int(changes.OVERLAP / 2) - 1
PLACES = st.sampled_from([("a", "rack"), ("a", "rack"), ("a", ""), ("b", "rack")])
PICK = st.integers(min_value=0, max_value=1000)


def client_of(fake: FakeIronic) -> IronicClient:
    http = requests.Session()
    http.mount(URL, fake.adapter())
    ksa = session.Session(auth=NoAuth(endpoint=URL), session=http)
    channel = KeystoneChannel(adapter.Adapter(ksa, endpoint_override=URL))
    retry = RetryPolicy(0, 0.0, clock=fake.clock.now, sleep=fake.advance, rng=random.Random(0))
    return IronicClient(channel, retry)


class Histories(RuleBasedStateMachine):
    """One service's inventory, and all that others do to its nodes."""

    @initialize(
        count=st.integers(min_value=0, max_value=6),
        page=st.integers(min_value=1, max_value=4),
        born=st.booleans(),
    )
    def begin(self, count: int, page: int, born: bool) -> None:
        self.fake = FakeIronic(
            max_limit=page, durations=Durations(deploy=60, clean=30, undeploy=5)
        )
        self.fake.add_nodes(count, shard="a", conductor_group="rack")
        self.client = client_of(self.fake)
        self.resync = Resync(
            self.client,
            lambda: OURS,
            full_period=FULL_PERIOD,
            sweep_period=lambda: SWEEP_PERIOD,
            clock=self.fake.clock.now,
            wall_clock=self.fake.clock.now,
        )
        self.inventory = Inventory(
            self.resync.list_nodes, changes=self.resync.changes, clock=self.fake.clock.now
        )
        self.http = requests.Session()
        self.http.mount(URL, self.fake.adapter())
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
            self.http.put(
                f"{URL}/v1/nodes/{uuid}/states/provision",
                json={"target": verb},
                headers={"X-OpenStack-Ironic-API-Version": "1.82"},
            )

    @rule(seconds=st.sampled_from([0.4, 1, 7, 60]))
    def time_passes(self, seconds: float) -> None:
        self.fake.advance(seconds)

    # -- what is asked ----------------------------------------------------------

    @precondition(lambda self: not self.inventory.snapshot.stale)
    @rule()
    def refresh(self) -> None:
        self.fake.advance(1)
        self.inventory.refresh()
        shown = self.inventory.snapshot
        for uuid, node in self._truth().items():
            assert shown.get(uuid) == node

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
        try:
            self.inventory.refresh()
        except exceptions.IronicError:
            assert self.inventory.snapshot.stale
            assert dict(self.inventory.snapshot.nodes) == before
            return
        finally:
            faults.clear()
        shown, truth = self.inventory.snapshot, self._truth()
        assert {uuid: shown.get(uuid) for uuid in truth} == truth

    @rule(pick=PICK)
    def deleted_between_pages(self, pick: int) -> None:
        """The node goes while a page is on its way: markers vanish, fetches miss."""
        self.fake.advance(SWEEP_PERIOD)
        uuid = self._node(pick)
        if uuid is None:
            return
        countdown = [1 + pick % 7]

        def strike(method: str, path: str, body: Any) -> bool:
            countdown[0] -= 1
            if countdown[0] == 0:
                self.fake.remove_node(uuid)
            return False

        self.fake.faults.status(500, "GET", "/nodes", when=strike)
        try:
            self.inventory.refresh()
        except exceptions.IronicError:
            assert self.inventory.snapshot.stale
        finally:
            self.fake.faults.clear()
        assert self._truth().keys() - self.inventory.snapshot.nodes.keys() == set()

    @rule(pick=PICK)
    def changed_behind_the_timestamps(self, pick: int) -> None:
        """Somebody's hand in the database, or a clock that is a day behind."""
        if (uuid := self._node(pick)) is not None:
            self.fake.set_node(uuid, provision_state="error", updated_at=_stamp(0))
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

    # -- the other side -----------------------------------------------------------

    def _truth(self) -> dict[str, Node]:
        return {node.uuid: node for node in self.client.list_nodes(OURS)}

    def _node(self, pick: int) -> str | None:
        uuids = [node["uuid"] for node in self.fake.nodes()]
        return uuids[pick % len(uuids)] if uuids else None

    def _change(self, pick: int, skew: int, **fields: Any) -> None:
        uuid = self._node(pick)
        if uuid is not None:
            stamp = _stamp(self.fake.clock.now() + skew)
            self.fake.set_node(uuid, **fields, updated_at=stamp)


def _stamp(moment: float) -> str:
    return datetime.datetime.fromtimestamp(int(moment), datetime.UTC).isoformat()


TestHistories = Histories.TestCase
TestHistories.settings = settings(
    max_examples=250,
    stateful_step_count=20,
    derandomize=True,
    # Shrinking a failure can take minutes; the history that is printed is short enough.
    phases=[Phase.explicit, Phase.generate],
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
