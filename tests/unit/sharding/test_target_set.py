# SPDX-License-Identifier: Apache-2.0

"""Which nodes are this service's, and on which it may act."""

import pytest

from ironic_virt import exceptions
from ironic_virt.baremetal.node import Node
from ironic_virt.sharding import guard
from ironic_virt.sharding.selector import TargetSet

US, THEM = "6d2b4f02-0000-4000-8000-000000000001", "6d2b4f02-0000-4000-8000-000000000002"


def node(**fields: object) -> Node:
    return Node(uuid="a1b2c3d4-0000-4000-8000-000000000000", **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("target", "found", "inside"),
    [
        (TargetSet(), node(conductor_group="x", shard="y"), True),
        (TargetSet(conductor_group=""), node(conductor_group=""), True),
        (TargetSet(conductor_group=""), node(conductor_group="x"), False),
        (TargetSet(conductor_group="rack1"), node(conductor_group="Rack1"), True),
        (TargetSet(conductor_group="rack1"), node(conductor_group=""), False),
        (TargetSet(shard_key="s1"), node(shard="s1"), True),
        (TargetSet(shard_key="s1"), node(shard="S1"), True),
        (TargetSet(shard_key="S1"), node(shard="s1"), True),
        (TargetSet(shard_key="s1"), node(shard=None), False),
        (TargetSet("rack1", "s1"), node(conductor_group="rack1", shard="s2"), False),
        (TargetSet("rack1", "s1"), node(conductor_group="rack2", shard="s1"), False),
        (TargetSet("rack1", "s1"), node(conductor_group="rack1", shard="s1"), True),
    ],
)
def test_a_node_is_inside_when_group_and_shard_both_match(target, found, inside) -> None:
    assert (target.why_outside(found) is None) is inside


@pytest.mark.parametrize(
    ("found", "carries", "error", "says"),
    [
        (node(instance_uuid=THEM), US, exceptions.NodeTaken, THEM),
        (node(instance_uuid=THEM), None, exceptions.NodeTaken, THEM),
        (node(instance_uuid=US), None, exceptions.NodeTaken, US),
        (node(), US, exceptions.NodeNotAvailable, "no longer has the server"),
        (node(instance_uuid=US, shard="s2"), US, exceptions.NodeNotOurs, "'s2'"),
        # A foreign instance is reported before a foreign shard.
        (node(instance_uuid=THEM, shard="s2"), US, exceptions.NodeTaken, THEM),
    ],
)
def test_the_guard_refuses_and_says_why(found, carries, error, says) -> None:
    with pytest.raises(error, match=says) as caught:
        guard.check_node(found, TargetSet(None, "s1"), instance=US, carries=carries)
    assert (caught.value.node, caught.value.instance) == (found.uuid, US)
    assert getattr(caught.value, "owner", says) == says
