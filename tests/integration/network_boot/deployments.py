# SPDX-License-Identifier: Apache-2.0

"""Instances on nodes that boot over the network, and what is left of them."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from ironic_virt import virt
from tests.integration.network_boot.boot_files import BootFiles, Images, Installer
from tests.integration.services import Service, node_of
from tests.integration.stage import Stage
from tools import real_ironic

CHECKSUM = "ab" * 16


def background(call: Callable[[], None]) -> Future[None]:
    """A call that goes on while the test does something else."""
    going_on: Future[None] = Future()

    def run() -> None:
        try:
            going_on.set_result(call())
        except BaseException as exc:
            going_on.set_exception(exc)

    threading.Thread(target=run, daemon=True).start()
    return going_on


def iso_by_url(images: Images) -> virt.ImageMeta:
    return virt.ImageMeta(images.file("live.iso"), properties={"ironic_ramdisk_deploy": "true"})


def kernel_by_url(images: Images, kernel: str) -> virt.ImageMeta:
    """A kernel with this in it, and a ramdisk, that are booted."""
    parts = {"kernel_id": images.file(kernel), "ramdisk_id": images.file("ramdisk")}
    return virt.ImageMeta(
        images.file("ramdisk"), properties={"ironic_ramdisk_deploy": "true", **parts}
    )


def has_drive(service: Service, drive: virt.ConfigDrive | None) -> None:
    service.config_drive = lambda *_, **__: drive  # type: ignore[method-assign]


class BootStage(Stage):
    """A stage whose nodes boot over the network; its instances have no config drive.

    :ivar images: where images are.
    :ivar boot_files: what Ironic makes of them.
    :ivar installer: Anaconda.
    """

    def __init__(
        self, ironic: real_ironic.RealIronic, directory: Path, boot_files: BootFiles
    ) -> None:
        super().__init__(ironic, directory)
        self.boot_files, self.images = boot_files, boot_files.images
        self.installer = Installer(ironic, boot_files)

    def another_service(self, **options: Any) -> Service:
        service = super().another_service(**options)
        has_drive(service, None)
        return service

    def boot_node(
        self,
        deploy_interface: str,
        boot_interface: str = "ipxe",
        shard: str | None = None,
        resource_class: str = "baremetal",
        **fields: Any,
    ) -> str:
        """A free node with such fields."""
        # The fake management interface knows no disk to boot from.
        told = {
            "deploy_interface": deploy_interface,
            "boot_interface": boot_interface,
            "management_interface": "noop",
        }
        return self.node(fields=told | fields, shard=shard, resource_class=resource_class)

    def spawn(self, instance: virt.Instance, image: virt.ImageMeta) -> None:
        """Deploy an image."""
        self.service.driver.prepare_for_spawn(instance)
        vifs = [virt.Vif(instance.uuid)]
        self.service.driver.spawn(virt.DeployRequest(instance, image, vifs))

    def spawning(self, instance: virt.Instance, image: virt.ImageMeta) -> Future[None]:
        """A deployment that waits for its installer by now."""
        return self.installing(instance, lambda: self.spawn(instance, image))

    def installing(self, instance: virt.Instance, call: Callable[[], None]) -> Future[None]:
        """A deployment or a rebuild that waits for its installer by now."""
        going_on = background(call)
        self.operator.wait(
            node_of(instance),
            lambda now: now["provision_state"] == "wait call-back" or going_on.done(),
        )
        if going_on.done():
            going_on.result(0)
        return going_on

    def text(self, node: str, name: str, *, root: str = "http") -> str:
        """A file that Ironic has laid out for a node."""
        return self.boot_files.text(node, name, root=root)

    def assert_nothing_is_left(self, node: str) -> None:
        """See that a node is free, and that Ironic has kept nothing for it."""
        seen = self.operator.wait_for_state(node, "available")
        assert (seen["instance_uuid"], seen["instance_info"]) == (None, {})
        assert self.boot_files.of(node) == []
        assert self.operator.vifs(node) == []
