# SPDX-License-Identifier: Apache-2.0

"""Whose a node is while refreshes overtake each other, options change and Ironic is away."""

import logging
import threading
from collections.abc import Callable, Collection, Mapping
from concurrent import futures
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ironic_virt import exceptions
from ironic_virt.baremetal.http.versions import Microversion, ServerVersions
from ironic_virt.baremetal.inventory.snapshot import Snapshot
from ironic_virt.baremetal.node import Node
from ironic_virt.sharding.ownership import Ownership
from tests.unit.driver import stage

PEERS = "compute1,compute2"
OURS, THEIRS = "i1", "i2"


class Service(stage.Service):
    """A host that is alone and has no instances, unless it is said otherwise.

    :ivar when_asked: called when somebody asks what the records say of nodes or of instances.
    :ivar asked: the nodes and instances whose hosts were asked for.
    """

    move_command = "move {node} to {host}"

    def __init__(self) -> None:
        super().__init__()
        self.owned: set[str] = set()
        self.when_asked: Callable[[], object] = lambda: None
        self.asked: list[list[str]] = []

    def owned_instance_uuids(self) -> Collection[str]:
        self.when_asked()
        return super().owned_instance_uuids()

    def node_owners(self, uuids: Collection[str]) -> Mapping[str, str]:
        self.asked.append(sorted(uuids))
        self.when_asked()
        return super().node_owners(uuids)

    def instance_hosts(self, uuids: Collection[str]) -> Mapping[str, str]:
        self.asked.append(sorted(uuids))
        return super().instance_hosts(uuids)


class Ironic:
    """What the ownership asks of Ironic.

    :ivar carrying: the nodes of instances.
    """

    versions = ServerVersions(Microversion(1, 1), Microversion(1, 115))

    def __init__(self, **carrying: str) -> None:
        self.carrying = carrying
        self.lists = SimpleNamespace(shards=self.shards)

    def node_of_instance(self, instance: str) -> Node | None:
        uuid = self.carrying.get(instance)
        return uuid and Node(uuid=uuid, instance_uuid=instance)

    def shards(self) -> list[str]:
        raise exceptions.IronicUnavailable("busy", status=503)


class Away:
    """An Ironic that answers nobody until so many ask at the same time."""

    def __init__(self, count: int) -> None:
        self._all = threading.Barrier(count)

    @property
    def versions(self) -> ServerVersions:
        self._all.wait(10)
        raise exceptions.IronicUnreachable("connection refused")


@pytest.fixture
def service() -> Service:
    return Service()


@pytest.fixture
def owning(tmp_path: Path, service: Service) -> Callable[..., Ownership]:
    """An ownership with these options."""

    def own(client: Any = None, pooled: bool = False, **options: str) -> Ownership:
        conf = stage.make_conf(tmp_path, **options)
        return Ownership(conf, service, client or Ironic(), pooled)

    return own


def listed(*nodes: str, taken_at: float = 1.0, **carrying: str) -> Snapshot:
    """A list of nodes; ``carrying`` names those that carry an instance."""
    found = [Node(uuid=uuid) for uuid in nodes]
    found += [Node(uuid=uuid, instance_uuid=instance) for uuid, instance in carrying.items()]
    return Snapshot.of(found, taken_at=taken_at)


# -- settlements ----------------------------------------------------------------


def test_the_first_who_asks_settles(owning) -> None:
    assert owning().claim(listed("n1")).nodes == {"n1"}


def test_an_older_list_does_not_undo_a_newer_one(owning, service) -> None:
    ownership = owning()
    assert ownership.settle(listed("n1", "n2", taken_at=2.0)).nodes == {"n1", "n2"}
    service.asked.clear()
    assert ownership.settle(listed("n1", taken_at=1.0)).nodes == {"n1", "n2"}
    assert service.asked == []
    assert ownership.settle(listed(taken_at=2.5)).nodes == frozenset()


def test_an_earlier_look_at_the_records_undoes_no_later_one(owning, service) -> None:
    ownership = owning()
    ownership.settle(listed("n0"))

    def overtake() -> None:
        service.when_asked = lambda: None
        assert ownership.settle(listed("n1", "n2")).nodes == {"n1", "n2"}

    service.when_asked = overtake
    assert ownership.settle(listed("n1")).nodes == {"n1", "n2"}
    assert ownership.settle(listed("n3")).nodes == {"n3"}, "which is not overtaken"


def test_a_later_look_at_an_older_list_does_not_undo_a_newer_one(owning, service) -> None:
    ownership = owning()
    begun, go_on = threading.Event(), threading.Event()

    def wait() -> None:
        begun.set()
        assert go_on.wait(10)

    service.when_asked = wait
    with futures.ThreadPoolExecutor(1) as thread:
        newer = thread.submit(ownership.settle, listed("n1", "n2", taken_at=2.0))
        assert begun.wait(10)

        def let_it_end() -> None:
            go_on.set()
            newer.result(10)

        service.when_asked = let_it_end
        assert ownership.settle(listed("n1", taken_at=1.0)).nodes == {"n1", "n2"}
    assert ownership.settle(listed("n3", taken_at=2.0)).nodes == {"n3"}


def test_only_recordless_nodes_with_an_instance_are_asked_about(owning, service) -> None:
    service.hosts = {THEIRS: "compute2"}
    claim = owning().settle(listed("n1", n2=OURS, n3=THEIRS))
    assert service.asked == [["n1", "n2", "n3"], [OURS, THEIRS]]
    assert (claim.nodes, claim.foreign) == ({"n1", "n2"}, {"n3": "compute2"})


def test_in_pools_another_hosts_instance_gives_no_node_away(owning, service) -> None:
    service.hosts = {THEIRS: "compute2"}
    claim = owning(pooled=True).settle(listed("n1", n2=THEIRS))
    assert (claim.nodes, claim.foreign) == ({"n1", "n2"}, {})


# -- the ring -------------------------------------------------------------------


def test_two_peers_share_nodes_by_a_ring_until_the_next_refresh(owning, service) -> None:
    ownership = owning(peer_list=PEERS)
    service.live = ["compute1", "compute2"]
    assert ownership.by_ring, "also before the first refresh"
    nodes = [f"n{number}" for number in range(40)]
    assert 0 < len(ownership.settle(listed(*nodes)).nodes) < len(nodes)
    service.live = ["compute1"]
    assert ownership.by_ring
    assert ownership.settle(listed(*nodes)).nodes == {*nodes}
    assert not ownership.by_ring


def test_a_node_outside_stays_ours_while_it_has_our_instance(owning, service) -> None:
    ownership = owning(Ironic(i1="n8", i3="n9"), peer_list=PEERS, conductor_group="g")
    service.live, service.owned = ["compute1", "compute2"], {OURS, "i3"}
    assert ownership.settle(listed()).elsewhere == {OURS: "n8", "i3": "n9"}
    ownership.note(Node(uuid="n8", instance_uuid=OURS))
    assert ownership.claimed.elsewhere == {OURS: "n8", "i3": "n9"}
    service.owned = {OURS}
    assert ownership.settle(listed(), listed=False).elsewhere == {OURS: "n8"}
    ownership.note(Node(uuid="n8"))
    assert ownership.claimed.elsewhere == {}


def test_what_is_seen_of_a_node_while_it_is_looked_up_counts(owning, service) -> None:
    ownership = owning(Ironic(i1="n8", i3="n9"), peer_list=PEERS, conductor_group="g")
    service.live, service.owned = ["compute1", "compute2"], {OURS, "i3"}

    def see() -> None:
        ownership.note(Node(uuid="n8", instance_uuid=OURS))
        ownership.note(Node(uuid="n9"))

    service.when_asked = see
    assert ownership.settle(listed()).elsewhere == {OURS: "n8"}


def test_a_refusal_names_the_instance_and_the_services_command(owning) -> None:
    node = Node(uuid="n1", instance_uuid=OURS, conductor_group="h")
    with pytest.raises(exceptions.NodeNotOurs, match="move n1 to <its host>") as caught:
        owning(conductor_group="g").check(node, instance=OURS, carries=OURS)
    assert caught.value.instance == OURS


# -- the log --------------------------------------------------------------------


def test_of_an_empty_shard_others_are_named_only_if_listed(owning, caplog) -> None:
    ownership = owning(shard_key="a")
    assert ownership.settle(listed()).nodes == frozenset()
    (warning,) = [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING]
    assert "conductor group any, shard 'a'" in warning
    assert "with nodes" not in warning
