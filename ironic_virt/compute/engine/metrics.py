# SPDX-License-Identifier: Apache-2.0

"""What the compute service counts and measures, beside what the driver tells.

Counting costs next to nothing, so it is done whether or not anybody listens.  Thread-safe.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

import prometheus_client

from ironic_virt.metrics.prometheus import ACTION_SECONDS, PrometheusMetrics


class Metrics(PrometheusMetrics):
    """The metrics of one service; see there."""

    def __init__(
        self, host: str, version: str, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(host, version, clock=clock)
        self._part_seconds = prometheus_client.Summary(
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
            buckets=ACTION_SECONDS,
            registry=self.registry,
        )

    # -- what is counted ------------------------------------------------------

    @contextlib.contextmanager
    def refresh_part(self, part: str) -> Iterator[None]:
        """Measure a part of a refresh."""
        wall, cpu = self._clock(), time.thread_time()
        try:
            yield
        finally:
            self._part_seconds.labels(part, "wall").observe(self._clock() - wall)
            self._part_seconds.labels(part, "cpu").observe(time.thread_time() - cpu)

    def refreshed(self, *, compared: int, deleted: int) -> None:
        """Take note of a refresh that went well.

        :param compared: how many nodes had news.
        :param deleted: how many records were deleted.
        """
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
