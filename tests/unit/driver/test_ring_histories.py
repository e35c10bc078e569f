# SPDX-License-Identifier: Apache-2.0

"""After any history: once all live peers have refreshed, no node is offered twice."""

import contextlib
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from ironic_virt.testing.fake_ironic import FakeIronic
from tests import depth
from tests.unit.driver.stage import Service, Stage, make_conf

HOSTS = ["compute1", "compute2", "compute3"]
NODES = 6
INSTANCES = [f"6d2b4f02-0000-4000-8000-00000000000{i}" for i in range(NODES)]

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("live"), st.sets(st.sampled_from(HOSTS), min_size=2)),
        st.tuples(st.just("refresh"), st.sampled_from(HOSTS)),
        st.tuples(st.just("take"), st.integers(0, NODES - 1)),
        st.tuples(st.just("free"), st.integers(0, NODES - 1)),
        st.tuples(st.just("regroup"), st.integers(0, NODES - 1)),
    ),
    min_size=4,
    max_size=15,
)


class Peers:
    """Three services with the same group, peers and records, and their Ironic."""

    def __init__(self, directory: Path) -> None:
        self.fake = FakeIronic()
        self.nodes = self.fake.add_nodes(NODES, conductor_group="rack1")
        self.live = set(HOSTS)
        self.stages = {}
        for host in HOSTS:
            conf = make_conf(directory, host, conductor_group="rack1", peer_list=",".join(HOSTS))
            service = Service(host)
            service.owned = set()
            self.stages[host] = Stage(self.fake, conf, service)
        self.tell()

    def tell(self) -> None:
        for stage in self.stages.values():
            stage.service.live = sorted(self.live)

    def offered(self, host: str, *, refresh: bool = False) -> list[str]:
        return self.stages[host].driver.get_available_nodes(refresh=refresh)

    def step(self, what: str, which: object) -> None:
        if what == "live":
            assert isinstance(which, set)
            self.live = which
            self.tell()
        elif what == "refresh":
            if which in self.live:
                self.offered(str(which), refresh=True)
        else:
            assert isinstance(which, int)
            getattr(self, what)(which)

    def take(self, index: int) -> None:
        """An instance comes to a node, on the first host that offers it."""
        node = self.nodes[index]
        if self.fake.node(node)["instance_uuid"] is None:
            for host in sorted(self.live):
                if node in self.offered(host):
                    self.stages[host].service.owned.add(INSTANCES[index])
                    self.fake.set_node(node, instance_uuid=INSTANCES[index])
                    return

    def free(self, index: int) -> None:
        """The instance goes."""
        for stage in self.stages.values():
            stage.service.owned.discard(INSTANCES[index])
        self.fake.set_node(self.nodes[index], instance_uuid=None)

    def regroup(self, index: int) -> None:
        """The node changes to the other group, or back."""
        node = self.nodes[index]
        group = self.fake.node(node)["conductor_group"]
        self.fake.set_node(node, conductor_group="rack2" if group == "rack1" else "rack1")


@settings(max_examples=depth.choose(60, 1000))
@given(steps=STEPS)
def test_each_node_has_one_owner_once_all_have_refreshed(steps: list[tuple[str, object]]) -> None:
    with tempfile.TemporaryDirectory() as directory, contextlib.ExitStack() as stack:
        peers = Peers(Path(directory))
        for stage in peers.stages.values():
            stack.callback(stage.driver.cleanup_host)
        for what, which in steps:
            peers.step(what, which)
        claims = {host: peers.offered(host, refresh=True) for host in sorted(peers.live)}
        for index, node in enumerate(peers.nodes):
            now = peers.fake.node(node)
            claimants = [
                host for host, nodes in claims.items() for found in nodes if found == node
            ]
            if now["instance_uuid"] is None:
                assert len(claimants) == (now["conductor_group"] == "rack1")
            else:
                holders = [
                    host
                    for host in sorted(peers.live)
                    if INSTANCES[index] in peers.stages[host].service.owned
                ]
                assert claimants == holders
