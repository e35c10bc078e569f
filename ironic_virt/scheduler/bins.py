# SPDX-License-Identifier: Apache-2.0

"""Free compute nodes in bins: what is alike in sizes and traits lies together.

The structure under :class:`~ironic_virt.scheduler.host_index.HostIndex`, which holds
the lock: nothing here is safe to use from several threads.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator

from ironic_virt.scheduler.candidates import CandidateQuery, ComputeNodeLike

Key = tuple[int, int, int, int, tuple[str, ...]]
"""Free memory, cores and disk, the number of traits, the traits."""
_Sizes = tuple[int, ...]
_ENDLESS = 2**63


class Records:
    """Records of one host in one bin: any of them in no time, by number or by uuid."""

    __slots__ = ("_places", "records")

    def __init__(self) -> None:
        self.records: list[ComputeNodeLike] = []
        self._places: dict[str, int] = {}

    def add(self, record: ComputeNodeLike) -> None:
        """Put a record in that isn't there."""
        self._places[record.uuid] = len(self.records)
        self.records.append(record)

    def remove(self, uuid: str) -> None:
        """Take a record out that is there."""
        place = self._places.pop(uuid)
        last = self.records.pop()
        if last.uuid != uuid:
            self.records[place] = last
            self._places[last.uuid] = place


Bin = dict[str, Records]
"""Host to its records in the bin; no host without any."""


class Shelf:
    """The bins of one resource class, and their keys in order."""

    __slots__ = ("bins", "keys")

    def __init__(self) -> None:
        self.bins: dict[Key, Bin] = {}
        self.keys: list[Key] = []

    def add(self, key: Key, record: ComputeNodeLike) -> None:
        """Put a record into the bin of a key."""
        bin_ = self.bins.get(key)
        if bin_ is None:
            bin_ = self.bins[key] = {}
            bisect.insort(self.keys, key)
        records = bin_.get(record.host)
        if records is None:
            records = bin_[record.host] = Records()
        records.add(record)

    def remove(self, key: Key, record: ComputeNodeLike) -> None:
        """Take a record out of the bin of a key, in which it is."""
        bin_ = self.bins[key]
        records = bin_[record.host]
        records.remove(record.uuid)
        if not records.records:
            del bin_[record.host]
        if not bin_:
            del self.bins[key]
            del self.keys[bisect.bisect_left(self.keys, key)]

    def matching(self, query: CandidateQuery) -> Iterator[Key]:
        """The keys of the bins that will do, smallest first."""
        low, high = _bounds(query)
        for place in range(bisect.bisect_left(self.keys, low), len(self.keys)):
            key = self.keys[place]
            if key[:3] > high:
                return
            if query.matches_sizes(*key[:3]) and query.matches_traits(key[4]):
                yield key


def _bounds(query: CandidateQuery) -> tuple[_Sizes, _Sizes]:
    """The least and the greatest sizes that will do, in the order of the keys."""
    spans = (query.memory_mb, query.vcpus, query.local_gb)
    low = tuple(span.least for span in spans)
    high = tuple(_ENDLESS if span.most is None else span.most for span in spans)
    return low, high
