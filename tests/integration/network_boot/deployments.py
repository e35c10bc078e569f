# SPDX-License-Identifier: Apache-2.0

"""Instances on nodes that boot over the network, and what is left of them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from ironic_virt import virt
from tests.integration.network_boot.boot_files import TURN_SECONDS, BootFiles, Images
from tests.integration.services import Operator, Service

MakeNode = Callable[..., str]
CHECKSUM = "ab" * 16


class Background:
    """A call that goes on while the test does something else."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._error: BaseException | None = None
        self._call = call
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._call()
        except BaseException as exc:
            self._error = exc

    @property
    def is_over(self) -> bool:
        return not self._thread.is_alive()

    def result(self) -> None:
        """Return when it has, or raise what it has raised."""
        self._thread.join(TURN_SECONDS)
        assert self.is_over
        if self._error is not None:
            raise self._error


def iso_by_url(images: Images) -> virt.ImageMeta:
    """An ISO image that is booted."""
    return virt.ImageMeta(images.file("live.iso"), properties={"ironic_ramdisk_deploy": "true"})


def kernel_by_url(images: Images, kernel: str) -> virt.ImageMeta:
    """A kernel with this in it, and a ramdisk, that are booted."""
    parts = {"kernel_id": images.file(kernel), "ramdisk_id": images.file("ramdisk")}
    return virt.ImageMeta(
        images.file("ramdisk"), properties={"ironic_ramdisk_deploy": "true", **parts}
    )


def has_drive(service: Service, drive: virt.ConfigDrive | None) -> None:
    service.config_drive = lambda *_, **__: drive  # type: ignore[method-assign]


def spawn(service: Service, instance: virt.Instance, image: virt.ImageMeta) -> None:
    service.driver.prepare_for_spawn(instance)
    vifs = [virt.Vif(instance.uuid)]
    service.driver.spawn(virt.DeployRequest(instance, image, vifs))


def assert_nothing_is_left(operator: Operator, boot_files: BootFiles, node: str) -> None:
    seen = operator.wait_for_state(node, "available")
    assert (seen["instance_uuid"], seen["instance_info"]) == (None, {})
    assert boot_files.of(node) == []
    assert operator.vifs(node) == []


def installation(
    service: Service, operator: Operator, node: str, call: Callable[[], None]
) -> Background:
    """A deployment that waits for its installer by now."""
    going_on = Background(call)
    operator.wait(node, lambda now: now["provision_state"] == "wait call-back" or going_on.is_over)
    if going_on.is_over:
        going_on.result()
    return going_on
