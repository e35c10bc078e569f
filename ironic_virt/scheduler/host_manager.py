# SPDX-License-Identifier: Apache-2.0

"""Host states of records, and the enabled filters and weighers over them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from oslo_config import cfg

from ironic_virt import exceptions
from ironic_virt.conf import plugins
from ironic_virt.request.spec import RequestSpec
from ironic_virt.scheduler import filters as filters_room
from ironic_virt.scheduler import weighers as weighers_room
from ironic_virt.scheduler.filters import Filter
from ironic_virt.scheduler.host_state import ComputeNodeLike, HostState
from ironic_virt.scheduler.weighers import Weigher, normalized


@dataclasses.dataclass(slots=True)
class Steps:
    """What filters have left of the hosts, as :class:`~ironic_virt.exceptions.NoValidHost` has it.

    :ivar left: filter by filter its name, what it wanted, and how many nodes it left.
    :ivar examples: by filter's name, why it rejected one node.
    """

    left: list[tuple[str, str, int]] = dataclasses.field(default_factory=list)
    examples: dict[str, str] = dataclasses.field(default_factory=dict)

    def add(self, name: str, wish: str, hosts: Iterable[HostState]) -> None:
        """Take note of what a filter has left."""
        self.left.append((name, wish, sum(host.free_nodes for host in hosts)))


class IronicHostManager:
    """What a scheduler knows of hosts, by the ``[scheduler]`` options.

    :raises InvalidConfiguration: an enabled filter or weigher can't be loaded.
    """

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        exact = conf.scheduler.use_baremetal_filters
        option = "baremetal_enabled_filters" if exact else "enabled_filters"
        self.filters: Mapping[str, Filter] = plugins.load(
            *(filters_room.NAMESPACE, conf.scheduler[option], Filter, conf),
            f"[scheduler] {option}",
        )
        self.weighers: Mapping[str, Weigher] = plugins.load(
            *(weighers_room.NAMESPACE, conf.scheduler.enabled_weighers, Weigher, conf),
            "[scheduler] enabled_weighers",
        )
        multipliers: Mapping[str, float] = conf.scheduler.weight_multipliers
        if unknown := sorted(set(multipliers).difference(self.weighers)):
            names, enabled = ", ".join(unknown), ", ".join(self.weighers) or "none"
            reason = f"{names} is not in enabled_weighers ({enabled})"
            raise exceptions.InvalidConfiguration("[scheduler] weight_multipliers", reason)
        self.multipliers = {
            name: multipliers.get(name, weigher.multiplier)
            for name, weigher in self.weighers.items()
        }

    def host_states(
        self, records: Iterable[ComputeNodeLike], counts: Mapping[str, int] | None = None
    ) -> list[HostState]:
        """Return fresh host states, in the order of the records.

        :param counts: how many instances each compute service has.
        """
        counts = counts or {}
        return [HostState(record, counts.get(record.host, 0)) for record in records]

    def get_filtered_hosts(
        self, hosts: Iterable[HostState], spec: RequestSpec, steps: Steps | None = None
    ) -> list[HostState]:
        """The host states that all enabled filters pass.

        :param steps: takes what each filter leaves.
        """
        hosts, steps = list(hosts), steps or Steps()
        for name, row in self.filters.items():
            passing = []
            for host in hosts:
                if (reason := row.why_not(host, spec)) is None:
                    passing.append(host)
                elif name not in steps.examples:
                    steps.examples[name] = f"{host.nodename}: {reason}"
            hosts = passing
            steps.add(name, row.wish(spec), hosts)
        return hosts

    def may_have_more(self, host: HostState, spec: RequestSpec) -> bool:
        """Whether the filters that count instances pass a host's compute service."""
        rows = (row for row in self.filters.values() if row.uses_instance_counts)
        return all(row.why_not(host, spec) is None for row in rows)

    def weights(
        self, hosts: Sequence[HostState], spec: RequestSpec, *, by_counts: bool
    ) -> list[float]:
        """The sums of the hosts' weights, by the weighers that do or don't count instances."""
        totals = [0.0] * len(hosts)
        for name, row in self.weighers.items():
            if row.uses_instance_counts is by_counts:
                weights = normalized([row.weigh(host, spec) for host in hosts])
                factor = self.multipliers[name]
                totals = [total + factor * w for total, w in zip(totals, weights, strict=True)]
        return totals
