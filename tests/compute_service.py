# SPDX-License-Identifier: Apache-2.0

"""A compute service with nothing but a name, records and a driver."""

import uuid
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from oslo_config import cfg

from ironic_virt import conf, virt
from ironic_virt.driver import IronicDriver
from ironic_virt.driver.loading import load_compute_driver

IMAGE = virt.ImageMeta("https://images.example.test/a.raw", checksum="ab" * 16)
OTHER_IMAGE = virt.ImageMeta("https://images.example.test/b.raw", checksum="cd" * 16)
FLAVOR = virt.Flavor("bm", vcpus=8, memory_mb=16384, root_gb=100)


class VirtAPI(virt.VirtAPI):
    """What a service answers to a driver: one that is alone, or shares its records.

    :ivar hosts: the records: the host that has an instance, by the instance's uuid.
    :ivar unwanted: why builds are not wanted any more.
    :ivar addresses: the fixed addresses of an instance's VIFs.
    """

    def __init__(self, host: str = "compute1", hosts: dict[str, str] | None = None) -> None:
        self._host = host
        self.hosts = {} if hosts is None else hosts
        self.unwanted: str | None = None
        self.addresses: Mapping[str, Sequence[str]] = {}

    @property
    def host(self) -> str:
        return self._host

    def live_hosts(self) -> Collection[str]:
        return [self.host]

    def owned_instance_uuids(self) -> Collection[str]:
        return {uuid for uuid, host in self.hosts.items() if host == self.host}

    def instance_hosts(self, uuids: Collection[str]) -> Mapping[str, str]:
        return {uuid: host for uuid, host in self.hosts.items() if uuid in uuids}

    def existing_instances(self, uuids: Collection[str]) -> Collection[str]:
        return self.hosts.keys() & set(uuids)

    def abort_reason(self, instance: virt.InstanceLike) -> str | None:
        return self.unwanted

    def fixed_addresses(self, instance: virt.InstanceLike) -> Mapping[str, Sequence[str]]:
        return self.addresses


class Service(VirtAPI):
    """A service that loads the driver from an operator's file by its entry point."""

    def __init__(self, config: Path, hosts: dict[str, str] | None = None) -> None:
        options = conf.load([str(config)])
        super().__init__(str(options.host), hosts)
        self.driver = self.make_driver(options)
        self.driver.init_host(self.host)

    def make_driver(self, options: cfg.ConfigOpts) -> IronicDriver:
        """Make the driver; called once."""
        return load_compute_driver(options, self)

    def instance_on(self, node: str, flavor: virt.Flavor = FLAVOR) -> virt.Instance:
        """A new instance, placed on a node."""
        return virt.Instance(str(uuid.uuid4()), "instance", flavor, host=self.host, node=node)

    def spawn(self, instance: virt.Instance, vifs: Sequence[virt.Vif] | None = None) -> None:
        """Reserve and deploy, as a compute service does."""
        self.driver.prepare_for_spawn(instance)
        if vifs is None:
            vifs = [virt.Vif(str(uuid.uuid4()))]
        self.driver.spawn(virt.DeployRequest(instance, IMAGE, vifs))

    def destroy(self, instance: virt.Instance) -> None:
        """Tear down, as a compute service does."""
        self.driver.destroy(instance)
