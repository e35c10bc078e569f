# SPDX-License-Identifier: Apache-2.0

"""Picks the best of the hosts that pass all filters.

One scheduler serves all threads, and each call makes new host states.  So two calls may
pick the same node.  The caller writes a claim for what it got, and calls again with fresh records
if another caller was first.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from oslo_config import cfg

from ironic_virt import exceptions
from ironic_virt.request.spec import RequestSpec
from ironic_virt.scheduler.host_manager import IronicHostManager, Steps
from ironic_virt.scheduler.host_state import ComputeNodeLike, HostState


class FilterScheduler:
    """Picks hosts for requests.

    :param manager: with the filters and weighers.
    :param subset_size: from how many of the best one is chosen at random.
    :param rng: breaks ties.
    """

    def __init__(
        self, manager: IronicHostManager, *, subset_size: int = 1, rng: random.Random | None = None
    ) -> None:
        self.host_manager = manager
        self.subset_size = subset_size
        self.rng = rng or random.Random()

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts, rng: random.Random | None = None) -> FilterScheduler:
        """A scheduler for bare metal by the ``[scheduler]`` options.

        :raises InvalidConfiguration: an enabled filter or weigher can't be loaded.
        """
        return cls(IronicHostManager(conf), subset_size=conf.scheduler.host_subset_size, rng=rng)

    def select(
        self,
        spec: RequestSpec,
        records: Iterable[ComputeNodeLike],
        count: int = 1,
        *,
        counts: Mapping[str, int] | None = None,
    ) -> list[HostState]:
        """The best hosts for ``count`` instances, consumed by them.

        :param records: compute nodes of services that are up and enabled; those that are taken
            are passed over.
        :param counts: how many instances each compute service has; by default what the records
            tell.
        :returns: one host state for each instance; bare metal nodes come once only.
        :raises NoValidHost: there are not enough.
        """
        records = list(records)
        counts = _instances_by_host(records) if counts is None else counts
        hosts = self.host_manager.host_states(records, counts)
        hosts = [host for host in hosts if host.is_free]
        free, steps = sum(host.free_nodes for host in hosts), Steps()
        if spec.exclude_nodes:
            hosts = [host for host in hosts if host.nodename not in spec.exclude_nodes]
            steps.add("retry", f"without the {len(spec.exclude_nodes)} tried", hosts)
        hosts = self.host_manager.get_filtered_hosts(hosts, spec, steps)
        picked = self._pick(hosts, spec, count)
        if len(picked) == count:
            return picked
        raise exceptions.NoValidHost(
            *(spec.instance_uuid, spec.flavor_name),
            known=sum(int(getattr(record, "total", 1)) for record in records),
            free=free,
            left=self._after_picks(steps, len(picked)),
            examples=steps.examples,
            wanted=count,
            found=len(picked),
        )

    def _pick(self, hosts: list[HostState], spec: RequestSpec, count: int) -> list[HostState]:
        """Take the best host again and again, which makes its service a little worse."""
        self.rng.shuffle(hosts)
        # What doesn't depend on instance counts is weighed once.
        weights = self.host_manager.weights(hosts, spec, by_counts=False)
        # Sorting is stable: what weighs the same stays in random order.
        order = sorted(zip(weights, hosts, strict=True), key=lambda pair: pair[0], reverse=True)
        services: dict[str, list[tuple[float, HostState]]] = {}
        for pair in order:
            services.setdefault(pair[1].host, []).append(pair)
        picked: list[HostState] = []
        while services and len(picked) < count:
            best = [pair for pairs in services.values() for pair in pairs[: self.subset_size]]
            more = self.host_manager.weights([host for _, host in best], spec, by_counts=True)
            totals = [weight + extra for (weight, _), extra in zip(best, more, strict=True)]
            ranks = sorted(range(len(best)), key=lambda rank: totals[rank], reverse=True)
            pair = best[self.rng.choice(ranks[: self.subset_size])]
            host, rest = pair[1], services[pair[1].host]
            host.consume()
            picked.append(host)
            if not host.is_free:
                rest.remove(pair)
            number = host.num_instances + 1
            for _, other in rest[: self.subset_size]:
                other.num_instances = number
            if not rest or not self.host_manager.may_have_more(rest[0][1], spec):
                del services[host.host]
        return picked

    def _after_picks(self, steps: Steps, picked: int) -> Sequence[tuple[str, str, int]]:
        """What filters left when those that count instances see the picked ones, too."""
        steps_after, sees = [], False
        for name, wish, number in steps.left:
            row = self.host_manager.filters.get(name)
            sees = sees or (picked > 0 and row is not None and row.uses_instance_counts)
            steps_after.append((name, wish, min(number, picked) if sees else number))
        return steps_after


def _instances_by_host(records: Iterable[ComputeNodeLike]) -> Mapping[str, int]:
    numbers: Counter[str] = Counter()
    for record in records:
        taken = record.in_use or record.instance_uuid is not None
        numbers[record.host] += int(getattr(record, "used", taken))
    return numbers
