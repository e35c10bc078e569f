# SPDX-License-Identifier: Apache-2.0

"""Two compute services that share Ironic's nodes, by shards or by conductor groups."""

from collections.abc import Iterator
from typing import Any

import pytest
from nova import exception

from tests.nova import figures
from tests.nova.services import Services
from tools import real_ironic

COUNT = 2
HOSTS = ("compute-a", "compute-b")


@pytest.fixture(scope="module")
def two_groups(progress) -> Iterator[real_ironic.RealIronic]:
    """A real Ironic with a conductor in the default group and one in another."""
    options = real_ironic.Options(further_groups=["rack1"])
    with real_ironic.RealIronic(
        options, database=real_ironic.MARIADB, progress=progress
    ) as ironic:
        yield ironic


class Parts(Services):
    """What both drivers go through, by shards or by groups.

    :cvar field: of a node, which says what part it is in.
    :cvar parts: of compute-a and of compute-b.
    """

    field: str
    parts: tuple[str, str]

    def options(self, host: str, part: str) -> dict[str, Any]:
        """The options of a part's compute service."""
        return {self.field: part}

    def make_strangers(self) -> list[str]:
        """Nodes that are nobody's."""
        return []

    def setUp(self) -> None:
        super().setUp()
        self.start_nova(self._real)
        self.nodes = {
            host: self.make_nodes(COUNT, **{self.field: part})
            for host, part in zip(HOSTS, self.parts, strict=True)
        }

    def start(self) -> None:
        self.a, self.b = (
            self.start_compute(host, **self.options(host, part))
            for host, part in zip(HOSTS, self.parts, strict=True)
        )

    def test_each_service_has_the_nodes_of_its_part(self) -> None:
        strangers = self.make_strangers()
        self.start()
        whose = {node: host for host, nodes in self.nodes.items() for node in nodes}
        assert self.hosts() == whose
        servers = [self.boot(f"server-{number}") for number in range(len(whose))]
        for server in servers:
            self.wait_for(server, "ACTIVE")
        assert {self.node_of(server): self.host_of(server) for server in servers} == whose
        assert {self.node(node)["instance_uuid"] for node in strangers} <= {None}
        refused = self.wait_for(self.boot("one too many"), "ERROR")
        assert "No valid host" in refused["fault"]["message"]
        self.refresh(self.a, self.b)
        assert self.hosts() == whose
        for server in servers:
            self.delete(server)
        for node in whose:
            self.wait_for_node(node, "available")


class Shards(Parts, field="shard", parts=("a", "b")):
    """A shard for each."""

    def make_strangers(self) -> list[str]:
        return [*self.make_nodes(1, shard="c"), *self.make_nodes(1)]

    def hand_over(self, node: str) -> None:
        """What an operator does for compute-b to have a node that is in its shard now."""

    def test_a_node_that_moves_to_the_other_shard_is_booted_there(self) -> None:
        self.start()
        before = self.record_ids()
        node = self.nodes["compute-a"][0]
        self.set_on_node(node, shard="b")
        self.refresh(self.a, self.b)
        self.refresh(self.a, self.b)
        # No record is ever deleted, whichever host has it meanwhile.
        assert self.record_ids() == before
        self.hand_over(node)
        assert self.record_ids() == before
        assert self.hosts()[node] == "compute-b"
        server = self.boot_at("compute-b", node)
        self.refresh(self.a, self.b)
        assert self.hosts()[node] == "compute-b"
        self.delete_and_free(server)


class Groups(Parts, given="two_groups", field="conductor_group", parts=("", "rack1")):
    """A conductor group for each; one of them has the default group."""


class TestShardsInTree(Shards, driver=figures.IN_TREE):
    """Nova's own driver: a node moves by itself."""


class TestShards(Shards, driver=figures.OURS):
    """Ours: nothing moves by itself."""

    def options(self, host: str, part: str) -> dict[str, Any]:
        # Ironic on MariaDB lists a shard's nodes however it is spelt.
        return {"shard": part.upper()}

    def hand_over(self, node: str) -> None:
        assert self.hosts()[node] == "compute-a"
        for compute in (self.a, self.b):
            assert node not in compute.manager.driver.get_available_nodes()
        # Nova's command demands that the service is forced down.
        self.force_down("compute-a")
        self.move(node, "compute-b")
        self.force_down("compute-a", False)
        self.refresh(self.a, self.b)
        assert node in self.b.manager.driver.get_available_nodes()


class TestGroupsInTree(Groups, driver=figures.IN_TREE):
    """Nova's own driver, which needs a ``peer_list`` with a conductor group."""

    def options(self, host: str, part: str) -> dict[str, Any]:
        return {"conductor_group": part, "peer_list": [host]}

    def test_a_group_without_a_peer_list_is_refused(self) -> None:
        with pytest.raises(exception.InvalidPeerList):
            self.start_compute("compute-a", conductor_group="")


@pytest.mark.seldom
class TestGroups(Groups, driver=figures.OURS):
    """Ours."""
