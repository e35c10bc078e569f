# SPDX-License-Identifier: Apache-2.0

"""What a driver tells of its work and its nodes, as Prometheus reads it.

The registry is the service's own: several services in one process, as in tests, don't meet
in it.  What is counted is kept as it happens; the nodes are looked up at each scrape, for
which Ironic is not asked.  Thread-safe.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Iterator, Sequence

import prometheus_client
from prometheus_client import core
from prometheus_client.registry import Collector

from ironic_virt import exceptions, virt

ACTION_SECONDS = (1, 5, 15, 30, 60, 120, 300, 600, 900, 1200, 1800, 3600, 7200, 10800)
"""Upper bounds in seconds for how long an action takes: hardware deploys in minutes."""

_REQUEST_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_REFRESH_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)

# All words in paths of Ironic's API that the driver uses; what else is there names something.
_WORDS = re.compile(
    "nodes|allocations|ports|portgroups|shards|volume|connectors|targets|states|provision|power"
    "|console|vifs|validate|history|management|inject_nmi"
)


class PrometheusMetrics(virt.Metrics, Collector):
    """The metrics of one service.

    :param host: the service's host name.
    :param version: of the software.
    :param clock: a monotonic clock in seconds.
    :ivar registry: what Prometheus is shown.
    :ivar counts: looks the nodes up; set when there is a driver.
    """

    def __init__(
        self, host: str, version: str, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.registry = prometheus_client.CollectorRegistry()
        self.counts: Callable[[], virt.NodeCounts] = virt.NodeCounts
        self._clock = clock
        service = prometheus_client.Info(
            "ironic_virt_service", "This compute service", registry=self.registry
        )
        service.info({"host": host, "version": version})
        prometheus_client.ProcessCollector(registry=self.registry)
        self.registry.register(self)
        self._requests = prometheus_client.Counter(
            "ironic_virt_ironic_requests",
            "Requests to Ironic by the answer's status; none: there was no answer,"
            " refused: Keystone gave no token",
            ["method", "path", "code"],
            registry=self.registry,
        )
        self._request_seconds = self._histogram(
            "ironic_request",
            "How long a request to Ironic took",
            _REQUEST_SECONDS,
            "method",
            "path",
        )
        self._refresh_seconds = self._histogram(
            "inventory_refresh",
            "How long Ironic was asked for the nodes",
            _REFRESH_SECONDS,
            "result",
        )
        self._node_passes = prometheus_client.Counter(
            "ironic_virt_node_passes",
            "Nodes that Nova's resource tracker has looked at, by why; settled: passed over",
            ["reason"],
            registry=self.registry,
        )
        self._oldest_pass = prometheus_client.Gauge(
            "ironic_virt_oldest_pass_seconds",
            "How long ago the tracker looked at the node that it passes over for longest",
            registry=self.registry,
        )
        self._waits = prometheus_client.Gauge(
            "ironic_virt_waits",
            "Threads that wait for a node, by what for",
            ["kind"],
            registry=self.registry,
        )
        self._wait_seconds = self._histogram(
            "wait", "How long a node was waited for", ACTION_SECONDS, "kind", "result"
        )
        self._build_seconds = self._histogram(
            "build", "How long the deployment of an instance took", ACTION_SECONDS, "result"
        )
        for result in ("done", "failed", "timeout", "aborted", "left"):
            # Prometheus sees no increase where a series begins with one.
            self._build_seconds.labels(result)
        self._step_seconds = self._histogram(
            "build_step", "How long a step of a build took", ACTION_SECONDS, "step", "result"
        )

    def _histogram(
        self, name: str, documentation: str, buckets: Sequence[float], *labels: str
    ) -> prometheus_client.Histogram:
        return prometheus_client.Histogram(
            f"ironic_virt_{name}_seconds",
            documentation,
            labels,
            buckets=buckets,
            registry=self.registry,
        )

    def request(self, method: str, path: str, code: str, seconds: float) -> None:
        """Count a request, and the seconds that it took."""
        kind = kind_of(path)
        self._requests.labels(method, kind, code).inc()
        self._request_seconds.labels(method, kind).observe(seconds)

    def refresh(self, seconds: float, worked: bool) -> None:
        """Count a list of the nodes, and the seconds that it took."""
        self._refresh_seconds.labels("done" if worked else "failed").observe(seconds)

    def node_pass(self, reason: str | None) -> None:
        """Count a node of a period, by why it was looked at."""
        self._node_passes.labels(reason or "settled").inc()

    def oldest_pass(self, seconds: float) -> None:
        """Set how long ago the oldest node was looked at."""
        self._oldest_pass.set(seconds)

    @contextlib.contextmanager
    def waiting(self, kind: str) -> Iterator[None]:
        """Count a thread that waits for a node, and the seconds that it waited."""
        with self._waits.labels(kind).track_inprogress(), self._timed(self._wait_seconds, kind):
            yield

    def building(self) -> contextlib.AbstractContextManager[None]:
        """Count a deployment, and the seconds that it took."""
        return self._timed(self._build_seconds)

    def step(self, name: str) -> contextlib.AbstractContextManager[None]:
        """Count a step of a build, and the seconds that it took."""
        return self._timed(self._step_seconds, name)

    def collect(self) -> Iterator[core.Metric]:
        """The nodes as of the last refresh, and how old that is."""
        counts = self.counts()
        nodes = core.GaugeMetricFamily(
            "ironic_virt_nodes",
            "This service's nodes by provision state and resource class",
            labels=["state", "resource_class", "maintenance"],
        )
        for (state, resource_class, maintenance), number in sorted(counts.nodes.items()):
            nodes.add_metric([state, resource_class, str(maintenance).lower()], number)
        yield nodes
        pools = core.GaugeMetricFamily(
            "ironic_virt_pool_nodes",
            "Nodes of a pool, or of a resource class if the scheduler picks: free, used by this"
            " service's instances, or reserved; the sum is the total",
            labels=["pool", "resource_class", "traits", "use"],
        )
        for pool in counts.pools:
            labels = [pool.name, pool.resource_class, ",".join(sorted(pool.traits))]
            for use in ("free", "used", "reserved"):
                pools.add_metric([*labels, use], getattr(pool, use))
        yield pools
        yield core.InfoMetricFamily(
            "ironic_virt_ownership", "Which nodes are this service's", value=dict(counts.ownership)
        )
        for name, documentation, value in (
            (
                "inventory_stale",
                "1: the last refresh of the nodes failed, or there was none yet",
                counts.stale,
            ),
            (
                "inventory_age_seconds",
                "Seconds since the last successful node list",
                counts.age,
            ),
            ("ring_members", "Hosts in the hash ring", counts.ring_members),
            (
                "active",
                "1: this process holds the lease of its host name; 0: it is a standby",
                counts.active,
            ),
            ("lease_age_seconds", "How long ago the lease was renewed", counts.lease_age),
            (
                "foreign_reports",
                "Reports as this service by processes without its lease",
                counts.foreign_reports,
            ),
        ):
            if value is not None:
                yield core.GaugeMetricFamily(
                    f"ironic_virt_{name}", documentation, value=float(value)
                )

    @contextlib.contextmanager
    def _timed(self, seconds: prometheus_client.Histogram, *labels: str) -> Iterator[None]:
        began, result = self._clock(), "failed"
        try:
            yield
            result = "done"
        except exceptions.WaitTimeout:
            result = "timeout"
            raise
        except exceptions.BuildAborted:
            result = "aborted"
            raise
        except exceptions.WaitCancelled:
            # Ironic goes on with it.
            result = "left"
            raise
        finally:
            seconds.labels(*labels, result).observe(self._clock() - began)


def kind_of(path: str) -> str:
    """Replace each name in a path by ``{id}``, so that a label has only few values."""
    parts = path.lstrip("/").split("/")
    return "/" + "/".join(part if not part or _WORDS.fullmatch(part) else "{id}" for part in parts)
