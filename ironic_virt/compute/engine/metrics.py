# SPDX-License-Identifier: Apache-2.0

"""What the compute service counts and measures, for Prometheus.

The registry is the service's own: several services in one process, as in tests,
don't meet in it.  Counting costs next to nothing, so it is done whether or not
anybody listens.  Thread-safe.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping

import prometheus_client
from prometheus_client import core

TASK_SECONDS = (1, 5, 15, 30, 60, 120, 300, 600, 900, 1200, 1800, 3600, 7200, 10800)
"""Upper bounds in seconds for how long a task takes: hardware deploys in minutes."""


class Metrics:
    """The metrics of one service.

    :param host: the service's host name.
    :param version: of the software.
    :param clock: a monotonic clock in seconds.

    :ivar nodes: how many nodes there are, by state, as of the last refresh.
    :ivar nodes_age: says how old, in seconds, what is known of them is.
    """

    def __init__(
        self, host: str, version: str, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.registry = prometheus_client.CollectorRegistry()
        self._clock = clock
        self.nodes: Mapping[str, int] = {}
        self.nodes_age: Callable[[], float | None] = lambda: None
        service = prometheus_client.Info(
            "ironic_virt_service", "This compute service", registry=self.registry
        )
        service.info({"host": host, "version": version})
        prometheus_client.ProcessCollector(registry=self.registry)
        self.registry.register(_Looked(self))
        self._requests = prometheus_client.Counter(
            "ironic_virt_ironic_requests",
            "Requests to Ironic, by the answer's status; none: there was no answer",
            ["method", "code"],
            registry=self.registry,
        )
        self._request_seconds = prometheus_client.Histogram(
            "ironic_virt_ironic_request_seconds",
            "How long a request to Ironic took",
            ["method"],
            registry=self.registry,
        )
        self._refresh_seconds = prometheus_client.Summary(
            "ironic_virt_refresh_seconds",
            "What a refresh of the nodes cost, by its part (ironic, compare, records) and by"
            " clock (wall, or cpu: of the refresh's own thread)",
            ["part", "clock"],
            registry=self.registry,
        )
        self._refreshes = prometheus_client.Counter(
            "ironic_virt_refreshes",
            "Refreshes of the nodes, by result (ok, failed)",
            ["result"],
            registry=self.registry,
        )
        self._records = prometheus_client.Counter(
            "ironic_virt_node_records",
            "Records of nodes that a refresh dealt with, by what was done (compared, deleted)",
            ["done"],
            registry=self.registry,
        )
        self._running = prometheus_client.Gauge(
            "ironic_virt_tasks_running",
            "What is being carried out, by task; spawning: deployments in flight",
            ["task"],
            registry=self.registry,
        )
        self._task_seconds = prometheus_client.Histogram(
            "ironic_virt_task_seconds",
            "How long a task took, by task and result",
            ["task", "result"],
            buckets=TASK_SECONDS,
            registry=self.registry,
        )

    # -- what is counted ------------------------------------------------------

    def request(self, method: str, status: int | None, seconds: float) -> None:
        """Count a request to Ironic; without a ``status`` there was no answer."""
        self._requests.labels(method, "none" if status is None else str(status)).inc()
        self._request_seconds.labels(method).observe(seconds)

    @contextlib.contextmanager
    def refresh_part(self, part: str) -> Iterator[None]:
        """Measure a part of a refresh."""
        wall, cpu = self._clock(), time.thread_time()
        try:
            yield
        finally:
            self._refresh_seconds.labels(part, "wall").observe(self._clock() - wall)
            self._refresh_seconds.labels(part, "cpu").observe(time.thread_time() - cpu)

    def refreshed(self, nodes: Mapping[str, int], *, compared: int, deleted: int) -> None:
        """Take note of a refresh that went well.

        :param nodes: how many nodes there are, by state.
        :param compared: how many of them had news.
        :param deleted: how many records were deleted.
        """
        self.nodes = dict(nodes)
        self._refreshes.labels("ok").inc()
        self._records.labels("compared").inc(compared)
        self._records.labels("deleted").inc(deleted)

    def refresh_failed(self) -> None:
        """Take note of a refresh that failed."""
        self._refreshes.labels("failed").inc()

    def task_began(self, task: str) -> None:
        """Take note that a task is being carried out."""
        self._running.labels(task).inc()

    def task_ended(self, task: str, result: str, seconds: float) -> None:
        """Take note that a task is not being carried out any more."""
        self._running.labels(task).dec()
        self._task_seconds.labels(task, result).observe(seconds)


class _Looked:
    """What is looked up when somebody asks."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[core.Metric]:
        """The nodes by state, and how old what is known of them is."""
        nodes = core.GaugeMetricFamily(
            "ironic_virt_nodes",
            "This service's nodes by state, as of the last refresh",
            labels=["state"],
        )
        for state, count in sorted(self._metrics.nodes.items()):
            nodes.add_metric([state], count)
        yield nodes
        age = self._metrics.nodes_age()
        if age is not None:
            yield core.GaugeMetricFamily(
                "ironic_virt_refresh_age_seconds",
                "How long ago Ironic was last asked for the nodes with success",
                value=age,
            )
