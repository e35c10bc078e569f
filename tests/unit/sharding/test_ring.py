# SPDX-License-Identifier: Apache-2.0

"""The ring: every node has one owner, few nodes move, and Nova's driver agrees."""

import uuid
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tooz import hashring as tooz_hashring

from ironic_virt.baremetal.node import Node
from ironic_virt.sharding.ring import Ring, is_configured, ring_of
from tests.unit.driver import stage

HOSTS = st.sets(st.from_regex(r"[a-z][a-z0-9.-]{0,12}", fullmatch=True), min_size=2, max_size=8)
UUIDS = st.lists(st.uuids().map(str), min_size=1, max_size=50, unique=True)

# What nova 34.0.0's own driver had in its node cache after a refresh, on each of these
# hosts in turn; a digit is the index of the host that had the node.
NOVA_HOSTS = ["compute1", "compute2", "Compute-3.example.test"]
NOVA_NODES = [str(uuid.uuid5(uuid.NAMESPACE_DNS, f"node-{i}.ironic.test")) for i in range(24)]


@pytest.mark.parametrize(
    ("hosts", "owners"),
    [(2, "000000001100101010110101"), (3, "222000001122101222220101")],
)
def test_nova_and_we_give_each_node_to_the_same_host(hosts: int, owners: str) -> None:
    names = NOVA_HOSTS[:hosts]
    ring = Ring(names)
    assert [ring.owner(node) for node in NOVA_NODES] == [names[int(i)].lower() for i in owners]


@given(hosts=HOSTS, nodes=UUIDS)
def test_the_ring_is_novas(hosts: set[str], nodes: list[str]) -> None:
    # Nova: HashRing(lower-cased hosts, partitions=2 ** 5), asked by the node's id in UTF-8.
    novas = tooz_hashring.HashRing({host.lower() for host in hosts}, partitions=2**5)
    ours = Ring([host.upper() for host in hosts])
    assert all({ours.owner(node)} == novas.get_nodes(node.encode("utf-8")) for node in nodes)


@pytest.mark.parametrize(
    ("peers", "live", "members"),
    [
        ("a b me", ["a", "b", "me"], {"a", "b", "me"}),
        ("a b me", ["b", "me", "stranger"], {"b", "me"}),
        ("a me", ["A"], {"a", "me"}),
        ("a b", ["A", "me"], {"a", "me"}),
        ("a me", [], None),
        ("a", ["a", "me"], None),
    ],
)
def test_members_are_the_live_peers_and_this_host(peers, live, members) -> None:
    virtapi: Any = SimpleNamespace(host="Me", live_hosts=lambda: live)
    ring = ring_of(frozenset(peers.split()), virtapi, None)
    assert (ring and ring.members) == members
    assert ring_of(frozenset(peers.split()), virtapi, ring) is ring


def test_a_shard_key_puts_the_ring_out_of_use(tmp_path: Path) -> None:
    assert not is_configured(stage.make_conf(tmp_path))
    assert is_configured(stage.make_conf(tmp_path, peer_list="a"))
    assert not is_configured(stage.make_conf(tmp_path, peer_list="a", shard_key="s"))


# -- which nodes are a host's -------------------------------------------------------

MEMBERS = ["a", "b", "c"]
INSTANCES = [f"6d2b4f02-0000-4000-8000-00000000000{i}" for i in range(4)]
CARRIED = st.dictionaries(st.uuids().map(str), st.sampled_from([None, *INSTANCES]), max_size=30)


def nodes_of(carried: dict[str, str | None]) -> list[Node]:
    return [Node(uuid=uuid, instance_uuid=instance) for uuid, instance in carried.items()]


@given(
    carried=CARRIED,
    hosts_of=st.fixed_dictionaries({i: st.sampled_from([*MEMBERS, "down"]) for i in INSTANCES}),
)
def test_a_free_node_has_one_owner_and_a_taken_one_its_instances(carried, hosts_of) -> None:
    ring = Ring(MEMBERS)
    owned = {host: {i for i in INSTANCES if hosts_of[i] == host} for host in MEMBERS}
    for node in nodes_of(carried):
        claimants = [host for host in MEMBERS if ring.gives(node, host.upper(), owned[host])]
        instance = node.instance_uuid
        if instance is None:
            assert claimants == [ring.owner(node.uuid)]
        else:
            assert claimants == [host for host in MEMBERS if host == hosts_of[instance]]
