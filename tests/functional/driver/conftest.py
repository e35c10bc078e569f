# SPDX-License-Identifier: Apache-2.0

"""Compute services that load the driver from an ini file by its entry point."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from ironic_virt import virt
from ironic_virt.testing.fake_ironic import Durations, FakeIronicServer
from tests import compute_service


class Service(compute_service.Service):
    """A compute service whose records have the instances that it builds."""

    def spawn(self, instance: virt.Instance, vifs: Sequence[virt.Vif] | None = None) -> None:
        self.hosts[instance.uuid] = self.host
        super().spawn(instance, vifs)

    def destroy(self, instance: virt.Instance) -> None:
        super().destroy(instance)
        self.hosts.pop(instance.uuid, None)


@pytest.fixture
def server() -> Iterator[FakeIronicServer]:
    """A fake Ironic over HTTP, in real time and quick."""
    durations = Durations(deploy=0.4, undeploy=0.1, clean=0.3)
    with FakeIronicServer(durations=durations) as running:
        yield running


@pytest.fixture
def start_service(tmp_path: Path, server: FakeIronicServer) -> Iterator[Callable[..., Service]]:
    """Start compute services that share their records; they are stopped at the end."""
    started: list[Service] = []
    hosts: dict[str, str] = {}

    def start(host: str = "compute1", **options: Any) -> Service:
        config = tmp_path / f"{host}.conf"
        lines = ["[DEFAULT]", f"host = {host}", "[ironic]", "auth_type = none"]
        lines += [f"endpoint_override = {server.url}", "api_retry_interval = 1"]
        lines += [f"{name} = {value}" for name, value in options.items()]
        config.write_text("\n".join(lines) + "\n")
        service = Service(config, hosts)
        started.append(service)
        return service

    yield start
    for service in started:
        service.driver.cleanup_host()
