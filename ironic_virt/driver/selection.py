# SPDX-License-Identifier: Apache-2.0

"""Who picks the node for an instance: the compute service's scheduler, or Ironic.

Ironic does if the options say so and it has allocations.  If it has none, one warning is
logged, and the scheduler picks.
"""

from __future__ import annotations

import threading

from oslo_config import cfg
from oslo_log import log as logging

from ironic_virt.baremetal.client import IronicClient
from ironic_virt.baremetal.http.versions import Feature

LOG = logging.getLogger(__name__)

IRONIC = "ironic"
"""The value of ``[ironic] node_selection`` by which Ironic picks."""


class NodeSelection:
    """Answers who picks the node.

    The first answer asks Ironic for its versions; it stays for the service's life.
    Thread-safe.
    """

    def __init__(self, conf: cfg.ConfigOpts, client: IronicClient) -> None:
        self._conf = conf
        self._client = client
        self._lock = threading.Lock()
        # Asked for each node; the option is not mutable.
        self._by_ironic = None if conf.ironic.node_selection == IRONIC else False

    @property
    def by_ironic(self) -> bool:
        """Whether Ironic picks the node.

        :raises IronicError: it would have to be asked whether it can, and can't be.
        """
        if self._by_ironic is not None:
            return self._by_ironic
        with self._lock:
            if self._by_ironic is None:
                self._by_ironic = self._client.has(Feature.ALLOCATIONS)
                if not self._by_ironic:
                    LOG.warning(
                        "[ironic-too-old] [ironic] node_selection is 'ironic', but Ironic speaks "
                        "API version %s and has allocations only from %s on: the scheduler picks "
                        "the nodes, as with node_selection = scheduler. Upgrade Ironic, then "
                        "restart this service",
                        self._client.versions.maximum,
                        Feature.ALLOCATIONS.version,
                    )
            return self._by_ironic
