# SPDX-License-Identifier: Apache-2.0

"""``[ironic] metrics_port`` in the real Nova."""

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests
from prometheus_client import parser

from ironic_virt.testing.fake_ironic import Durations, FakeIronic, FakeIronicServer, RealClock
from tests.nova.deployment import RESOURCE_CLASS
from tests.nova.services import Services
from tests.ports import reserved_port


class TestMetrics(Services):
    """One compute service, which is scraped."""

    @pytest.fixture(autouse=True)
    def _given(self) -> Iterator[None]:
        fake = FakeIronic(clock=RealClock(), durations=Durations(deploy=1.0))
        with FakeIronicServer(fake) as server, reserved_port() as port:
            self._fake, self._ironic, self._port = fake, server, port
            yield

    def setUp(self) -> None:
        super().setUp()
        self.start_nova(self._ironic, api_retry_interval=1)

    def value(self, name: str, **labels: str) -> float:
        """The sum of what is shown by that name with these labels."""
        answer = requests.get(f"http://127.0.0.1:{self._port}/metrics", timeout=30)
        assert answer.status_code == 200
        return sum(
            sample.value
            for family in parser.text_string_to_metric_families(answer.text)
            for sample in family.samples
            if sample.name == f"ironic_virt_{name}" and labels.items() <= {**sample.labels}.items()
        )

    def pool(self, use: str) -> float:
        return self.value("pool_nodes", resource_class=RESOURCE_CLASS, use=use)

    def told(self) -> str:
        """What our part of the service has logged as errors."""
        lines = self.stdlog.logger.output.splitlines()
        return "\n".join(line for line in lines if "[ironic_virt." in line and " ERROR " in line)

    def test_a_server_is_built_and_all_of_it_is_seen(self) -> None:
        self._fake.add_nodes(3, resource_class=RESOURCE_CLASS)
        compute = self.start_compute("compute1", metrics_port=self._port)
        assert self.value("service_info", host="compute1") == 1
        assert (self.pool("free"), self.pool("used")) == (3, 0)
        server = self.new_server()
        assert self.value("nodes", state="active", resource_class=RESOURCE_CLASS) == 1
        assert (self.pool("free"), self.pool("used")) == (2, 1)
        assert self.value("build_seconds_count", result="done") == 1
        for step in ("reserving", "configuring", "deploying"):
            assert self.value("build_step_seconds_count", step=step, result="done") == 1
        assert self.value("wait_seconds_sum", kind="deploy", result="done") > 0.5
        deploy = {"method": "PUT", "path": "/nodes/{id}/states/provision"}
        assert self.value("ironic_requests_total", **deploy, code="202") == 1
        assert self.value("ironic_request_seconds_count", **deploy) == 1
        refreshes = self.value("inventory_refresh_seconds_count", result="done")
        self.refresh(compute)
        assert self.value("inventory_refresh_seconds_count", result="done") == refreshes + 1
        assert self.value("inventory_age_seconds") < 60
        assert self.value("inventory_stale") == 0
        self.delete(server)
        assert self.value("wait_seconds_count", kind="tear down", result="done") == 1

        compute.stop()
        with pytest.raises(requests.ConnectionError):
            self.value("inventory_stale")
        self.start_compute("compute1", metrics_port=self._port)
        assert self.value("build_seconds_count", result="done") == 0, "another driver's"
        assert self.told() == ""

    def test_pools_are_as_in_placement(self) -> None:
        self._fake.add_nodes(3, resource_class=RESOURCE_CLASS)
        options = {"node_selection": "ironic", "metrics_port": self._port}
        compute = self.start_compute("compute1", **options)
        server = self.new_server()
        self.refresh(compute)
        assert (self.pool("free"), self.pool("used"), self.pool("reserved")) == (2, 1, 0)
        (provider,) = self._get_all_providers()
        assert self.value("pool_nodes", pool=provider["name"]) == 3
        (inventory,) = self._get_provider_inventory(provider["uuid"]).values()
        assert inventory["total"] == 3
        self.delete(server)

    def test_a_port_that_is_in_use_stops_nothing(self) -> None:
        self._fake.add_node(resource_class=RESOURCE_CLASS)
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            self.start_compute("compute1", metrics_port=port)
            server = self.new_server()
            self.delete(server)
        assert f"[ironic] metrics_port: can't listen on 127.0.0.1:{port}" in self.told()

    def test_a_package_that_is_missing_stops_nothing(self) -> None:
        self._fake.add_node(resource_class=RESOURCE_CLASS)
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(sys.modules, "ironic_virt.metrics.prometheus", None)
            self.start_compute("compute1", metrics_port=self._port)
        assert "'ironic-virt[metrics]'" in self.told()
        server = self.new_server()
        self.delete(server)


def test_without_the_option_nothing_is_loaded() -> None:
    program = (
        "import sys, threading\n"
        "import nova.conf\n"
        "from ironic_virt.nova import driver, metrics, options\n"
        "options.register_opts(nova.conf.CONF)\n"
        "nova.conf.CONF([], default_config_files=[])\n"
        "offered = metrics.Offered(nova.conf.CONF)\n"
        "offered.begin(None)\n"
        "assert threading.active_count() == 1\n"
        "names = [name for name in sys.modules if 'ironic_virt.metrics' in name]\n"
        "print(names)\n"
    )
    result = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
    )
    assert result.stdout == "[]\n"
