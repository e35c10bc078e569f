# SPDX-License-Identifier: Apache-2.0

"""The ring: every node has one owner, few nodes move, and Nova's driver agrees."""

import sys
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tooz import hashring as tooz_hashring

from ironic_virt import exceptions
from ironic_virt.sharding.hashring import Ring, live_members

HOSTS = st.sets(st.from_regex(r"[a-z][a-z0-9.-]{0,12}", fullmatch=True), min_size=2, max_size=8)
NODES = st.lists(st.uuids().map(str), min_size=1, max_size=50, unique=True)

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


@given(hosts=HOSTS, nodes=NODES)
def test_the_ring_is_novas(hosts: set[str], nodes: list[str]) -> None:
    # Nova: HashRing(lower-cased hosts, partitions=2 ** 5), asked by the node's id in UTF-8.
    novas = tooz_hashring.HashRing({host.lower() for host in hosts}, partitions=2**5)
    ours = Ring([host.upper() for host in hosts])
    assert all({ours.owner(node)} == novas.get_nodes(node.encode("utf-8")) for node in nodes)


@given(hosts=HOSTS, nodes=NODES, data=st.data())
def test_only_the_nodes_of_who_goes_move_and_come_back_with_it(
    hosts: set[str], nodes: list[str], data: st.DataObject
) -> None:
    gone = data.draw(st.sampled_from(sorted(hosts)))
    before, after = Ring(hosts), Ring(hosts - {gone})
    for node in nodes:
        if before.owner(node) == gone:
            assert after.owner(node) != gone
        else:
            assert after.owner(node) == before.owner(node)


@pytest.mark.parametrize(
    ("peers", "live", "members"),
    [
        (["a", "b", "me"], ["a", "b", "me"], {"a", "b", "me"}),
        (["a", "b", "me"], ["b", "me", "stranger"], {"b", "me"}),
        (["A", "ME"], ["a"], {"a", "me"}),
        (["a"], ["A", "me"], {"a", "me"}),
        (["a", "me"], [], {"me"}),
    ],
)
def test_members_are_the_live_peers_and_this_host(
    peers: list[str], live: list[str], members: set[str]
) -> None:
    assert live_members(peers, live, "Me") == members


def test_without_tooz_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tooz.hashring", None)
    with pytest.raises(exceptions.InvalidConfiguration, match="extra 'hashring'"):
        Ring(["a", "b"])
