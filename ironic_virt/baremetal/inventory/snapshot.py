# SPDX-License-Identifier: Apache-2.0

"""The nodes at one time: immutable, indexed by node, by instance and by kind.

A snapshot shares its nodes with the one before it, but for those that have changed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import TypeVar

from ironic_virt.baremetal import states
from ironic_virt.baremetal.node import Node

V = TypeVar("V")


def may_be_free(node: Node) -> bool:
    """Whether a node looks free; a deployment reads it again."""
    return (
        node.instance_uuid is None
        and node.provision_state == states.AVAILABLE
        and node.power_state in (states.POWER_ON, states.POWER_OFF)
        and not (node.maintenance or node.retired or node.malformed)
    )


Kind = tuple[str | None, frozenset[str]]
"""A resource class and a set of traits."""


class FreeNodes:
    """The nodes that look free, by kind; made when first asked for, then kept up to date."""

    __slots__ = ("_found", "_nodes")

    def __init__(
        self, nodes: Mapping[str, Node], found: dict[Kind, tuple[Node, ...]] | None = None
    ) -> None:
        self._nodes = nodes
        self._found = found

    def by_kind(self) -> Mapping[Kind, tuple[Node, ...]]:
        """The nodes of each kind that has any; not to be changed."""
        # Two threads may make it at once, and make the same.
        if self._found is None:
            self._found = _by_kind(self._nodes.values())
        return self._found

    def changed(self, nodes: Mapping[str, Node], changes: Mapping[str, Node | None]) -> FreeNodes:
        """The free nodes after ``changes``, which ``nodes`` includes already."""
        kinds_before = self._found
        if kinds_before is None:
            return FreeNodes(nodes)
        came = _by_kind(node for node in changes.values() if node is not None)
        known = [self._nodes.get(uuid) for uuid in changes]
        touched = came.keys() | _by_kind(node for node in known if node is not None).keys()
        kinds = dict(kinds_before)
        for kind in touched:
            stay = (node for node in kinds_before.get(kind, ()) if node.uuid not in changes)
            kinds[kind] = (*stay, *came.get(kind, ()))
            if not kinds[kind]:
                del kinds[kind]
        return FreeNodes(nodes, kinds)


def _by_kind(nodes: Iterable[Node]) -> dict[Kind, tuple[Node, ...]]:
    kinds: dict[Kind, list[Node]] = {}
    for node in nodes:
        if may_be_free(node):
            kinds.setdefault((node.resource_class, node.traits), []).append(node)
    return {kind: tuple(members) for kind, members in kinds.items()}


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """The nodes at one time.  Immutable.

    :ivar nodes: by uuid, in the order of the list.
    :ivar taken_at: monotonic seconds at which the list began; ``None`` before
        the first one.
    :ivar stale: the last refresh failed, or there was none yet.
    :ivar error: why it is stale, in words.
    """

    nodes: Mapping[str, Node] = dataclasses.field(repr=False)
    taken_at: float | None
    stale: bool
    error: str | None
    _instances: Mapping[str, str] = dataclasses.field(repr=False)
    _free: FreeNodes = dataclasses.field(repr=False)

    @classmethod
    def of(
        cls,
        nodes: Iterable[Node],
        taken_at: float | None = None,
        *,
        stale: bool = False,
        error: str | None = None,
    ) -> Snapshot:
        """A snapshot of these nodes."""
        by_uuid = {node.uuid: node for node in nodes}
        instances = {
            node.instance_uuid: node.uuid for node in by_uuid.values() if node.instance_uuid
        }
        return cls(by_uuid, taken_at, stale, error, instances, FreeNodes(by_uuid))

    def by_instance(self, instance_uuid: str) -> Node | None:
        """The node that carries an instance."""
        uuid = self._instances.get(instance_uuid)
        return None if uuid is None else self.nodes[uuid]

    @property
    def instance_uuids(self) -> list[str]:
        """The instances on these nodes."""
        return list(self._instances)

    def get(self, uuid: str) -> Node | None:
        """A node by its uuid."""
        return self.nodes.get(uuid)

    @property
    def free(self) -> Mapping[Kind, tuple[Node, ...]]:
        """The nodes that look free, by resource class and traits; not to be changed."""
        return self._free.by_kind()

    def __len__(self) -> int:
        return len(self.nodes)

    def __contains__(self, uuid: object) -> bool:
        return uuid in self.nodes

    def changed(self, changes: Mapping[str, Node | None]) -> Snapshot:
        """A snapshot with some nodes replaced; ``None`` stands for a node that is gone."""
        instances: dict[str, str | None] = {}
        # All goings before all comings: an instance may have moved between two of them.
        for uuid in changes:
            node_before = self.nodes.get(uuid)
            instance = node_before.instance_uuid if node_before is not None else None
            if instance and self._instances.get(instance) == uuid:
                instances[instance] = None
        for uuid, node in changes.items():
            if node is not None and node.instance_uuid:
                instances[node.instance_uuid] = uuid
        nodes = _changed(self.nodes, changes)
        return dataclasses.replace(
            self,
            nodes=nodes,
            _free=self._free.changed(nodes, changes),
            _instances=_changed(self._instances, instances) if instances else self._instances,
        )


def _changed(values: Mapping[str, V], changes: Mapping[str, V | None]) -> dict[str, V]:
    """A copy with changes, ``None`` for gone.  What is new comes last."""
    changed = dict(values)
    for key, value in changes.items():
        if value is None:
            changed.pop(key, None)
        else:
            changed[key] = value
    return changed
