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
from ironic_virt.scheduler.candidates import ComputeNodeLike
from ironic_virt.scheduler.filters import BaseHostFilter
from ironic_virt.scheduler.host_state import HostState
from ironic_virt.scheduler.weighers import BaseWeigher, normalized


@dataclasses.dataclass(frozen=True, slots=True)
class WeighedHost:
    """A host state and its weight: the more, the better."""

    host: HostState
    weight: float


class IronicHostManager:
    """What a scheduler knows of hosts, by the ``[scheduler]`` options.

    :raises InvalidConfiguration: an enabled filter or weigher can't be loaded.
    """

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        exact = conf.scheduler.use_baremetal_filters
        option = "baremetal_enabled_filters" if exact else "enabled_filters"
        self.filters: Mapping[str, BaseHostFilter] = plugins.load(
            filters_room.NAMESPACE,
            conf.scheduler[option],
            BaseHostFilter,  # type: ignore[type-abstract]
            conf,
            f"[scheduler] {option}",
        )
        self.weighers: Mapping[str, BaseWeigher] = plugins.load(
            weighers_room.NAMESPACE,
            conf.scheduler.enabled_weighers,
            BaseWeigher,  # type: ignore[type-abstract]
            conf,
            "[scheduler] enabled_weighers",
        )
        multipliers: Mapping[str, float] = conf.scheduler.weight_multipliers
        if unknown := sorted(set(multipliers).difference(self.weighers)):
            enabled = ", ".join(self.weighers) or "none"
            raise exceptions.InvalidConfiguration(
                "[scheduler] weight_multipliers",
                f"{', '.join(unknown)} is not in enabled_weighers ({enabled})",
            )
        self.multipliers = {
            name: multipliers.get(name, weigher.multiplier)
            for name, weigher in self.weighers.items()
        }

    @property
    def uses_instance_counts(self) -> bool:
        """Whether any filter or weigher reads ``HostState.num_instances``."""
        return any(filter_.uses_instance_counts for filter_ in self.filters.values()) or any(
            weigher.uses_instance_counts for weigher in self.weighers.values()
        )

    def host_states(
        self, records: Iterable[ComputeNodeLike], counts: Mapping[str, int] | None = None
    ) -> list[HostState]:
        """Return fresh host states, in the order of the records.

        :param counts: how many instances each compute service has.
        """
        counts = counts or {}
        return [HostState(record, counts.get(record.host, 0)) for record in records]

    def get_filtered_hosts(self, hosts: Iterable[HostState], spec: RequestSpec) -> list[HostState]:
        """The host states that all enabled filters pass."""
        return [
            host for host in hosts if all(f.host_passes(host, spec) for f in self.filters.values())
        ]

    def get_weighed_hosts(
        self, hosts: Sequence[HostState], spec: RequestSpec
    ) -> list[WeighedHost]:
        """The host states with their weights, best first."""
        totals = [0.0] * len(hosts)
        if len(hosts) > 1:
            for name, weigher in self.weighers.items():
                weights = normalized(
                    [weigher.weigh(host, spec) for host in hosts], weigher.least, weigher.most
                )
                totals = [
                    total + self.multipliers[name] * weight
                    for total, weight in zip(totals, weights, strict=True)
                ]
        weighed = [WeighedHost(host, total) for host, total in zip(hosts, totals, strict=True)]
        weighed.sort(key=lambda one: one.weight, reverse=True)
        return weighed
