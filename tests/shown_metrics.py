# SPDX-License-Identifier: Apache-2.0

"""A driver to which everything that an alert is about happens, and what its metrics are for."""

import contextlib
import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from ironic_virt import conf, exceptions, virt
from ironic_virt.driver import IronicDriver
from ironic_virt.driver.loading import load_compute_driver
from ironic_virt.metrics import page
from ironic_virt.metrics.prometheus import PrometheusMetrics
from ironic_virt.testing.fake_ironic import FakeIronicServer
from tests.compute_service import FLAVOR, IMAGE, VirtAPI
from tests.ports import reserved_port

ROOT = Path(__file__).parents[1]
RULES = ROOT / "etc/prometheus/ironic-virt.rules.yaml"
DASHBOARD = ROOT / "etc/grafana/ironic-virt.json"


def rules() -> list[dict[str, Any]]:
    """The alerts."""
    (group,) = yaml.safe_load(RULES.read_text())["groups"]
    found: list[dict[str, Any]] = group["rules"]
    return found


def queries() -> Iterator[tuple[str, str]]:
    """Each query of the alerts and the dashboard, and where it is."""
    for rule in rules():
        yield rule["alert"], rule["expr"]
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        for target in panel["targets"]:
            query = target["expr"].replace("$instance", ".*").replace("$__rate_interval", "5m")
            yield panel["title"], query


def live(driver: IronicDriver, node: str) -> None:
    """A server's whole life."""
    instance = virt.Instance(str(uuid.uuid4()), "one", FLAVOR, host="compute1", node=node)
    driver.prepare_for_spawn(instance)
    driver.spawn(virt.DeployRequest(instance, IMAGE, [virt.Vif(str(uuid.uuid4()))]))
    driver.destroy(instance)


def happen(driver: IronicDriver, fake: Any) -> None:
    """All that an alert is about."""
    good, bad, taken, failed = fake.add_nodes(4, ports=1, resource_class="gold")
    fake.set_node(taken, instance_uuid=str(uuid.uuid4()))
    fake.set_node(failed, provision_state="clean failed")
    driver.init_host("compute1")
    live(driver, good)
    fake.fail_next("deploy", "no", bad)
    for node in (bad, taken):
        with pytest.raises(exceptions.NodeError):
            live(driver, node)
    for status in (401, 403, 503):
        fake.faults.status(status, count=1)
        with pytest.raises(exceptions.IronicError):
            driver.node_is_available(str(uuid.uuid4()))
    driver.get_available_nodes(refresh=True)


@contextlib.contextmanager
def shown(directory: Path) -> Iterator[str]:
    """The URL of its page after that.

    :param directory: for a file of options.
    """
    metrics = PrometheusMetrics("compute1", "1.2.3")
    metrics.node_pass(None)
    with FakeIronicServer() as server, reserved_port() as port:
        config = directory / "compute1.conf"
        config.write_text(
            "[DEFAULT]\nhost = compute1\n[ironic]\nauth_type = none\napi_max_retries = 0\n"
            f"endpoint_override = {server.url}\nmetrics_port = {port}\n"
        )
        options = conf.load([str(config)])
        service = VirtAPI()
        service.metrics = metrics
        driver = load_compute_driver(options, service)
        metrics.counts = driver.node_counts
        happen(driver, server.fake)
        # A real one ends this process when it is late.
        leased: Any = driver
        leased.lease = SimpleNamespace(
            holds=True, age=lambda: 0.5, foreign_reports=2, release=lambda: None
        )
        with page.served(options, page.application(metrics.registry)):
            yield f"http://127.0.0.1:{port}"
        driver.cleanup_host()
