# SPDX-License-Identifier: Apache-2.0

"""The nodes at one time, immutable, with indexes for what callers ask.

A snapshot shares with the one before it all that hasn't changed: one node of
100,000 that changes costs no copy of the others.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Iterator, Mapping
from typing import Generic, TypeVar

from ironic_virt.baremetal import states
from ironic_virt.baremetal.node import Node

V = TypeVar("V")

_MOST_CHANGES = 500


class Layered(Mapping[str, V], Generic[V]):
    """An immutable mapping: a large dictionary, and a few changes over it.

    What is new comes last; the rest keeps its place.
    """

    __slots__ = ("_base", "_length", "_over")

    def __init__(self, base: dict[str, V], over: Mapping[str, V | None] | None = None) -> None:
        self._base = base
        self._over: dict[str, V | None] = dict(over or {})
        came = sum(value is not None and key not in base for key, value in self._over.items())
        went = sum(value is None and key in base for key, value in self._over.items())
        self._length = len(base) + came - went

    def changed(self, changes: Mapping[str, V | None]) -> Layered[V]:
        """The same with these values; ``None`` for gone."""
        over = {**self._over, **changes}
        if len(over) <= _MOST_CHANGES:
            return Layered(self._base, over)
        flat = dict(self._base)
        for key, value in over.items():
            if value is None:
                flat.pop(key, None)
            else:
                flat[key] = value
        return Layered(flat)

    def __getitem__(self, key: str) -> V:
        if key in self._over:
            value = self._over[key]
            if value is None:
                raise KeyError(key)
            return value
        return self._base[key]

    def __iter__(self) -> Iterator[str]:
        if not self._over:
            return iter(self._base)
        return self._layers()

    def _layers(self) -> Iterator[str]:
        for key in self._base:
            if key not in self._over or self._over[key] is not None:
                yield key
        for key, value in self._over.items():
            if value is not None and key not in self._base:
                yield key

    def __len__(self) -> int:
        return self._length


def may_be_free(node: Node) -> bool:
    """Whether a node looks free; who takes it asks again."""
    return (
        node.instance_uuid is None
        and node.provision_state in (None, states.AVAILABLE)
        and node.power_state in (states.POWER_ON, states.POWER_OFF)
        and not (node.maintenance or node.retired or node.malformed)
    )


Kind = tuple[str | None, frozenset[str]]
"""A resource class and a set of traits."""


@dataclasses.dataclass(frozen=True, eq=False)
class Snapshot:
    """The nodes at one time.  Immutable.

    :ivar nodes: by uuid, in the order of the list.
    :ivar taken_at: monotonic seconds at which the list began; ``None`` before
        the first one.
    :ivar stale: the last refresh failed, or there was none yet.
    :ivar error: why it is stale, in words.
    """

    nodes: Layered[Node] = dataclasses.field(repr=False)
    taken_at: float | None
    stale: bool
    error: str | None
    _instances: Layered[str] = dataclasses.field(repr=False)

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
        return cls(Layered(by_uuid), taken_at, stale, error, Layered(instances))

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

    @functools.cached_property
    def free(self) -> Mapping[Kind, tuple[Node, ...]]:
        """The nodes that look free, by resource class and traits; made when first asked for."""
        found: dict[Kind, list[Node]] = {}
        for node in self.nodes.values():
            if may_be_free(node):
                found.setdefault((node.resource_class, node.traits), []).append(node)
        return {kind: tuple(nodes) for kind, nodes in found.items()}

    def __len__(self) -> int:
        return len(self.nodes)

    def __contains__(self, uuid: object) -> bool:
        return uuid in self.nodes

    def changed(self, changes: Mapping[str, Node | None]) -> Snapshot:
        """The same with nodes as they are now, ``None`` for gone."""
        instances: dict[str, str | None] = {}
        # All goings before all comings: an instance may have moved between two of them.
        for uuid in changes:
            former = self.nodes.get(uuid)
            instance = former.instance_uuid if former is not None else None
            if instance and self._instances.get(instance) == uuid:
                instances[instance] = None
        for uuid, node in changes.items():
            if node is not None and node.instance_uuid:
                instances[node.instance_uuid] = uuid
        return dataclasses.replace(
            self,
            nodes=self.nodes.changed(changes),
            _instances=self._instances.changed(instances) if instances else self._instances,
        )
