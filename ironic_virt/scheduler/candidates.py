# SPDX-License-Identifier: Apache-2.0

"""Where candidates come from: records of compute nodes, narrowed before filters run.

Filters in Python are slow compared to an index, so the enabled filters say as a
:class:`CandidateQuery` what an index can decide for them, and a
:class:`CandidateSource`, which has the index, hands out what is left in batches:
the database, :class:`~ironic_virt.scheduler.host_index.HostIndex` in memory, or
:class:`RecordList`, which has no index at all.
"""

from __future__ import annotations

import dataclasses
import random
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Protocol, runtime_checkable

from ironic_virt.request.spec import placement_class


class ComputeNodeLike(Protocol):
    """A compute node's record: a bare metal node, free or taken as a whole.

    ``vcpus``, ``memory_mb`` (MiB) and ``local_gb`` (GiB) are 0 if not known.

    A pool of nodes that are alike says with attributes ``total``, ``used`` and ``free``
    how many nodes it has, how many of its host's instances have one, and how many more
    instances it takes.  Its sizes are those of each of its nodes, and its ``uuid`` is
    its name.
    """

    @property
    def uuid(self) -> str: ...
    @property
    def host(self) -> str: ...
    @property
    def hypervisor_type(self) -> str: ...
    @property
    def vcpus(self) -> int: ...
    @property
    def memory_mb(self) -> int: ...
    @property
    def local_gb(self) -> int: ...
    @property
    def resource_class(self) -> str | None: ...
    @property
    def traits(self) -> Collection[str]: ...
    @property
    def stats(self) -> Mapping[str, str]: ...
    @property
    def in_use(self) -> bool:
        """Whether an instance has it in Ironic."""

    @property
    def available(self) -> bool:
        """Whether Ironic could deploy on it, as of the last refresh."""

    @property
    def instance_uuid(self) -> str | None:
        """The instance that has claimed it."""


def is_taken(record: ComputeNodeLike) -> bool:
    """Whether an instance has the node, or has claimed it."""
    return record.in_use or record.instance_uuid is not None


def is_free(record: ComputeNodeLike) -> bool:
    """Whether the record may take a further instance."""
    return record.available and not is_taken(record)


def free_nodes(record: ComputeNodeLike) -> int:
    """How many more instances a record that is free may take: of a pool several."""
    return int(getattr(record, "free", 1))


def instances_on(record: ComputeNodeLike) -> int:
    """How many instances a record says that it has."""
    return int(getattr(record, "used", is_taken(record)))


@dataclasses.dataclass(frozen=True, slots=True)
class Span:
    """Which sizes will do, from ``least`` to ``most``, both included.

    :param most: ``None``: no limit.  Less than ``least``: no size will do.
    """

    least: int = 0
    most: int | None = None

    def __contains__(self, size: int) -> bool:
        return self.least <= size and (self.most is None or size <= self.most)

    def __and__(self, other: Span) -> Span:
        bounds = [bound for bound in (self.most, other.most) if bound is not None]
        return Span(max(self.least, other.least), min(bounds) if bounds else None)

    @property
    def is_empty(self) -> bool:
        """Whether no size will do."""
        return self.most is not None and self.most < self.least


@dataclasses.dataclass(frozen=True, slots=True)
class CandidateQuery:
    """What an index decides: a necessary condition, never a sufficient one.

    :param resource_classes: in Placement's form; a record is meant if that form of
        its own is among them.  ``None``: any, or none at all.
    :param vcpus: how many are free; ``memory_mb`` in MiB, ``local_gb`` in GiB.
    :param exclude: uuids of nodes that are not wanted.
    """

    resource_classes: frozenset[str] | None = None
    vcpus: Span = Span()
    memory_mb: Span = Span()
    local_gb: Span = Span()
    required_traits: frozenset[str] = frozenset()
    forbidden_traits: frozenset[str] = frozenset()
    exclude: frozenset[str] = frozenset()

    def matches(self, record: ComputeNodeLike) -> bool:
        """Whether a record that is free fulfils all of it."""
        name = record.resource_class
        return (
            record.uuid not in self.exclude
            and self.matches_class(placement_class(name) if name else "")
            and self.matches_sizes(record.memory_mb, record.vcpus, record.local_gb)
            and self.matches_traits(record.traits)
        )

    def matches_sizes(self, memory_mb: int, vcpus: int, local_gb: int) -> bool:
        """Whether so much that is free will do."""
        return memory_mb in self.memory_mb and vcpus in self.vcpus and local_gb in self.local_gb

    def matches_class(self, resource_class: str) -> bool:
        """Whether a resource class in Placement's form will do; ``""`` is none."""
        return self.resource_classes is None or resource_class in self.resource_classes

    def matches_traits(self, traits: Collection[str]) -> bool:
        """Whether a node's traits will do."""
        return self.required_traits <= set(traits) and self.forbidden_traits.isdisjoint(traits)


class CandidateSource(Protocol):
    """Hands out free compute nodes of services that are up and enabled.

    A source decides resource class, sizes and exclusions of a query.  It may leave
    traits to the filters.
    """

    def batches(
        self, query: CandidateQuery, size: int, rng: random.Random
    ) -> Iterator[Sequence[ComputeNodeLike]]:
        """All candidates of a query, at most ``size`` at a time.

        Lazily: what isn't asked for isn't looked up.  Each candidate comes once,
        small ones first; where that leaves a choice, ``rng`` says where to begin, so
        that several who ask at once don't all want the same node.
        """

    def counts(self, queries: Sequence[CandidateQuery]) -> Sequence[int]:
        """How many candidates each query has; asked for when a request has found no host."""

    def known(self) -> int:
        """How many compute nodes there are, free or not."""

    def instances_by_host(self) -> Mapping[str, int]:
        """How many instances each compute service has; 0 may be left out."""


@runtime_checkable
class ClaimingSource(Protocol):
    """A source that keeps two who ask at once from getting the same node."""

    def claim(self, node: str, owner: str) -> bool:
        """Take a node; ``False``: somebody else has."""

    def release(self, node: str, owner: str) -> None:
        """Give a node back that ``owner`` had taken; harmless if not."""


class RecordList:
    """A source over a list of records, which looks at every one of them.

    :param records: not changed.
    :param usable_hosts: compute services that are up and enabled; ``None``: all.
    """

    def __init__(
        self, records: Iterable[ComputeNodeLike], usable_hosts: Collection[str] | None = None
    ) -> None:
        self._records = list(records)
        self._usable = usable_hosts

    def _matching(self, query: CandidateQuery) -> list[ComputeNodeLike]:
        return [
            record
            for record in self._records
            if is_free(record)
            and (self._usable is None or record.host in self._usable)
            and query.matches(record)
        ]

    def batches(
        self, query: CandidateQuery, size: int, rng: random.Random
    ) -> Iterator[Sequence[ComputeNodeLike]]:
        """See :meth:`CandidateSource.batches`."""
        found = self._matching(query)
        rng.shuffle(found)
        found.sort(key=lambda record: (record.memory_mb, record.vcpus, record.local_gb))
        for begin in range(0, len(found), size):
            yield found[begin : begin + size]

    def count(self, query: CandidateQuery) -> int:
        """How many candidates a query has."""
        return sum(free_nodes(record) for record in self._matching(query))

    def counts(self, queries: Sequence[CandidateQuery]) -> Sequence[int]:
        """See :meth:`CandidateSource.counts`."""
        return [self.count(query) for query in queries]

    def known(self) -> int:
        """See :meth:`CandidateSource.known`."""
        return sum(int(getattr(record, "total", 1)) for record in self._records)

    def instances_by_host(self) -> Mapping[str, int]:
        """See :meth:`CandidateSource.instances_by_host`."""
        found: Counter[str] = Counter()
        for record in self._records:
            found[record.host] += instances_on(record)
        return +found
