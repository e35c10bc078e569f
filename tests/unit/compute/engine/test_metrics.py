# SPDX-License-Identifier: Apache-2.0

"""What the compute service counts beside the driver's work, as Prometheus reads it."""

import prometheus_client
import pytest

from ironic_virt.compute.engine.metrics import Metrics
from tests.clock import VirtualClock


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def metrics(clock: VirtualClock) -> Metrics:
    return Metrics("compute1", "1.2.3", clock=clock)


def lines(metrics: Metrics) -> list[str]:
    return prometheus_client.generate_latest(metrics.registry).decode().splitlines()


def test_it_says_whose_they_are(metrics: Metrics) -> None:
    assert 'ironic_virt_service_info{host="compute1",version="1.2.3"} 1.0' in lines(metrics)
    assert any(line.startswith("process_cpu_seconds_total") for line in lines(metrics))


def test_refreshes_are_counted_by_result_and_records_by_what_was_done(metrics: Metrics) -> None:
    metrics.refreshed(compared=5, deleted=0)
    metrics.refreshed(compared=1, deleted=2)
    metrics.refresh_failed()
    shown = lines(metrics)
    assert 'ironic_virt_refreshes_total{result="ok"} 2.0' in shown
    assert 'ironic_virt_refreshes_total{result="failed"} 1.0' in shown
    assert 'ironic_virt_node_records_total{done="compared"} 6.0' in shown
    assert 'ironic_virt_node_records_total{done="deleted"} 2.0' in shown


def test_a_refresh_is_measured_by_part_and_clock(metrics: Metrics, clock: VirtualClock) -> None:
    with metrics.refresh_part("ironic"):
        clock.now += 2.5
    shown = lines(metrics)
    assert 'ironic_virt_refresh_seconds_sum{clock="wall",part="ironic"} 2.5' in shown
    assert 'ironic_virt_refresh_seconds_count{clock="cpu",part="ironic"} 1.0' in shown


def test_tasks_are_in_flight_until_they_end(metrics: Metrics) -> None:
    metrics.task_began("spawning")
    metrics.task_began("spawning")
    metrics.task_ended("spawning", "done", 400.0)
    shown = lines(metrics)
    assert 'ironic_virt_tasks_running{task="spawning"} 1.0' in shown
    done = 'result="done",task="spawning"'
    assert f"ironic_virt_task_seconds_sum{{{done}}} 400.0" in shown
    assert f'ironic_virt_task_seconds_bucket{{le="300.0",{done}}} 0.0' in shown
    assert f'ironic_virt_task_seconds_bucket{{le="600.0",{done}}} 1.0' in shown
