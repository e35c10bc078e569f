# SPDX-License-Identifier: Apache-2.0

"""Snapshots that grow out of each other know what one made again would know."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ironic_virt.baremetal.inventory import snapshot as snapshots
from ironic_virt.baremetal.inventory.snapshot import Kind, Snapshot
from ironic_virt.baremetal.node import Node

UUIDS = [f"node-{number}" for number in range(8)]
INSTANCES = [f"instance-{number}" for number in range(3)]
FREE = {"provision_state": "available", "power_state": "power on"}


def nodes_of(uuid: str) -> st.SearchStrategy[Node]:
    return st.builds(
        Node,
        uuid=st.just(uuid),
        resource_class=st.sampled_from(["gold", "silver"]),
        traits=st.sampled_from([frozenset(), frozenset(["CUSTOM_GPU"])]),
        provision_state=st.sampled_from(["available", "available", "active"]),
        power_state=st.sampled_from(["power on", "power off", None]),
        instance_uuid=st.sampled_from([None, None, *INSTANCES]),
        maintenance=st.booleans(),
    )


Step = tuple[dict[str, Node | None], bool]
STEPS = st.lists(
    st.tuples(
        st.fixed_dictionaries({}, optional={u: st.none() | nodes_of(u) for u in UUIDS}),
        st.booleans(),
    ),
    max_size=12,
)


def kinds(snapshot: Snapshot) -> dict[Kind, set[str]]:
    """The free nodes' uuids; that none is there twice is seen on the way."""
    found = {}
    for kind, nodes in snapshot.free.items():
        assert len(nodes) == len({node.uuid for node in nodes}) > 0
        assert all(snapshot.get(node.uuid) is node for node in nodes)
        found[kind] = {node.uuid for node in nodes}
    return found


@example(steps=[({u: Node(uuid=u, **FREE) for u in UUIDS}, False), ({UUIDS[0]: None}, True)])
@given(steps=STEPS)
def test_a_changed_snapshot_is_like_one_made_of_the_same_nodes(steps: list[Step]) -> None:
    model: dict[str, Node] = {}
    former: list[tuple[Snapshot, dict[str, Node]]] = []
    snapshot = Snapshot.of(())
    for changes, asked in steps:
        if asked:
            # From here on the index is kept up to date and not made again.
            kinds(snapshot)
        former.append((snapshot, dict(model)))
        snapshot = snapshot.changed(changes)
        for uuid, node in changes.items():
            if node is None:
                model.pop(uuid, None)
            else:
                model[uuid] = node
        assert list(snapshot.nodes.items()) == list(model.items())
        assert len(snapshot) == len(model)
        assert all(snapshot.get(uuid) == model.get(uuid) for uuid in UUIDS)
        assert kinds(snapshot) == kinds(Snapshot.of(model.values()))
    for snapshot, then in former:
        assert snapshot.nodes == then, "readers keep what they hold"


@pytest.mark.parametrize(
    ("fields", "free"),
    [
        ({}, True),
        ({"provision_state": ""}, False),
        ({"power_state": "power on"}, True),
        ({"instance_uuid": INSTANCES[0]}, False),
        ({"provision_state": "active"}, False),
        ({"power_state": None}, False),
        ({"power_state": "error"}, False),
        ({"maintenance": True}, False),
        ({"retired": True}, False),
        ({"malformed": ("power_state",)}, False),
        ({"instance_uuid": INSTANCES[0], "power_state": None}, False),
    ],
    ids=str,
)
def test_each_thing_that_keeps_a_node_from_being_free_does(fields, free) -> None:
    whole = {"provision_state": "available", "power_state": "power off", "resource_class": "gold"}
    node = Node(uuid="a", **whole | fields)
    assert snapshots.may_be_free(node) is free
    assert bool(Snapshot.of([node]).free) is free


def test_only_kinds_that_a_change_touches_are_made_anew() -> None:
    gold = [Node(uuid=uuid, resource_class="gold", **FREE) for uuid in UUIDS]
    silver = Node(uuid="s", resource_class="silver", **FREE)
    former = Snapshot.of([*gold, silver])
    untouched = former.free["gold", frozenset()]
    later = former.changed({"s": None})
    assert later.free == {("gold", frozenset()): untouched}
    assert later.free["gold", frozenset()] is untouched
