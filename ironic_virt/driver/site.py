# SPDX-License-Identifier: Apache-2.0

"""What every part of the driver works with."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from oslo_config import cfg

from ironic_virt.baremetal.client import IronicClient
from ironic_virt.baremetal.waiting.watcher import Watcher
from ironic_virt.conf import ironic as ironic_conf
from ironic_virt.driver.host_nodes import HostNodes
from ironic_virt.virt import VirtAPI

LONGEST_LOOK = 10.0
"""Seconds for one look at what was left behind, while the compute service waits."""


@dataclasses.dataclass(frozen=True, slots=True)
class Site:
    """The surroundings of one driver; made once, and the same for all of its parts.

    :ivar conf: the options; some may change while the service runs.
    :ivar client: asks Ironic.
    :ivar service: the compute service's side of the contract.
    :ivar by_ironic: whether Ironic picks the node for an instance, or the scheduler.
    :ivar nodes: the nodes of this host; reads one for an action, and refuses one that is not ours.
    :ivar watcher: waits for nodes.
    :ivar clock: a monotonic clock in seconds.
    :ivar pause: waits for so many seconds; returns whether the service stops.
    """

    conf: cfg.ConfigOpts
    client: IronicClient
    service: VirtAPI
    by_ironic: bool
    nodes: HostNodes
    watcher: Watcher
    clock: Callable[[], float]
    pause: Callable[[float], bool]

    @property
    def retry_interval(self) -> float:
        """Seconds before Ironic is asked again."""
        return ironic_conf.retry_interval(self.conf)

    @classmethod
    def survey(
        cls,
        conf: cfg.ConfigOpts,
        service: VirtAPI,
        client: IronicClient,
        *,
        watcher: Watcher | None,
        clock: Callable[[], float],
        pause: Callable[[float], bool],
    ) -> Site:
        """Put together what a driver needs; nothing is sent.

        :param watcher: for tests; made from ``conf`` otherwise.
        """
        # Asked for each node; the option is not mutable.
        by_ironic = conf.ironic.node_selection == "ironic"
        nodes = HostNodes(conf, client, service, by_ironic, clock)
        return cls(
            conf,
            client,
            service,
            by_ironic,
            nodes,
            watcher
            or Watcher(
                client.single_try(),
                node_filter=lambda: nodes.ownership.target.node_filter(),
                interval=ironic_conf.retry_interval(conf),
                while_waiting=service.waiting,
            ),
            clock,
            pause,
        )
