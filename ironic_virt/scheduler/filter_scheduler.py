# SPDX-License-Identifier: Apache-2.0

"""Picks the best of the hosts that pass: filters, then weighers, then a claim.

A source narrows by its index, and a bounded batch of what is left goes through the
filters.  Only when they have rejected a whole batch the next one is looked at, and
so on to the last: what is said to be impossible has been looked for everywhere.

One scheduler serves all threads.  Each call has host states of its own; what keeps
two calls from getting the same node is the source's claim, where it has one
(:class:`~ironic_virt.scheduler.candidates.ClaimingSource`), or whoever writes the
claim down afterwards, who then asks again without that node.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator, Mapping, Sequence

from oslo_config import cfg

from ironic_virt import exceptions
from ironic_virt.request.spec import RequestSpec
from ironic_virt.scheduler.candidates import (
    CandidateQuery,
    CandidateSource,
    ClaimingSource,
    ComputeNodeLike,
)
from ironic_virt.scheduler.filters import BaseHostFilter
from ironic_virt.scheduler.host_manager import IronicHostManager
from ironic_virt.scheduler.host_state import HostState

_LARGEST_BATCH = 1000
_EXAMPLES = 8


class FilterScheduler:
    """Picks hosts for requests.

    :param host_manager: with the filters and weighers.
    :param subset_size: from how many of the best one is chosen at random.
    :param batch_size: how many candidates are looked at together.
    :param rng: breaks ties.
    """

    def __init__(
        self,
        host_manager: IronicHostManager,
        *,
        subset_size: int = 1,
        batch_size: int = 32,
        rng: random.Random | None = None,
    ) -> None:
        self.host_manager = host_manager
        self.subset_size = subset_size
        self.batch_size = batch_size
        self.rng = rng or random.Random()

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts, rng: random.Random | None = None) -> FilterScheduler:
        """A scheduler for bare metal by the ``[scheduler]`` options.

        :raises InvalidConfiguration: an enabled filter or weigher can't be loaded.
        """
        return cls(
            IronicHostManager(conf),
            subset_size=conf.scheduler.host_subset_size,
            batch_size=conf.scheduler.candidate_batch_size,
            rng=rng,
        )

    def select(
        self, spec: RequestSpec, source: CandidateSource, count: int = 1
    ) -> list[HostState]:
        """The best hosts for ``count`` instances, all of them or none.

        Each is consumed by the request, and claimed if the source has claims; then
        the owner is ``spec.instance_uuid``, or ``""``.

        :returns: one host state for each instance; bare metal nodes come once only.
        :raises NoValidHost: there are not enough; claims were released.
        """
        claims = source if isinstance(source, ClaimingSource) else None
        owner = spec.instance_uuid or ""
        search = _Search(self, spec, source, count)
        picked: list[HostState] = []
        try:
            while len(picked) < count and (host := search.best()):
                if claims and not claims.claim(host.nodename, owner):
                    search.drop(host)
                    continue
                host.consume()
                picked.append(host)
                search.consumed(host)
        finally:
            if claims and len(picked) < count:
                for host in picked:
                    claims.release(host.nodename, owner)
        if len(picked) < count:
            raise search.no_valid_host(found=len(picked))
        return picked

    def ranked(self, spec: RequestSpec, source: CandidateSource) -> Iterator[HostState]:
        """All hosts that pass, the best first, for a caller that claims by itself.

        Lazily: who stops at the first one pays for one.  Nothing is claimed.

        :raises NoValidHost: no host passes, or none is left.
        """
        search = _Search(self, spec, source, 1)
        found = 0
        while host := search.best():
            yield host
            search.drop(host)
            found += 1
        raise search.no_valid_host(lost=found)


@dataclasses.dataclass(slots=True)
class _Step:
    """A filter in the order of this request, and what it has left of those looked at.

    :ivar rejected: how many nodes it has rejected that its query lets pass.
    """

    filter: BaseHostFilter
    name: str
    query: CandidateQuery
    narrows: bool
    left: int = 0
    rejected: int = 0
    example: str | None = None


class _Search:
    """One request's way through the candidates."""

    def __init__(
        self, scheduler: FilterScheduler, spec: RequestSpec, source: CandidateSource, count: int
    ) -> None:
        self._manager = scheduler.host_manager
        self._subset = scheduler.subset_size
        self._rng = scheduler.rng
        self._spec = spec
        self._source = source
        self._wanted = count
        self._steps = _steps(self._manager.filters, spec)
        self._counts: Mapping[str, int] = (
            source.instances_by_host() if self._manager.uses_instance_counts else {}
        )
        self._added: dict[str, int] = {}
        query = self._query_of(self._steps[-1] if self._steps else None)
        size = min(max(scheduler.batch_size, count), _LARGEST_BATCH)
        self._batches = source.batches(query, size, self._rng)
        # Hosts that have passed, in the order of their rank; None: to be ranked anew.
        self._pool: list[HostState] = []
        self._ranked = True

    def best(self) -> HostState | None:
        """The best host that is left, which stays in; ``None`` if there is none."""
        while True:
            if not self._ranked:
                self._rank()
            if self._pool:
                break
            batch = next(self._batches, None)
            if batch is None:
                return None
            self._pool = self._passing(batch)
            # Sorting is stable: what weighs the same stays in random order.
            self._rng.shuffle(self._pool)
            self._ranked = False
        if self._subset > 1:
            chosen = self._rng.randrange(min(self._subset, len(self._pool)))
            self._pool.insert(0, self._pool.pop(chosen))
        return self._pool[0]

    def drop(self, host: HostState) -> None:
        """Leave out a host that can't be had."""
        self._pool.remove(host)

    def consumed(self, host: HostState) -> None:
        """Take into account that a host was consumed."""
        self._added[host.host] = self._added.get(host.host, 0) + 1
        if self._wanted == 1:
            return
        for other in self._pool:
            if other.host == host.host:
                other.num_instances += 1
        self._pool = [
            other for other in self._pool if other.host != host.host or self._still_passes(other)
        ]
        self._ranked = False

    def _still_passes(self, host: HostState) -> bool:
        """Return whether a host passes after its service has got another instance."""
        return host.is_free and all(
            step.filter.host_passes(host, self._spec)
            for step in self._steps
            if step.filter.uses_instance_counts
        )

    def no_valid_host(self, found: int = 0, lost: int = 0) -> exceptions.NoValidHost:
        """The error that says, filter by filter, how many hosts were left.

        :param lost: how many had passed and could not be had.
        """
        tried = self._query_of(None)
        queries = [CandidateQuery(), tried, *(step.query for step in self._steps)]
        free, untried, *counts = self._source.counts(queries)
        left: list[tuple[str, str, int]] = []
        if self._spec.exclude_nodes:
            number = len(self._spec.exclude_nodes)
            left.append(("retry", f"without the {number} tried", untried))
        rejected = 0
        for number, step in enumerate(self._steps):
            # Of all that the following filters would not have narrowed away, only
            # the source knows.
            followed = any(later.narrows for later in self._steps[number + 1 :])
            rejected += step.rejected
            count = max(0, counts[number] - rejected) if followed else step.left
            self._warn(step, self._steps[number - 1] if number else None)
            if not count and not any(step.example for step in self._steps):
                step.example = self._example(step, self._steps[number - 1] if number else None)
            left.append((step.name, step.filter.wish(self._spec), count))
        if lost:
            left.append(("claim", f"{lost} were taken meanwhile", 0))
        if found and left and found < left[-1][2]:
            left = self._after_picks(left, found)
        return exceptions.NoValidHost(
            self._spec.instance_uuid,
            self._spec.flavor_name,
            known=self._source.known(),
            free=free,
            left=left,
            examples={step.name: step.example for step in self._steps if step.example},
            wanted=self._wanted,
            found=found,
        )

    def _after_picks(
        self, left: list[tuple[str, str, int]], found: int
    ) -> list[tuple[str, str, int]]:
        """What filters left when those that count instances saw the picked ones, too."""
        counting = {step.name for step in self._steps if step.filter.uses_instance_counts}
        first = next((at for at, step in enumerate(left) if step[0] in counting), len(left))
        rest = [(name, wish, min(count, found)) for name, wish, count in left[first:]]
        return [*left[:first], *rest]

    def _warn(self, step: _Step, before: _Step | None) -> None:
        """Have a filter warn of nodes that the index has ruled out for it."""
        suspects = step.filter.suspects(self._query_of(before), self._spec)
        if suspects is None:
            return
        batch = next(iter(self._source.batches(suspects, _EXAMPLES, self._rng)), ())
        for host in self._manager.host_states(batch):
            step.filter.host_passes(host, self._spec)

    def _query_of(self, step: _Step | None) -> CandidateQuery:
        return step.query if step else CandidateQuery(exclude=self._spec.exclude_nodes)

    def _example(self, step: _Step, before: _Step | None) -> str | None:
        """Why a filter rejects one of those that the index has ruled out for it."""
        query = self._query_of(before)
        for batch in self._source.batches(query, _EXAMPLES, self._rng):
            for host in self._manager.host_states(batch, self._counts):
                if why := step.filter.why_not(host, self._spec):
                    return f"{host.nodename}: {why}"
            break
        return None

    def _passing(self, batch: Sequence[ComputeNodeLike]) -> list[HostState]:
        hosts = self._manager.host_states(batch, self._counts)
        if self._added:
            for host in hosts:
                host.num_instances += self._added.get(host.host, 0)
        hosts = [host for host in hosts if host.is_free]
        for step in self._steps:
            rejected = None
            passing = []
            for host in hosts:
                if step.filter.host_passes(host, self._spec):
                    passing.append(host)
                else:
                    rejected = host
                    step.rejected += host.free_nodes
            if rejected is not None and step.example is None:
                why = step.filter.why_not(rejected, self._spec)
                step.example = f"{rejected.nodename}: {why}"
            hosts = passing
            step.left += sum(host.free_nodes for host in hosts)
        return hosts

    def _rank(self) -> None:
        weighed = self._manager.get_weighed_hosts(self._pool, self._spec)
        self._pool = [one.host for one in weighed]
        self._ranked = True


def _steps(filters: Mapping[str, BaseHostFilter], spec: RequestSpec) -> list[_Step]:
    """The filters in the order in which they run, with the query up to each of them.

    Those that an index decides run first; sizes and resource class, which every
    source decides, before traits.
    """
    nothing = CandidateQuery()

    def order(filter_: BaseHostFilter) -> int:
        alone = filter_.narrow(nothing, spec)
        if alone == nothing:
            return 2
        return 1 if alone.required_traits or alone.forbidden_traits else 0

    query = CandidateQuery(exclude=spec.exclude_nodes)
    steps = []
    ordered = sorted(
        (
            (order(filter_), name, filter_)
            for name, filter_ in filters.items()
            if not spec.is_rebuild or filter_.run_on_rebuild
        ),
        key=lambda item: item[0],
    )
    for place, name, filter_ in ordered:
        query = filter_.narrow(query, spec)
        steps.append(_Step(filter_, name, query, place < 2))
    return steps
