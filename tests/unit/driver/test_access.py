# SPDX-License-Identifier: Apache-2.0

"""Access to nodes: what an error names, and what the inventory learns."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from ironic_virt import exceptions
from ironic_virt.baremetal.node import Node
from ironic_virt.driver.access import NodeAccess
from ironic_virt.testing.fake_ironic import FakeIronic
from tests.unit.driver.stage import INSTANCE, STRANGER, SetStage, Stage


@pytest.fixture
def access(stage: Stage) -> NodeAccess:
    return stage.driver._site.access


@pytest.mark.parametrize("ask", ["held", "still_held"])
def test_an_error_names_the_server_and_the_node(
    stage: Stage, access: NodeAccess, node: str, ask: str
) -> None:
    instance = stage.instance(node)

    def look(where: str) -> None:
        found = getattr(access, ask)(instance, where)
        if ask == "still_held":
            found()

    with pytest.raises(exceptions.NodeNotAvailable, match="no such node") as gone:
        look(STRANGER)
    assert (gone.value.node, gone.value.instance) == (STRANGER, INSTANCE)
    with pytest.raises(exceptions.NodeNotAvailable) as free:
        look(node)
    assert (free.value.node, free.value.instance) == (node, INSTANCE)


def whole(node: Node) -> Node:
    return node


def in_part(node: Node) -> Node:
    return msgspec.structs.replace(node, instance_info=None)


@pytest.mark.parametrize("seen", [whole, in_part, None])
def test_what_was_seen_of_a_node_is_noted_and_read_again_only_where_a_part_was_shown(
    stage: Stage,
    access: NodeAccess,
    fake: FakeIronic,
    node: str,
    seen: Callable[[Node], Node] | None,
) -> None:
    stage.refresh()
    fake.set_node(node, maintenance=True)
    shown = None if seen is None else seen(access.fresh(node))
    fake.requests.clear()
    noted = access.note_seen(shown, node)
    assert noted is not None
    assert noted.is_whole
    assert stage.driver._site.nodes.inventory.snapshot.nodes[node].maintenance
    assert len(fake.requests) == (0 if seen is whole else 1)


def test_what_can_not_be_read_again_is_not_noted(
    set_stage: SetStage, fake: FakeIronic, node: str
) -> None:
    stage = set_stage(fake, api_max_retries=0)
    stage.refresh()
    fake.faults.status(503)
    assert stage.driver._site.access.note_seen(None, node) is None
    assert node in stage.driver._site.nodes.inventory.snapshot.nodes


@pytest.mark.parametrize("server", [None, INSTANCE], ids=["free", "with a server"])
@pytest.mark.parametrize("shard", ["ours", "theirs"])
def test_only_a_free_node_that_has_left_the_shard_is_forgotten(
    set_stage: SetStage, fake: FakeIronic, shard: str, server: str | None
) -> None:
    stage = set_stage(fake, shard_key="ours")
    node = fake.add_node(shard="ours", resource_class="gold")
    stage.refresh()
    fake.set_node(node, shard=shard, instance_uuid=server)
    access = stage.driver._site.access
    access.note(access.fresh(node))
    kept = stage.driver._site.nodes.inventory.snapshot.nodes
    assert (node in kept) is (shard == "ours" or server is not None)
