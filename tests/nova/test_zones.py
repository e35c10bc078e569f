# SPDX-License-Identifier: Apache-2.0

"""Availability zones: all nodes of a host are in its aggregates, in the real Nova."""

from typing import Any
from unittest import mock

import pytest
from nova import context as nova_context
from nova import objects
from nova.tests.functional.api.client import OpenStackApiNotFoundException

from ironic_virt.nova import zones
from tests.nova.fleets import Fleet

ZONE = "zone1"
BY_HAND = "11111111-2222-3333-4444-555555555555"
_MANY = 12


class TestZones(Fleet):
    """One or two compute services over a fake Ironic."""

    def setUp(self) -> None:
        super().setUp()
        self.flags(instances=-1, group="quota")
        self.aggregate = self.make_aggregate(ZONE)

    def make_aggregate(self, zone: str) -> dict[str, Any]:
        body = {"aggregate": {"name": zone, "availability_zone": zone}}
        return self.api.post_aggregate(body)

    def join(self, host: str, aggregate: dict[str, Any]) -> None:
        self.api.add_host_to_aggregate(aggregate["id"], host)

    def leave(self, host: str, aggregate: dict[str, Any]) -> None:
        body = {"remove_host": {"host": host}}
        self.api.api_post(f"/os-aggregates/{aggregate['id']}/action", body)

    def aggregates_of(self, node: str) -> set[str]:
        """The aggregates of a node's resource provider, without the driver's marks."""
        uuids = set(self.aggregates_and_generation(node)["aggregates"])
        marked = {uuid for uuid in uuids if uuid[14] == "8"}
        assert marked <= zones.marks(uuids - marked)
        return uuids - marked

    def aggregates_and_generation(self, node: str) -> dict[str, Any]:
        return self.placement_call("get", f"/resource_providers/{node}/aggregates")

    def put_by_hand(self, node: str, uuid: str) -> None:
        """``openstack resource provider aggregate set``."""
        body = self.aggregates_and_generation(node)
        body["aggregates"].append(uuid)
        self.placement_call("put", f"/resource_providers/{node}/aggregates", body)

    @property
    def uuid(self) -> str:
        """The uuid of the zone's aggregate, as Placement has it."""
        return self.aggregate["uuid"]

    def test_every_node_of_a_host_is_in_its_zone(self) -> None:
        self.make_nodes(_MANY)
        compute = self.start_compute("compute1")
        self.join("compute1", self.aggregate)
        self.refresh(compute)
        body = {"availability_zone": ZONE, "min_count": _MANY, "max_count": _MANY}
        self.boot(**body)
        servers = self.until(
            self.api.get_servers,
            lambda seen: all(one["status"] in ("ACTIVE", "ERROR") for one in seen),
        )
        assert [one["status"] for one in servers] == ["ACTIVE"] * _MANY
        assert {one["OS-EXT-AZ:availability_zone"] for one in servers} == {ZONE}

    def test_a_host_that_leaves_takes_its_nodes_along(self) -> None:
        nodes = self.make_nodes(3)
        compute = self.start_compute("compute1")
        for node in nodes:
            self.put_by_hand(node, BY_HAND)
        self.join("compute1", self.aggregate)
        self.refresh(compute)
        assert [self.aggregates_of(node) for node in nodes] == [{self.uuid, BY_HAND}] * 3
        self.leave("compute1", self.aggregate)
        self.refresh(compute)
        assert [self.aggregates_of(node) for node in nodes] == [{BY_HAND}] * 3

    def test_what_was_there_before_its_host_stays(self) -> None:
        nodes = self.make_nodes(3)
        compute = self.start_compute("compute1")
        # Into the first record's aggregates Nova puts it, too.
        first = objects.ComputeNode.get_first_node_by_host_for_old_compat(
            nova_context.get_admin_context(), "compute1"
        )
        by_hand = max(set(nodes) - {first.hypervisor_hostname})
        self.put_by_hand(by_hand, self.uuid)
        self.join("compute1", self.aggregate)
        self.refresh(compute)
        assert [self.aggregates_of(node) for node in nodes] == [{self.uuid}] * 3
        compute.stop()
        compute = self.start_compute("compute1")
        self.leave("compute1", self.aggregate)
        self.refresh(compute, compute)
        assert [node for node in nodes if self.aggregates_of(node)] == [by_hand]
        assert self.aggregates_of(by_hand) == {self.uuid}

    def test_what_somebody_adds_again_afterwards_stays(self) -> None:
        nodes = self.make_nodes(2)
        compute = self.start_compute("compute1")
        self.join("compute1", self.aggregate)
        self.refresh(compute)
        self.leave("compute1", self.aggregate)
        self.refresh(compute, compute)
        self.put_by_hand(nodes[1], self.uuid)
        self.refresh(compute, compute)
        assert self.aggregates_of(nodes[1]) == {self.uuid}

    def test_a_host_that_joins_and_leaves_while_its_service_is_down(self) -> None:
        nodes = self.make_nodes(3)
        compute = self.start_compute("compute1")
        self.refresh(compute, compute)
        compute.stop()
        self.join("compute1", self.aggregate)
        compute = self.start_compute("compute1")
        assert [self.aggregates_of(node) for node in nodes] == [{self.uuid}] * 3
        self.put_by_hand(nodes[1], BY_HAND)
        self.refresh(compute, compute)
        compute.stop()
        self.leave("compute1", self.aggregate)
        self.start_compute("compute1")
        assert [self.aggregates_of(node) for node in nodes] == [set(), {BY_HAND}, set()]

    def test_the_first_nodes_of_a_host_are_in_its_zone_at_once(self) -> None:
        former, _ = (self.make_nodes(1, shard=shard)[0] for shard in "ab")
        compute = self.start_compute("compute1", shard="a")
        self.ironic("DELETE", f"/nodes/{former}")
        self.refresh(compute)
        # Nova says that it can't, but the host is in it from now on.
        with pytest.raises(OpenStackApiNotFoundException):
            self.join("compute1", self.aggregate)
        nodes = self.make_nodes(2, shard="a")
        self.refresh(compute)
        assert [self.aggregates_of(node) for node in nodes] == [{self.uuid}] * 2

    def test_a_node_that_is_moved_changes_its_zone(self) -> None:
        (node, _) = self.make_nodes(2, shard="a")
        self.make_nodes(1, shard="b")
        compute1 = self.start_compute("compute1", shard="a")
        compute2 = self.start_compute("compute2", shard="b")
        other = self.make_aggregate("zone2")
        self.join("compute1", self.aggregate)
        self.join("compute2", other)
        self.refresh(compute1, compute2)
        self.set_on_node(node, shard="b")
        self.force_down("compute1")
        self.move(node, "compute2")
        self.force_down("compute1", down=False)
        self.refresh(compute1, compute2)
        assert self.hosts()[node] == "compute2"
        assert self.aggregates_of(node) == {other["uuid"]}

    def test_pools_are_in_the_zone_too(self) -> None:
        self.make_nodes(3)
        compute = self.start_compute("compute1", node_selection="ironic")
        self.join("compute1", self.aggregate)
        self.make_nodes(1, resource_class="silver")
        self.refresh(compute)
        pools = self.placement_call("get", "/resource_providers")["resource_providers"]
        assert [self.aggregates_of(pool["uuid"]) for pool in pools] == [{self.uuid}] * 2

    def test_nothing_changes_while_the_aggregates_cannot_be_read(self) -> None:
        nodes = self.make_nodes(2)
        compute = self.start_compute("compute1")
        self.join("compute1", self.aggregate)
        self.refresh(compute)
        error = RuntimeError("no such database")
        with mock.patch.object(objects.AggregateList, "get_by_host", side_effect=error):
            self.refresh(compute)
        assert [self.aggregates_of(node) for node in nodes] == [{self.uuid}] * 2


A, B, X = (f"{letter * 8}-0000-4000-8000-000000000000" for letter in "abc")
(MARK,), (OTHER,) = zones.marks([A]), zones.marks([B])


@pytest.mark.parametrize(
    ("of_host", "is_first", "present", "aggregates"),
    [
        ({A}, False, {X}, {A, MARK, X}),
        ({A}, False, {A}, {A}),
        ({A}, True, {A}, {A, MARK}),
        (set(), False, {A, MARK, X}, {X}),
        (set(), False, {A}, {A}),
        (set(), True, {MARK}, set()),
        ({B}, False, {A, MARK, B}, {B}),
        (None, False, {A, OTHER}, {A, OTHER}),
    ],
)
def test_what_a_provider_is_in(of_host, is_first, present, aggregates) -> None:
    state = zones.State(None if of_host is None else frozenset(of_host), is_first)
    assert state.aggregates(frozenset(present)) == aggregates
    # The next pass changes nothing.
    assert state.aggregates(frozenset(aggregates)) == aggregates
