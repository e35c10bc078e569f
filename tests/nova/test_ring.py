# SPDX-License-Identifier: Apache-2.0

"""The deprecated ``peer_list``: compute services share nodes by a hash ring."""

import random
import uuid
from collections import Counter
from typing import Any

from ironic_virt.sharding.ring import Ring
from tests.nova import figures
from tests.nova.services import Services

A, B, C = "compute-a", "compute-b", "compute-c"


class Peers(Services, starts=True):
    """Some nodes, two or more of each host's by the ring.

    :cvar peers: the hosts.
    """

    peers: tuple[str, ...]

    def setUp(self) -> None:
        super().setUp()
        ring = Ring(self.peers)
        self.nodes = self.make_nodes(2 * len(self.peers))
        while min(Counter(map(ring.owner, self.nodes))[peer] for peer in self.peers) < 2:
            self.nodes += self.make_nodes(1)

    def start(self, host: str, driver: str | None = None) -> Any:
        # Nova's own driver reads a peer_list only together with a conductor group.
        return self.start_compute(host, driver, conductor_group="", peer_list=list(self.peers))

    def one_of(self, host: str) -> str:
        """A node of a host's."""
        return next(node for node in self.nodes if self.hosts()[node] == host)


class Failover(Peers, peers=(A, B, C)):
    """What both drivers go through."""

    def test_free_nodes_of_a_dead_service_move_and_come_back(self) -> None:
        a = self.start(A)
        assert self.hosts() == dict.fromkeys(self.nodes, A)
        b, c = self.start(B), self.start(C)
        self.refresh(a, b, c)
        shared, ids = self.hosts(), self.record_ids()
        assert shared == {node: owner(a, node) for node in self.nodes}
        assert set(shared.values()) == set(self.peers)
        held = self.one_of(A)
        server = self.boot_at(A, held)

        a.stop()
        self.force_down(A)
        self.refresh(b, c)
        without_a = {node: owner(b, node) for node in self.nodes}
        assert set(without_a.values()) == {B, C}
        assert self.hosts() == {**without_a, held: A}
        elsewhere = next(node for node in self.nodes if shared[node] == A and node != held)
        host = without_a[elsewhere]
        guest = self.boot_at(host, elsewhere, "guest")

        self.force_down(A, False)
        a = self.start(A)
        self.refresh(b, c, a)
        assert self.hosts() == {**shared, elsewhere: host}
        self.refresh(a, b, c)
        assert self.hosts() == {**shared, elsewhere: host}
        assert self.record_ids() == ids
        assert (self.host_of(server), self.host_of(guest)) == (A, host)
        for one in (server, guest):
            self.reboot(one)
            self.delete(one)
        for node in (held, elsewhere):
            self.wait_for_node(node, "available")
        self.refresh(c, b, a)
        assert self.hosts() == shared
        assert self.record_ids() == ids


def owner(compute: Any, node: str) -> str:
    """The host to which the ring of a service's driver gives a node."""
    driver = compute.manager.driver
    if hasattr(driver, "hash_ring"):
        (host,) = driver.hash_ring.get_nodes(node.encode())
        return host
    return driver._driver._site.nodes.ownership._ring.owner(node)


class TestFailoverInTree(Failover, driver=figures.IN_TREE):
    """Nova's own driver."""


class TestFailover(Failover, driver=figures.OURS):
    """Ours."""


class TestRollingSwitch(Peers, driver=figures.IN_TREE, peers=(A, B)):
    """From Nova's own driver to ours, one host after the other."""

    def test_no_node_moves_and_all_servers_stay(self) -> None:
        a, b = self.start(A), self.start(B)
        self.refresh(a, b)
        shared, ids = self.hosts(), self.record_ids()
        assert set(shared.values()) == set(self.peers)
        servers = [self.boot_at(host, self.one_of(host), f"on-{host}") for host in self.peers]

        b.stop()
        b = self.start(B, figures.OURS)
        self.settled(a, b, shared, ids)
        # Both agree about every node.
        seeded = random.Random("nodes")
        for _ in range(1000):
            node = str(uuid.UUID(int=seeded.getrandbits(128), version=4))
            assert owner(a, node) == owner(b, node)
        for server in servers:
            self.reboot(server)

        a.stop()
        a = self.start(A, figures.OURS)
        self.settled(a, b, shared, ids)
        for server in servers:
            self.reboot(server)
            self.delete(server)
        for node in self.nodes:
            self.wait_for_node(node, "available")
        self.settled(a, b, shared, ids)

    def settled(self, a: Any, b: Any, shared: dict[str, str], ids: dict[str, Any]) -> None:
        """Refresh again and again: nothing moves, and no record is made again."""
        for each in (a, b, b, a, a, b):
            self.refresh(each)
            assert self.hosts() == shared
            assert self.record_ids() == ids
