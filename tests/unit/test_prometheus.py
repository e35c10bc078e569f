# SPDX-License-Identifier: Apache-2.0

"""What a driver's work looks like to Prometheus."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ironic_virt import exceptions
from ironic_virt.metrics.prometheus import PrometheusMetrics, kind_of
from ironic_virt.testing.fake_ironic import Durations, FakeIronic
from tests.clock import VirtualClock
from tests.unit.driver.stage import Service, Stage, make_conf


@pytest.fixture
def fake() -> FakeIronic:
    return FakeIronic(durations=Durations(deploy=100, undeploy=3))


@pytest.fixture
def metrics(fake: FakeIronic) -> PrometheusMetrics:
    return PrometheusMetrics("compute1", "1.2.3", clock=fake.clock.now)


@pytest.fixture
def make(tmp_path: Path, fake: FakeIronic, metrics: PrometheusMetrics) -> Callable[..., Stage]:
    """A driver whose work is counted, with these options."""

    def made(**options: object) -> Stage:
        service = Service()
        service.metrics = metrics
        service.owned = set()
        stage = Stage(fake, make_conf(tmp_path, **options), service)
        metrics.counts = stage.driver.node_counts
        return stage

    return made


def value(metrics: PrometheusMetrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(f"ironic_virt_{name}", labels)


def pool(metrics: PrometheusMetrics, resource_class: str, traits: str = "") -> dict[str, float]:
    """How many nodes of a pool are for which use."""
    (family,) = (one for one in metrics.registry.collect() if one.name == "ironic_virt_pool_nodes")
    wanted = (resource_class, traits)
    return {
        sample.labels["use"]: sample.value
        for sample in family.samples
        if (sample.labels["resource_class"], sample.labels["traits"]) == wanted
    }


def test_a_build_is_seen_step_by_step(fake, metrics, make) -> None:
    node = fake.add_node(ports=1, resource_class="gold")
    stage = make()
    running: list[float | None] = []
    stage.while_it_is(
        "deploying", node, lambda: running.append(value(metrics, "waits", kind="deploy"))
    )
    instance = stage.instance(node)
    stage.spawn(instance)
    assert set(running) == {1}
    assert value(metrics, "waits", kind="deploy") == 0
    assert value(metrics, "build_seconds_count", result="done") == 1
    assert 100 <= (value(metrics, "build_seconds_sum", result="done") or 0) < 200
    for step in ("reserving", "configuring", "deploying"):
        assert value(metrics, "build_step_seconds_count", step=step, result="done") == 1
    deploying = value(metrics, "build_step_seconds_sum", step="deploying", result="done") or 0
    assert (
        deploying >= (value(metrics, "wait_seconds_sum", kind="deploy", result="done") or 0) >= 99
    )
    stage.destroy(instance)
    assert value(metrics, "wait_seconds_count", kind="tear down", result="done") == 1


def test_a_build_that_fails_is_counted_by_how(fake, metrics, make) -> None:
    assert value(metrics, "build_seconds_count", result="failed") == 0, "so an increase is seen"
    broken, slow, taken = fake.add_nodes(3, ports=1)
    fake.fail_next("deploy", "no", broken)
    fake.set_node(taken, instance_uuid="6d2b4f02-0000-4000-8000-00000000beef")
    for node, options, error in (
        (broken, {}, exceptions.DeployFailed),
        (slow, {"deploy_timeout": 30}, exceptions.WaitTimeout),
        (taken, {}, exceptions.NodeTaken),
    ):
        stage = make(**options)
        with pytest.raises(error):
            stage.spawn(stage.instance(node))
    assert value(metrics, "build_seconds_count", result="failed") == 1
    assert value(metrics, "build_seconds_count", result="timeout") == 1
    assert value(metrics, "build_step_seconds_count", step="reserving", result="failed") == 1


def test_nodes_are_counted_by_state_and_class_without_requests(fake, metrics, make) -> None:
    stage = make(conductor_group="rack1")
    assert value(metrics, "inventory_stale") == 1
    assert value(metrics, "inventory_age_seconds") is None
    group = {"conductor_group": "rack1"}
    gold = fake.add_nodes(3, resource_class="gold", **group)
    fake.set_node(gold[0], maintenance=True)
    fake.set_node(gold[1], instance_uuid="6d2b4f02-0000-4000-8000-00000000beef")
    fake.add_node(resource_class="silver", conductor_group="rack2")
    stage.driver.init_host("compute1")
    stage.driver.get_available_nodes(refresh=True)
    fake.advance(7)
    fake.requests.clear()
    counted = {"state": "available", "resource_class": "gold"}
    assert value(metrics, "nodes", **counted, maintenance="false") == 2
    assert value(metrics, "nodes", **counted, maintenance="true") == 1
    assert pool(metrics, "gold") == {"free": 1, "used": 1, "reserved": 1}
    assert pool(metrics, "silver") == {}, "it is not this service's"
    assert value(metrics, "inventory_stale") == 0
    assert value(metrics, "inventory_age_seconds") == 7
    assert value(metrics, "inventory_refresh_seconds_count", result="done") == 1
    labels = {"conductor_group": "rack1", "shard": "*", "by": "records"}
    assert value(metrics, "ownership_info", **labels, node_selection="scheduler") == 1
    assert list(fake.requests) == []
    fake.faults.status(503, count=None)
    stage.driver.get_available_nodes(refresh=True)
    assert value(metrics, "inventory_stale") == 1
    assert value(metrics, "inventory_refresh_seconds_count", result="failed") == 1
    assert pool(metrics, "gold") == {"free": 1, "used": 1, "reserved": 1}, "as last known"


def test_pools_are_those_that_the_compute_service_reports(fake, metrics, make) -> None:
    fake.add_nodes(3, resource_class="gold")
    fake.add_node(resource_class="gold", traits=["CUSTOM_GPU"])
    stage = make(node_selection="ironic")
    for name in stage.driver.get_available_nodes(refresh=True):
        inventory = stage.driver.get_inventory(name)
        traits = ",".join(inventory.traits)
        assert sum(pool(metrics, "gold", traits).values()) == inventory.total
    assert pool(metrics, "gold") == {"free": 3, "used": 0, "reserved": 0}


def test_the_ring_in_force_is_shown(metrics, make) -> None:
    stage = make(peer_list="compute1,compute2")
    stage.service.live = ["compute1", "compute2"]
    stage.driver.get_available_nodes(refresh=True)
    assert value(metrics, "ring_members") == 2


def test_requests_are_counted_by_kind() -> None:
    metrics = PrometheusMetrics("compute1", "1.2.3")
    metrics.request("GET", "/nodes/7f0c", "200", 0.1)
    metrics.request("GET", "/nodes/8a1d", "200", 0.3)
    metrics.request("GET", "", "refused", 60.0)
    kind = {"method": "GET", "path": "/nodes/{id}"}
    assert value(metrics, "ironic_requests_total", **kind, code="200") == 2
    assert value(metrics, "ironic_request_seconds_sum", **kind) == pytest.approx(0.4)
    assert value(metrics, "ironic_requests_total", method="GET", path="/", code="refused") == 1


def test_there_are_few_kinds_of_requests(fake: FakeIronic, make: Callable[..., Stage]) -> None:
    """No name of a node, a VIF or anything else gets into a label, and no other word is lost."""
    nodes = fake.add_nodes(2, ports=1)
    stage = make()
    instance = stage.instance(nodes[0])
    stage.spawn(instance)
    stage.driver.reboot(instance, "HARD")
    stage.destroy(instance)
    kinds = {kind_of(entry.path.removeprefix("/v1")) for entry in fake.requests}
    assert kinds == {
        "/",
        "/nodes",
        "/nodes/{id}",
        "/nodes/{id}/states/power",
        "/nodes/{id}/states/provision",
        "/nodes/{id}/vifs",
        "/ports",
    }
    assert kind_of("/nodes/7f0c/vifs/5f1f") == "/nodes/{id}/vifs/{id}"
    assert kind_of("/shards") == "/shards"


@pytest.mark.parametrize(
    ("error", "result"),
    [
        (exceptions.BuildAborted("n", "i", "no"), "aborted"),
        (exceptions.WaitCancelled("n", "i", "no"), "left"),
        (RuntimeError("no"), "failed"),
    ],
)
def test_how_a_wait_ended(error: Exception, result: str) -> None:
    clock = VirtualClock()
    metrics = PrometheusMetrics("compute1", "1.2.3", clock=clock)

    def fail() -> None:
        with metrics.waiting("rescue"):
            clock.now += 5
            raise error

    with pytest.raises(type(error)):
        fail()
    assert value(metrics, "wait_seconds_sum", kind="rescue", result=result) == 5
    assert value(metrics, "waits", kind="rescue") == 0


@pytest.mark.parametrize(("holds", "age"), [(True, 0.5), (False, None)])
def test_the_active_process_and_its_standby_are_told_apart(metrics, make, holds, age) -> None:
    stage = make()
    assert value(metrics, "active") is None
    lease: Any = SimpleNamespace(holds=holds, age=lambda: age, foreign_reports=2)
    stage.driver.lease = lease
    assert value(metrics, "active") == holds
    assert value(metrics, "lease_age_seconds") == age
    assert value(metrics, "foreign_reports") == 2
