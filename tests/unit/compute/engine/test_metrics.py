# SPDX-License-Identifier: Apache-2.0

"""What is counted and measured, as Prometheus reads it."""

import re
from pathlib import Path

import prometheus_client
import pytest

from ironic_virt.compute.engine.metrics import Metrics
from tests.clock import VirtualClock

ROOT = Path(__file__).parents[4]


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


def test_requests_are_counted_by_method_and_code(metrics: Metrics) -> None:
    metrics.request("GET", 200, 0.1)
    metrics.request("GET", 200, 0.3)
    metrics.request("PATCH", 409, 0.1)
    metrics.request("PUT", None, 60.0)
    shown = lines(metrics)
    for method, code, count in (("GET", 200, 2), ("PATCH", 409, 1), ("PUT", "none", 1)):
        line = f'ironic_virt_ironic_requests_total{{code="{code}",method="{method}"}} {count}.0'
        assert line in shown
    assert 'ironic_virt_ironic_request_seconds_sum{method="GET"} 0.4' in shown


def test_nodes_are_those_of_the_last_refresh(metrics: Metrics) -> None:
    assert not any(line.startswith("ironic_virt_refresh_age") for line in lines(metrics))
    metrics.nodes_age = lambda: 12.5
    metrics.refreshed({"available": 3, "active": 2}, compared=5, deleted=0)
    metrics.refreshed({"available": 4}, compared=1, deleted=2)
    metrics.refresh_failed()
    shown = [line for line in lines(metrics) if not line.startswith("#")]
    assert [line for line in shown if line.startswith("ironic_virt_nodes")] == [
        'ironic_virt_nodes{state="available"} 4.0'
    ]
    assert "ironic_virt_refresh_age_seconds 12.5" in shown
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


def test_two_services_in_one_process_do_not_meet(metrics: Metrics) -> None:
    other = Metrics("compute2", "1.2.3")
    metrics.request("GET", 200, 0.1)
    assert not any("ironic_requests_total{" in line for line in lines(other))


def test_the_documentation_names_each_of_them(metrics: Metrics) -> None:
    metrics.nodes_age = lambda: 1.0
    shown = {
        metric.name
        for metric in metrics.registry.collect()
        if not metric.name.startswith("process_")
    }
    text = (ROOT / "doc/source/admin/compute_service.rst").read_text()
    named = {
        re.sub(r"_(total|info)$", "", name)
        for name in re.findall(r"^   \* - ``(ironic_virt_\w+)", text, re.MULTILINE)
    }
    assert named == shown
