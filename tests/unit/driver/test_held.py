# SPDX-License-Identifier: Apache-2.0

"""The node that carries an instance, held for an action; and what the inventory learns."""

import msgspec
import pytest

from ironic_virt import exceptions
from ironic_virt.driver.held import Held
from ironic_virt.testing.fake_ironic import FakeIronic
from tests.unit.driver.stage import INSTANCE, STRANGER, Stage


@pytest.fixture
def held(stage: Stage, node: str) -> Held:
    """The node, with a server on it."""
    return Held.of(stage.driver._site, stage.active(node))


def test_an_error_names_the_server_and_the_node(held: Held, fake: FakeIronic, node: str) -> None:
    fake.set_node(node, instance_uuid=None)
    with pytest.raises(exceptions.NodeNotAvailable) as free:
        held.refresh()
    assert (free.value.node, free.value.instance) == (node, INSTANCE)
    fake.remove_node(node)
    with pytest.raises(exceptions.NodeNotAvailable, match="no such node") as gone:
        held.refresh()
    assert (gone.value.node, gone.value.instance) == (node, INSTANCE)


def test_only_a_node_that_carries_the_server_is_held(held, stage, fake) -> None:
    site, instance = stage.driver._site, held.instance
    with pytest.raises(exceptions.NodeNotAvailable):
        Held(site, instance, site.nodes.read(fake.add_node()))
    with pytest.raises(exceptions.NodeTaken, match=STRANGER):
        Held(site, instance, site.nodes.read(fake.add_node(instance_uuid=STRANGER)))


def test_a_part_that_a_wait_has_shown_may_have_to_do(held, fake) -> None:
    part = msgspec.structs.replace(held.node, instance_info=None)
    held.note(part)
    assert held.node.is_whole
    fake.faults.status(503, "GET", count=None)
    held.note(part)
    assert held.node == part


# -- what the inventory learns ----------------------------------------------------


@pytest.mark.parametrize("shown", ["all", "a part", "nothing"])
def test_a_seen_node_is_noted_and_read_again_if_shown_in_part(stage, fake, node, shown) -> None:
    stage.refresh()
    fake.set_node(node, maintenance=True)
    nodes = stage.driver._site.nodes
    seen = None if shown == "nothing" else nodes.read(node)
    if seen and shown == "a part":
        seen = msgspec.structs.replace(seen, instance_info=None)
    fake.requests.clear()
    noted = nodes.note_seen(seen, node)
    assert noted is not None
    assert noted.is_whole
    assert nodes.inventory.snapshot.nodes[node].maintenance
    assert len(fake.requests) == (0 if shown == "all" else 1)


@pytest.mark.parametrize("server", [None, INSTANCE], ids=["free", "with a server"])
@pytest.mark.parametrize("shard", ["ours", "theirs"])
def test_only_a_free_node_that_has_left_the_shard_is_forgotten(set_stage, fake, shard, server):
    stage = set_stage(fake, shard_key="ours")
    node = fake.add_node(shard="ours", resource_class="gold")
    stage.refresh()
    fake.set_node(node, shard=shard, instance_uuid=server)
    nodes = stage.driver._site.nodes
    nodes.note(nodes.read(node))
    kept = nodes.inventory.snapshot.nodes
    assert (node in kept) is (shard == "ours" or server is not None)
