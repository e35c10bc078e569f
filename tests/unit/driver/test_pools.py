# SPDX-License-Identifier: Apache-2.0

"""What a service reports of its pools."""

import re
import uuid
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ironic_virt.baremetal.node import Node
from ironic_virt.baremetal.properties import NodeProperties
from ironic_virt.driver.pools import counts, names
from ironic_virt.driver.pools.counts import Pool, pools_of
from ironic_virt.driver.pools.names import pool_name
from ironic_virt.request.spec import placement_class
from tests import depth

PLAIN = ("gold", frozenset[str]())
GPU = ("gold", frozenset({"CUSTOM_GPU"}))
GOLD = "gold~compute1"


def node(number: int, kind: Any = PLAIN, instance: str | None = None, **fields: Any) -> Node:
    return Node(
        uuid=str(uuid.UUID(int=number)),
        resource_class=kind[0],
        traits=kind[1],
        instance_uuid=instance,
        power_state="power off",
        provision_state="active" if instance else "available",
        **{"properties": NodeProperties(8, 16384, 100, "x86_64")} | fields,
    )


def counted(
    nodes: list[Node],
    places: Mapping[str, str] | None = None,
    host: str = "compute1",
) -> dict[str, tuple[int, int, int, int]]:
    """``(total, used, reserved, free)`` by pool."""
    on_nodes = [one.instance_uuid for one in nodes if one.instance_uuid]
    found = pools_of(nodes, host, places or {}, on_nodes)
    return {name: (p.total, p.used, p.reserved, p.free) for name, p in found.items()}


# -- names --------------------------------------------------------------------


def test_a_name_has_the_class_and_the_host_and_tells_kinds_apart() -> None:
    names = {
        pool_name("compute1", PLAIN),
        pool_name("compute2", PLAIN),
        pool_name("compute1", GPU),
        pool_name("compute1", ("gold", frozenset({"CUSTOM_GPU", "CUSTOM_SSD"}))),
        pool_name("compute1", ("silver", frozenset())),
    }
    assert len(names) == 5
    assert pool_name("compute1", PLAIN) == GOLD
    assert all(name.startswith(("gold", "silver")) for name in names)


def test_names_and_uuids_stay_the_same_in_every_process() -> None:
    # Records outlive processes and releases: these may not change.
    traits = frozenset({"CUSTOM_SSD", "CUSTOM_GPU"})
    name = pool_name("compute1.example.org", ("gold.8", traits))
    assert name == "gold.8~220a3b9d54~compute1.example.org"
    assert names.pool_uuid(name) == "30a47041-7509-53f6-af3d-59aa586b6633"
    odd = pool_name("compute1", ("gold 8/~é", frozenset()))
    assert odd == "gold~~208~~2F~~7E~~C3~~A9~compute1"


CLASSES = st.one_of(
    st.text("ab01@+~%._-", min_size=1, max_size=80),
    st.text("aé日😀", min_size=1, max_size=80),
    st.sampled_from(["gold", "gold.8", "a@b", "gold+0123456789", "+0123456789", "@", "~~40"]),
)
HOSTS = st.text("ab01@+~%._-:", min_size=1, max_size=20)
TRAITS = st.frozensets(st.sampled_from(["CUSTOM_GPU", "CUSTOM_SSD"]))
_LOGICAL_NAME = re.compile(r"[A-Za-z0-9._~-]+")
"""What Ironic's ``is_valid_logical_name`` lets pass."""


@settings(max_examples=depth.choose(100, 1000))
@given(host=HOSTS, resource_class=CLASSES, traits=TRAITS)
def test_ironic_takes_any_name_and_placements_class_is_in_it(host, resource_class, traits) -> None:
    name = pool_name(host, (resource_class, traits))
    assert _LOGICAL_NAME.fullmatch(name)
    assert "~" in name, "no uuid has one"
    assert len(name) <= 200, "Placement's column"
    found = names.class_of(name, host)
    assert found is not None
    assert placement_class(found) == placement_class(resource_class)
    assert found == resource_class or len(resource_class) > 6
    assert names.class_of(name, host + "x") is None


@settings(max_examples=depth.choose(100, 1000))
@given(st.lists(st.tuples(HOSTS, st.tuples(CLASSES, TRAITS)), unique=True, max_size=20))
def test_no_two_pools_have_a_name_or_a_uuid_in_common(several: list[Any]) -> None:
    found = {pool_name(host, kind) for host, kind in several}
    uuids = {names.pool_uuid(name) for name in found}
    assert len(found) == len(uuids) == len(several)


@pytest.mark.parametrize("name", ["gold", "gold.8", "a@b", "gold+0123456789", "+0123456789", "@"])
def test_a_class_is_read_from_a_name_but_not_from_a_node_uuid(name: str) -> None:
    for traits in (frozenset[str](), GPU[1]):
        assert names.class_of(pool_name("compute1", (name, traits)), "compute1") == name
    assert names.class_of(pool_name("compute1", (name, frozenset())), "compute2") is None
    assert names.class_of(str(uuid.UUID(int=5)), "compute1") is None


# -- counts -------------------------------------------------------------------


FREE, OURS = [node(1), node(2)], [node(1, instance="ours"), node(2)]
ON_GPU = pool_name("compute1", GPU)
# More than there are nodes: nothing is free, and the sum is right.
THREE = {"new": GOLD, "newer": GOLD, "newest": GOLD}
COUNTS: dict[str, tuple[list[Node], dict[str, str], dict[str, tuple[int, int, int, int]]]] = {
    "by class and traits": (
        [*FREE, node(3, GPU), node(4, ("silver", frozenset()))],
        {},
        {GOLD: (2, 0, 0, 2), ON_GPU: (1, 0, 0, 1), "silver~compute1": (1, 0, 0, 1)},
    ),
    "without a class": ([node(1, (None, frozenset()))], {}, {}),
    "ours and theirs": (
        [node(1, instance="ours"), node(2, instance="theirs"), node(3)],
        {"ours": GOLD},
        {GOLD: (3, 1, 1, 1)},
    ),
    "a build without a node yet": (FREE, {"new": GOLD}, {GOLD: (2, 1, 0, 1)}),
    "more builds than nodes": (FREE, THREE, {GOLD: (3, 3, 0, 0)}),
    "the records said GPU, and a plain node did": (
        [*OURS, node(3, GPU)],
        {"ours": ON_GPU},
        {GOLD: (2, 0, 1, 1), ON_GPU: (2, 1, 0, 1)},
    ),
    "the record names the node": (OURS, {"ours": OURS[0].uuid}, {GOLD: (2, 0, 1, 1)}),
    "the record names nothing": (OURS, {"ours": ""}, {GOLD: (2, 1, 0, 1)}),
    "a pool without nodes": ([], {"ours": GOLD}, {GOLD: (1, 1, 0, 0)}),
    "nothing at all": ([], {}, {}),
}


@pytest.mark.parametrize(("nodes", "places", "expected"), COUNTS.values(), ids=list(COUNTS))
def test_an_instance_counts_where_its_record_put_it(nodes, places, expected) -> None:
    assert counted(nodes, places) == expected


def test_hardware_is_what_all_have_in_common() -> None:
    more = NodeProperties(8, 32768, 100, "x86_64", (("boot_mode", "uefi"), ("disks", "2")))
    most = NodeProperties(8, 16384, 100, "aarch64", (("boot_mode", "uefi"), ("disks", "4")))
    nodes = [node(1, properties=more), node(2, properties=most)]
    [pool] = pools_of(nodes, "compute1", {}, ()).values()
    assert pool.properties == NodeProperties(8, 0, 100, None, (("boot_mode", "uefi"),))


# -- histories ----------------------------------------------------------------

HOSTS = ("compute1", "compute2", "compute3")
KINDS = (PLAIN, GPU, ("silver", frozenset[str]()))
STATES = ("available", "cleaning", "manageable", "a state of the future")

numbers = st.integers(0, 5)
hosts = st.sampled_from(HOSTS)
events = st.lists(
    st.one_of(
        st.tuples(st.just("node"), numbers, st.sampled_from(KINDS), st.sampled_from(STATES)),
        st.tuples(st.just("gone"), numbers),
        # Oftener than anything else, or histories would be of empty services.
        *[st.tuples(st.just("build"), numbers, hosts, st.sampled_from(KINDS))] * 3,
        st.tuples(st.just("destroy"), numbers),
        st.tuples(st.just("maintenance"), numbers),
        st.tuples(st.just("kind"), numbers, st.sampled_from(KINDS)),
        st.tuples(st.just("service"), hosts),
        st.tuples(st.just("forgotten"), numbers),
    ),
    min_size=8,
    max_size=30,
)


class World:
    """Nodes in Ironic, instances in the records, services that are up."""

    def __init__(self) -> None:
        self.nodes = {number: node(number, KINDS[number % 2]) for number in range(6)}
        self.hosts: dict[str, str] = {}
        self.places: dict[str, str] = {}
        self.live = set(HOSTS)
        self.builds = 0

    def happen(self, what: str, *details: Any) -> None:
        if what == "service":
            self.live ^= {details[0]}
            return
        number, *more = details
        known = self.nodes.get(number)
        if what == "node":
            kind, state = more
            self.nodes.setdefault(number, changed(node(number, kind), provision_state=state))
        elif known is None:
            return
        elif what == "gone" and not known.instance_uuid:
            del self.nodes[number]
        elif what == "build" and counts.may_be_free(known) and more[0] in self.live:
            host, pool = more
            self.builds += 1
            instance = f"i{self.builds}"
            self.nodes[number] = changed(known, instance_uuid=instance, provision_state="active")
            self.hosts[instance], self.places[instance] = host, pool_name(host, pool)
        elif what == "destroy" and known.instance_uuid:
            self.hosts.pop(known.instance_uuid, None)
            self.places.pop(known.instance_uuid, None)
            self.nodes[number] = changed(known, instance_uuid=None, provision_state="cleaning")
        elif what == "maintenance":
            self.nodes[number] = changed(known, maintenance=not known.maintenance)
        elif what == "kind":
            self.nodes[number] = changed(known, resource_class=more[0][0], traits=more[0][1])
        elif what == "forgotten" and known.instance_uuid:
            # Nobody's instance any more, and still on its node.
            self.hosts.pop(known.instance_uuid, None)
            self.places.pop(known.instance_uuid, None)

    def seen_by(self, host: str, *, own: bool) -> dict[str, Pool]:
        """What a service reports after a refresh.

        :param own: of its shard.
        """
        places = {one: place for one, place in self.places.items() if self.hosts[one] == host}
        nodes = list(self.nodes.values())
        if own:
            # Shards: each node has one service, here by its number.
            nodes = [one for number, one in self.nodes.items() if HOSTS[number % 3] == host]
        on_nodes = [one.instance_uuid for one in self.nodes.values() if one.instance_uuid]
        return pools_of(nodes, host, places, on_nodes)

    def free(self) -> Counter[Any]:
        return Counter(
            (one.resource_class, one.traits)
            for one in self.nodes.values()
            if counts.may_be_free(one)
        )


def changed(known: Node, **fields: Any) -> Node:
    return Node(**{name: getattr(known, name) for name in known.__struct_fields__} | fields)


def free_by_kind(reported: dict[str, Pool]) -> Counter[Any]:
    found: Counter[Any] = Counter()
    for pool in reported.values():
        found[(pool.resource_class, pool.traits)] += pool.free
    return +found


@settings(max_examples=depth.choose(100, 1000))
@given(events)
def test_what_services_report_as_free_is_what_is_free(history: list[tuple[Any, ...]]) -> None:
    world = World()
    for event in history:
        world.happen(*event)
        truth = world.free()
        everyone = Counter[Any]()
        for host in HOSTS:
            for own in (True, False):
                reported = world.seen_by(host, own=own)
                for pool in reported.values():
                    assert 0 <= pool.used <= pool.total
                    assert pool.reserved >= 0
                    assert pool.total == pool.used + pool.reserved + pool.free
                if own:
                    everyone += free_by_kind(reported)
                else:
                    assert free_by_kind(reported) == truth, "each says the same"
        assert everyone == truth
