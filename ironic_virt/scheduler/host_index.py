# SPDX-License-Identifier: Apache-2.0

"""``HostIndex``: the free compute nodes of a long-lived scheduler, in memory.

For services that are not this package's: the reference service asks its database.

Free nodes lie in bins of the same resource class, sizes and traits; the bins of a
class are sorted by size.  A request looks at the bins that will do, smallest first,
and takes its first candidates from the services with the fewest instances.  What
that costs depends on how many kinds of nodes there are, and not on how many nodes.

A node that was claimed here stays away until it is released, or until its record
tells of it: with an owner, or written later than the claim.  A pool is offered once,
until its record changes.

Any thread may call anything: each call holds one lock, for as long as it changes or
reads the index, never while filters run.
"""

from __future__ import annotations

import dataclasses
import datetime
import heapq
import itertools
import random
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from ironic_virt.request.spec import placement_class
from ironic_virt.scheduler.bins import Bin, Key, Records, Shelf
from ironic_virt.scheduler.candidates import (
    CandidateQuery,
    ComputeNodeLike,
    is_free,
    is_taken,
)


def _utc_now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


@dataclasses.dataclass(slots=True)
class _Entry:
    record: ComputeNodeLike
    # Where it lies while it is free.
    place: tuple[str, Key] | None = None
    counted: bool = False


class HostIndex:
    """Compute nodes by what they offer; a ``CandidateSource`` and a ``ClaimingSource``.

    :param records: to begin with; see :meth:`update`.
    :param usable_hosts: see :meth:`use_hosts`.
    :param clock: the time in UTC, to be compared with ``updated_at`` of records.
    """

    def __init__(
        self,
        records: Iterable[ComputeNodeLike] = (),
        *,
        usable_hosts: Collection[str] | None = None,
        clock: Callable[[], datetime.datetime] = _utc_now,
    ) -> None:
        self._lock = threading.Lock()
        self._clock = clock
        self._entries: dict[str, _Entry] = {}
        self._shelves: dict[str, Shelf] = {}
        self._instances: Counter[str] = Counter()
        self._claims: dict[str, tuple[str, datetime.datetime]] = {}
        self._usable: frozenset[str] | None = None
        self.use_hosts(usable_hosts)
        self.update(records)

    # what there is

    def update(self, records: Iterable[ComputeNodeLike]) -> None:
        """Take in records that are new or have changed; others stay as they are."""
        with self._lock:
            for record in records:
                self._put(record)

    def replace(self, records: Iterable[ComputeNodeLike]) -> None:
        """Take in all records that there are; nodes without one go."""
        with self._lock:
            gone = set(self._entries)
            for record in records:
                gone.discard(record.uuid)
                self._put(record)
            for uuid in gone:
                self._drop(uuid)

    def remove(self, nodes: Iterable[str]) -> None:
        """Forget nodes; one that isn't known is none."""
        with self._lock:
            for uuid in nodes:
                self._drop(uuid)

    def use_hosts(self, hosts: Collection[str] | None) -> None:
        """Say which compute services are up and enabled; ``None``: all of them.

        Nodes of the others are not offered.
        """
        with self._lock:
            self._usable = None if hosts is None else frozenset(hosts)

    # a ClaimingSource

    def claim(self, node: str, owner: str) -> bool:
        """See :class:`~ironic_virt.scheduler.candidates.ClaimingSource`."""
        with self._lock:
            entry = self._entries.get(node)
            if entry is None or entry.place is None:
                return False
            self._claims[node] = (owner, self._clock())
            self._settle(entry)
            return True

    def release(self, node: str, owner: str) -> None:
        """See :class:`~ironic_virt.scheduler.candidates.ClaimingSource`."""
        with self._lock:
            if self._claims.get(node, ("", None))[0] == owner:
                self._claims.pop(node, None)
            if entry := self._entries.get(node):
                self._settle(entry)

    # a CandidateSource

    def batches(
        self, query: CandidateQuery, size: int, rng: random.Random
    ) -> Iterator[Sequence[ComputeNodeLike]]:
        """See :class:`~ironic_virt.scheduler.candidates.CandidateSource`.

        What changes meanwhile may or may not be seen.
        """
        with self._lock:
            first = list(itertools.islice(self._spread(query, size, rng), size))
        if not first:
            return
        yield first
        # Rarely asked for: then a list of them all is cheaper than to keep one's place
        # among bins that change.
        seen = {record.uuid for record in first}
        with self._lock:
            rest = [
                record.uuid
                for bin_ in self._matching(query)
                for _, records in self._usable_in(bin_)
                for record in records.records
                if record.uuid not in seen and record.uuid not in query.exclude
            ]
        for begin in range(0, len(rest), size):
            with self._lock:
                entries = [self._entries.get(uuid) for uuid in rest[begin : begin + size]]
                batch = [entry.record for entry in entries if entry and entry.place]
            if batch:
                yield batch

    def counts(self, queries: Sequence[CandidateQuery]) -> Sequence[int]:
        """See :class:`~ironic_virt.scheduler.candidates.CandidateSource`."""
        return [self.count(query) for query in queries]

    def count(self, query: CandidateQuery) -> int:
        """How many candidates a query has."""
        with self._lock:
            found = sum(
                len(records.records)
                for bin_ in self._matching(query)
                for _, records in self._usable_in(bin_)
            )
            return found - sum(self._is_offered(uuid, query) for uuid in query.exclude)

    def known(self) -> int:
        """See :class:`~ironic_virt.scheduler.candidates.CandidateSource`."""
        return len(self._entries)

    def instances_by_host(self) -> Mapping[str, int]:
        """See :class:`~ironic_virt.scheduler.candidates.CandidateSource`."""
        with self._lock:
            return dict(self._instances)

    # under the lock

    def _put(self, record: ComputeNodeLike) -> None:
        claim = self._claims.get(record.uuid)
        if claim and (is_taken(record) or _later(record, claim[1])):
            del self._claims[record.uuid]
        entry = self._entries.get(record.uuid)
        if entry is None:
            entry = self._entries[record.uuid] = _Entry(record)
        else:
            self._clear(entry)
            entry.record = record
        self._settle(entry)

    def _drop(self, uuid: str) -> None:
        entry = self._entries.pop(uuid, None)
        if entry:
            self._clear(entry)
            self._claims.pop(uuid, None)

    def _settle(self, entry: _Entry) -> None:
        """Put an entry where it belongs as of its record and its claim."""
        self._clear(entry)
        record = entry.record
        claimed = record.uuid in self._claims
        if claimed or is_taken(record):
            entry.counted = True
            self._instances[record.host] += 1
        if claimed or not is_free(record):
            return
        name = placement_class(record.resource_class) if record.resource_class else ""
        traits = tuple(sorted(record.traits))
        key = (record.memory_mb, record.vcpus, record.local_gb, len(traits), traits)
        shelf = self._shelves.get(name)
        if shelf is None:
            shelf = self._shelves[name] = Shelf()
        shelf.add(key, record)
        entry.place = (name, key)

    def _clear(self, entry: _Entry) -> None:
        """Take an entry from where it lies."""
        record = entry.record
        if entry.counted:
            entry.counted = False
            self._instances[record.host] -= 1
            if not self._instances[record.host]:
                del self._instances[record.host]
        if entry.place is None:
            return
        name, key = entry.place
        entry.place = None
        shelf = self._shelves[name]
        shelf.remove(key, record)
        if not shelf.keys:
            del self._shelves[name]

    def _matching(self, query: CandidateQuery) -> Iterator[Bin]:
        """The bins that will do, smallest first over all classes."""
        if any(span.is_empty for span in (query.memory_mb, query.vcpus, query.local_gb)):
            return
        wanted = query.resource_classes
        names = self._shelves if wanted is None else wanted & self._shelves.keys()
        shelves = [self._shelves[name] for name in sorted(names)]
        if len(shelves) == 1:
            for key in shelves[0].matching(query):
                yield shelves[0].bins[key]
            return
        ways = [
            zip(shelf.matching(query), itertools.repeat(place))
            for place, shelf in enumerate(shelves)
        ]
        for key, place in heapq.merge(*ways):
            yield shelves[place].bins[key]

    def _usable_in(self, bin_: Bin) -> Iterator[tuple[str, Records]]:
        for host, records in bin_.items():
            if self._usable is None or host in self._usable:
                yield host, records

    def _is_offered(self, uuid: str, query: CandidateQuery) -> bool:
        entry = self._entries.get(uuid)
        if entry is None or entry.place is None:
            return False
        name, key = entry.place
        usable = self._usable is None or entry.record.host in self._usable
        return (
            usable
            and query.matches_class(name)
            and query.matches_sizes(*key[:3])
            and query.matches_traits(key[4])
        )

    def _spread(
        self, query: CandidateQuery, size: int, rng: random.Random
    ) -> Iterator[ComputeNodeLike]:
        """Candidates of one bin after the other, from its services by turns.

        :param size: how many the caller will take at most.
        """
        for bin_ in self._matching(query):
            hosts = list(self._usable_in(bin_))
            rng.shuffle(hosts)
            # Sorting is stable: among services with as many instances chance decides.
            by_load = heapq.nsmallest(size, hosts, key=lambda pair: self._instances[pair[0]])
            turns = [
                (records.records, rng.randrange(len(records.records))) for _, records in by_load
            ]
            longest = max((len(records) for records, _ in turns), default=0)
            for turn in range(longest):
                for records, begin in turns:
                    if turn < len(records):
                        record = records[(begin + turn) % len(records)]
                        if record.uuid not in query.exclude:
                            yield record


def _later(record: ComputeNodeLike, moment: datetime.datetime) -> bool:
    updated: datetime.datetime | None = getattr(record, "updated_at", None)
    return updated is not None and updated > moment
