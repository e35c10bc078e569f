# SPDX-License-Identifier: Apache-2.0

"""Compute services that load the driver from an ini file by its entry point."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from ironic_virt import conf, virt
from ironic_virt.driver.loading import load_compute_driver
from ironic_virt.testing.fake_ironic import Durations, FakeIronic, FakeIronicServer
from tests.clock import StoppableClock

IMAGE = virt.ImageMeta("https://images.example.test/a.raw", checksum="ab" * 16)
FLAVOR = virt.Flavor("bm", vcpus=8, memory_mb=16384, root_gb=100)


class Records:
    """What services that share records know of each other.

    :ivar live: the hosts that are up; empty: each knows only of itself.
    :ivar hosts: the host that has an instance, by the instance's uuid.
    :ivar nodes: the host that has a node's record, by the node's uuid.
    """

    def __init__(self) -> None:
        self.live: set[str] = set()
        self.hosts: dict[str, str] = {}
        self.nodes: dict[str, str] = {}


class Service(virt.VirtAPI):
    """A compute service with nothing but a name, a driver and records."""

    def __init__(self, host: str, config: Path, records: Records) -> None:
        self._host = host
        self._records = records
        self.driver = load_compute_driver(conf.load([str(config)]), self)
        self.driver.init_host(host)

    @property
    def host(self) -> str:
        return self._host

    def live_hosts(self) -> Collection[str]:
        return self._records.live | {self._host}

    def owned_instance_uuids(self) -> Collection[str]:
        return {uuid for uuid, host in self._records.hosts.items() if host == self._host}

    def node_owners(self, uuids: Collection[str]) -> Mapping[str, str]:
        return {uuid: host for uuid, host in self._records.nodes.items() if uuid in uuids}

    def abort_reason(self, instance: virt.InstanceLike) -> str | None:
        return None

    def instance_on(self, node: str) -> virt.Instance:
        """A new instance, placed on a node."""
        return virt.Instance(str(uuid.uuid4()), "instance", FLAVOR, host=self._host, node=node)

    def spawn(self, instance: virt.Instance) -> None:
        """Reserve and deploy, as a compute service does."""
        self._records.hosts[instance.uuid] = self._host
        self.driver.prepare_for_spawn(instance)
        vif = virt.Vif(str(uuid.uuid4()))
        self.driver.spawn(virt.DeployRequest(instance, IMAGE, [vif]))

    def destroy(self, instance: virt.Instance) -> None:
        """Tear down, as a compute service does."""
        self.driver.destroy(instance)
        self._records.hosts.pop(instance.uuid, None)


@pytest.fixture
def ironic_clock() -> StoppableClock:
    """The clock of the fake Ironic."""
    return StoppableClock()


@pytest.fixture
def server(ironic_clock: StoppableClock) -> Iterator[FakeIronicServer]:
    """A fake Ironic over HTTP, in real time and quick."""
    durations = Durations(deploy=0.4, undeploy=0.1, clean=0.3)
    with FakeIronicServer(FakeIronic(clock=ironic_clock, durations=durations)) as running:
        yield running


@pytest.fixture
def records() -> Records:
    """The records that all services of a test share."""
    return Records()


@pytest.fixture
def start_service(
    tmp_path: Path, server: FakeIronicServer, records: Records
) -> Iterator[Callable[..., Service]]:
    """Start compute services; they are stopped at the end."""
    started: list[Service] = []

    def start(host: str = "compute1", **options: Any) -> Service:
        config = tmp_path / f"{host}.conf"
        lines = ["[DEFAULT]", f"host = {host}", "[ironic]", "auth_type = none"]
        lines += [f"endpoint_override = {server.url}", "api_retry_interval = 1"]
        lines += [f"{name} = {value}" for name, value in options.items()]
        config.write_text("\n".join(lines) + "\n")
        service = Service(host, config, records)
        started.append(service)
        return service

    yield start
    for service in started:
        service.driver.cleanup_host()
