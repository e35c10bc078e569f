# SPDX-License-Identifier: Apache-2.0

"""What every part of the driver works with."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from oslo_config import cfg

from ironic_virt.baremetal.client import IronicClient
from ironic_virt.baremetal.waiting.watcher import Watcher
from ironic_virt.driver.host_nodes import HostNodes
from ironic_virt.virt import VirtAPI

LONGEST_LOOK = 10.0
"""Seconds for one look at what was left behind, while the compute service waits.

Each request is tried once, and the next look begins with those for which there was no time.
"""


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
