# SPDX-License-Identifier: Apache-2.0

"""A compute service in small: it loads the driver and deploys one instance."""

import pathlib
import sys
import uuid

from ironic_virt import conf, virt
from ironic_virt.driver.loading import load_compute_driver


class Service(virt.VirtAPI):
    """What the driver may ask of this service."""

    host = "compute-1"

    def __init__(self) -> None:
        self.instances: set[str] = set()

    def live_hosts(self) -> list[str]:
        return [self.host]

    def owned_instance_uuids(self) -> set[str]:
        return self.instances

    def abort_reason(self, instance: virt.InstanceLike) -> str | None:
        return None if instance.uuid in self.instances else "it was deleted"


def deploy(config_file: str) -> None:
    service = Service()
    driver = load_compute_driver(conf.load([config_file]), service)
    driver.init_host(service.host)
    try:
        free = [
            node
            for node in driver.get_available_nodes(refresh=True)
            if driver.get_inventory(node).reserved == 0
        ]
        instance = virt.Instance(
            uuid=str(uuid.uuid4()),
            name="instance-1",
            flavor=virt.Flavor("gold", root_gb=10),
            node=free[0],
        )
        image = virt.ImageMeta(id="http://images.example.org/debian.raw", checksum="0" * 64)
        service.instances.add(instance.uuid)
        driver.prepare_for_spawn(instance)
        driver.spawn(virt.DeployRequest(instance, image))
        print("deployed on node", instance.node)
        driver.destroy(instance)
        print("destroyed")
    finally:
        driver.cleanup_host()


if __name__ == "__main__":
    deploy(sys.argv[1] if len(sys.argv) > 1 else str(pathlib.Path("ironic-virt.conf")))
