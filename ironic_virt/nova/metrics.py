# SPDX-License-Identifier: Apache-2.0

"""``[ironic] metrics_port``: what nova-compute offers to Prometheus.

Without that option nothing is imported, kept or served.  A failure here never stops nova-compute:
it is logged as an error.
"""

from __future__ import annotations

import contextlib
from importlib import metadata
from typing import TYPE_CHECKING

from oslo_config import cfg
from oslo_log import log as logging

from ironic_virt import exceptions, virt
from ironic_virt.conf import ironic

if TYPE_CHECKING:
    from ironic_virt.driver import IronicDriver
    from ironic_virt.metrics.prometheus import PrometheusMetrics

LOG = logging.getLogger(__name__)


class Offered:
    """The metrics of one driver, and the page that shows them."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._kept: PrometheusMetrics | None = None
        self._conf = conf
        self._served = contextlib.ExitStack()
        if not conf[ironic.GROUP].metrics_port:
            return
        try:
            from ironic_virt.metrics import prometheus
        except ImportError as error:
            LOG.error(
                "[metrics-missing] [ironic] metrics_port is set, but %s: no metrics are offered. "
                "Install 'ironic-virt[metrics]' and restart this service",
                error,
            )
            return
        self._kept = prometheus.PrometheusMetrics(conf.host, metadata.version("ironic-virt"))

    @property
    def collector(self) -> virt.Metrics:
        """The object that the driver reports its work to."""
        return self._kept or virt.Metrics()

    def begin(self, driver: IronicDriver) -> None:
        """Serve the page in a thread, if there is something to show; stop the one before.

        Called when Nova starts the service: Nova may fork after it has made the driver, and a
        fork has no threads.
        """
        self.end()
        if self._kept is None:
            return
        from ironic_virt.metrics import page

        self._kept.counts = driver.node_counts
        try:
            self._served.enter_context(
                page.served(self._conf, page.application(self._kept.registry))
            )
        except exceptions.InvalidConfiguration as error:
            LOG.error("[metrics-missing] No metrics are offered: %s", error)
            return
        group = self._conf[ironic.GROUP]
        LOG.info(
            "Metrics are offered at http://%s:%d/metrics", group.metrics_host, group.metrics_port
        )

    def end(self) -> None:
        """Stop serving the page."""
        self._served.close()
