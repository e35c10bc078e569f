# SPDX-License-Identifier: Apache-2.0

"""Host states of records, and the enabled filters and weighers over them.

``HostManager`` treats every compute node alike.  ``IronicHostManager`` knows bare
metal nodes, which are consumed as a whole, and can have a list of filters of its
own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence

from oslo_config import cfg

from ironic_virt import exceptions
from ironic_virt.conf import plugins
from ironic_virt.request.spec import RequestSpec
from ironic_virt.scheduler import filters as filters_room
from ironic_virt.scheduler import weighers as weighers_room
from ironic_virt.scheduler.candidates import ComputeNodeLike
from ironic_virt.scheduler.filters import BaseHostFilter
from ironic_virt.scheduler.host_state import HostState, IronicHostState, is_ironic
from ironic_virt.scheduler.weighers import BaseWeigher, normalized


@dataclasses.dataclass(frozen=True, slots=True)
class WeighedHost:
    """A host state and its weight: the more, the better."""

    host: HostState
    weight: float


class HostManager:
    """What a scheduler knows of hosts, by the ``[scheduler]`` options.

    :raises InvalidConfiguration: an enabled filter or weigher can't be loaded.
    """

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        option = self.filters_option(conf)
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
        self._instances: dict[str, frozenset[str]] = {}

    def filters_option(self, conf: cfg.ConfigOpts) -> str:
        """The option that lists the filters."""
        return "enabled_filters"

    @property
    def uses_instance_counts(self) -> bool:
        """Whether any filter or weigher reads ``HostState.num_instances``."""
        return any(filter_.uses_instance_counts for filter_ in self.filters.values()) or any(
            weigher.uses_instance_counts for weigher in self.weighers.values()
        )

    # host states

    def host_state_for(self, record: ComputeNodeLike) -> HostState:
        """An empty host state of the kind that a record wants."""
        return HostState(record.host, record.uuid)

    def update_instance_info(self, host: str, instances: Collection[str]) -> None:
        """Keep which instances a host has, for filters that ask."""
        self._instances[host] = frozenset(instances)

    def instances_of(self, record: ComputeNodeLike) -> Collection[str]:
        """The instances that were kept for a record's host."""
        return self._instances.get(record.host, ())

    def host_states(
        self, records: Iterable[ComputeNodeLike], counts: Mapping[str, int] | None = None
    ) -> list[HostState]:
        """Fresh host states, in the order of the records.

        A record whose free disk is not known yet is left out.

        :param counts: how many instances each compute service has.
        """
        states = []
        for record in records:
            state = self.host_state_for(record)
            state.update(record)
            if state.record is None:
                continue
            state.instances = self.instances_of(record)
            if counts:
                state.num_instances = counts.get(record.host, 0)
            states.append(state)
        return states

    # filters and weighers

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


class IronicHostManager(HostManager):
    """A host manager that knows bare metal nodes.

    Compute nodes of hypervisor type ``ironic`` get a host state of their own kind,
    others get the ordinary one.
    """

    def filters_option(self, conf: cfg.ConfigOpts) -> str:
        """See :class:`HostManager`."""
        if conf.scheduler.use_baremetal_filters:
            return "baremetal_enabled_filters"
        return super().filters_option(conf)

    def host_state_for(self, record: ComputeNodeLike) -> HostState:
        """See :class:`HostManager`."""
        if is_ironic(record):
            return IronicHostState(record.host, record.uuid)
        return super().host_state_for(record)

    def instances_of(self, record: ComputeNodeLike) -> Collection[str]:
        """See :class:`HostManager`; bare metal nodes carry no instance info."""
        return () if is_ironic(record) else super().instances_of(record)
