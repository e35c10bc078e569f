# SPDX-License-Identifier: Apache-2.0

"""One node's providers instead of all: what is written is what Nova writes."""

from typing import Any

import pytest
from nova import exception
from nova.scheduler.client import report

from ironic_virt.nova.subtree import NodeReportClient

NODES = ["n1", "n2", "n3"]
INVENTORY = {"CUSTOM_GOLD": {"total": 1}}


class Client(report.SchedulerReportClient):
    """Nova's, with a cache that is never stale, which notes what it would send."""

    def __init__(self) -> None:
        super().__init__(adapter=self)
        self.sent: list[tuple[Any, ...]] = []
        self.error: Exception | None = None
        for name in NODES:
            self._provider_tree.new_root(name, name, generation=1)
            self._provider_tree.update_inventory(name, INVENTORY)

    def _ensure_resource_provider(self, *args: Any, **kwargs: Any) -> None:
        self.sent.append(("ensure", args[1]))

    def set_inventory_for_provider(self, context: Any, uuid: str, inventory: Any) -> None:
        if self.error is not None:
            raise self.error
        self.sent.append(("inventory", uuid, inventory))

    def set_traits_for_provider(self, context: Any, uuid: str, traits: Any, **more: Any) -> None:
        self.sent.append(("traits", uuid, traits))

    def set_aggregates_for_provider(self, *args: Any, **kwargs: Any) -> None:
        self.sent.append(("aggregates", args[1], args[2]))

    def _delete_provider(self, uuid: str, *args: Any) -> None:
        self.sent.append(("delete", uuid))

    def _set_up_and_do_reshape(self, context: Any, old: Any, new: Any, allocations: Any) -> None:
        self.sent.append(("reshape", sorted(new.get_provider_uuids()), allocations))

    def _refresh_and_get_inventory(self, *args: Any) -> None:
        """Asks Placement."""


@pytest.fixture
def client() -> Client:
    return Client()


CONTEXT = object()


def tree_of(client: Client, node: str = "n2") -> Any:
    tree = NodeReportClient(client).get_provider_tree_and_ensure_root(CONTEXT, node, name=node)
    client.sent.clear()
    return tree


def test_a_node_sees_a_copy_of_its_own_providers(client: Client) -> None:
    own = NodeReportClient(client)
    tree = own.get_provider_tree_and_ensure_root(CONTEXT, "n2", name="n2")
    assert client.sent == [("ensure", "n2")]
    assert tree.get_provider_uuids() == ["n2"]
    tree.update_traits("n2", ["A"])
    assert own._provider_tree.data("n2").traits == set()


def test_what_is_written_is_of_this_node(client: Client) -> None:
    tree = tree_of(client)
    tree.update_traits("n2", ["A"])
    NodeReportClient(client).update_from_provider_tree(CONTEXT, tree)
    assert client.sent == [
        ("inventory", "n2", INVENTORY),
        ("aggregates", "n2", set()),
        ("traits", "n2", {"A"}),
    ]


def test_providers_that_come_are_compared_with_all(client: Client) -> None:
    tree = tree_of(client)
    tree.new_child("c1", "n2", uuid="c1")
    client._ensure_resource_provider = lambda *args, **kwargs: client._provider_tree.new_child(
        "c1", "n2", uuid="c1", generation=0
    )
    NodeReportClient(client).update_from_provider_tree(CONTEXT, tree)
    assert {line[1] for line in client.sent if line[0] == "inventory"} == {*NODES, "c1"}
    assert not [line for line in client.sent if line[0] == "delete"]


def test_a_reshape_is_compared_with_all(client: Client) -> None:
    NodeReportClient(client).update_from_provider_tree(CONTEXT, tree_of(client), {"s1": {}})
    assert client.sent[0] == ("reshape", NODES, {"s1": {}})


def test_a_cache_that_was_cleared_meanwhile(client: Client) -> None:
    tree = tree_of(client)
    client.clear_provider_cache()
    client._ensure_resource_provider = lambda *args, **kwargs: client._provider_tree.new_root(
        "n2", "n2", generation=1
    )
    NodeReportClient(client).update_from_provider_tree(CONTEXT, tree)
    assert ("inventory", "n2", INVENTORY) in client.sent


@pytest.mark.parametrize(
    ("error", "seen"),
    [
        (
            exception.ResourceProviderUpdateConflict(uuid="n2", generation=1, error=""),
            exception.ResourceProviderUpdateConflict,
        ),
        (
            exception.ResourceProviderUpdateFailed(url="", error=""),
            exception.ResourceProviderSyncFailed,
        ),
    ],
)
def test_an_error_is_novas_and_forgets_this_node(client, error, seen) -> None:
    tree = tree_of(client)
    client.error = error
    with pytest.raises(seen):
        NodeReportClient(client).update_from_provider_tree(CONTEXT, tree)
    assert client._provider_tree.get_provider_uuids() == ["n1", "n3"]
