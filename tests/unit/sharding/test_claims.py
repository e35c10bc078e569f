# SPDX-License-Identifier: Apache-2.0

"""Who has which node: by the ring, by the records."""

from hypothesis import given
from hypothesis import strategies as st

from ironic_virt.baremetal.node import Node
from ironic_virt.sharding import claims
from ironic_virt.sharding.hashring import Ring

HOSTS = ["a", "b", "c"]
UUIDS = st.uuids().map(str)
INSTANCES = [f"6d2b4f02-0000-4000-8000-00000000000{i}" for i in range(4)]
NODES = st.dictionaries(UUIDS, st.sampled_from([None, *INSTANCES]), max_size=30)


def nodes_of(carried: dict[str, str | None]) -> list[Node]:
    return [Node(uuid=uuid, instance_uuid=instance) for uuid, instance in carried.items()]


@given(
    carried=NODES,
    hosts_of=st.fixed_dictionaries({i: st.sampled_from([*HOSTS, "down"]) for i in INSTANCES}),
)
def test_each_free_node_has_one_owner_and_each_taken_one_its_instances(
    carried: dict[str, str | None], hosts_of: dict[str, str]
) -> None:
    ring = Ring(HOSTS)
    owned = {host: {i for i in INSTANCES if hosts_of[i] == host} for host in HOSTS}
    by_host = {
        host: claims.by_ring(nodes_of(carried), ring, host.upper(), owned[host], {})
        for host in HOSTS
    }
    for uuid, instance in carried.items():
        claimants = [host for host, claim in by_host.items() if uuid in claim]
        if instance is None:
            assert claimants == [ring.owner(uuid)]
        else:
            assert claimants == [host for host in HOSTS if host == hosts_of[instance]]


@given(carried=NODES, gone=st.sampled_from(HOSTS), host=st.sampled_from(HOSTS))
def test_a_change_of_members_moves_only_nodes_without_an_instance(
    carried: dict[str, str | None], gone: str, host: str
) -> None:
    if host == gone:
        return
    nodes = nodes_of(carried)
    before = claims.by_ring(nodes, Ring(HOSTS), host, INSTANCES[:2], {})
    after = claims.by_ring(nodes, Ring({*HOSTS} - {gone}), host, INSTANCES[:2], {})
    assert before.nodes <= after.nodes
    assert all(carried[uuid] is None for uuid in after.nodes - before.nodes)


def test_by_the_records_a_node_of_another_host_is_left() -> None:
    owners = {"n1": "Me", "n2": "other"}
    claim = claims.by_records(["n1", "n2", "n3"], "me", owners)
    assert claim.nodes == {"n1", "n3"}
    assert claim.left == {"n2": "other"}


def test_a_node_outside_is_claimed_as_long_as_it_carries_its_instance() -> None:
    claim = claims.Claim(frozenset({"n0"}), elsewhere={"i1": "n1", "i2": "n2"})
    assert claims.noted(claim, "n1", "i1") == claim
    for instance in (None, "i2", "i3"):
        after = claims.noted(claim, "n1", instance)
        assert (after.nodes, after.elsewhere) == ({"n0"}, {"i2": "n2"})
    assert claims.noted(claim, "n3", None) is claim
