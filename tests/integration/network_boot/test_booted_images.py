# SPDX-License-Identifier: Apache-2.0

"""Images that are booted and not written, with Ironic's deploy interface ``ramdisk``."""

import re

import pytest

from ironic_virt import exceptions, virt
from ironic_virt.exceptions import Disk
from tests.integration.network_boot.boot_files import Images
from tests.integration.network_boot.deployments import (
    BootStage,
    has_drive,
    iso_by_url,
    kernel_by_url,
)
from tests.integration.services import flavor


def test_an_iso_image_is_booted(stage: BootStage) -> None:
    node = stage.boot_node("ramdisk")
    instance = stage.service.instance_on(node)
    has_drive(stage.service, virt.ConfigDrive(meta_data={"uuid": instance.uuid}))
    stage.spawn(instance, iso_by_url(stage.images))
    seen = stage.operator.node(node)
    assert (seen["provision_state"], seen["power_state"]) == ("active", "power on")
    url = f"{stage.boot_files.url}/{node}"
    assert f"sanboot {url}/boot_iso\n" in stage.text(node, "config")
    assert stage.text(node, "boot_iso") == "live.iso"
    said = [
        line
        for line in stage.ironic.log_tail(2000).splitlines()
        if instance.uuid in line or node in line
    ]
    assert any("configuration drive will be ignored" in line for line in said)
    before = stage.operator.at_rest(node)
    with pytest.raises(exceptions.RebuildFailed, match="ISO image; delete it") as caught:
        stage.service.rebuild(instance, iso_by_url(stage.images))
    assert caught.value.disk is Disk.UNTOUCHED
    assert stage.operator.node(node) == before
    assert stage.text(node, "boot_iso") == "live.iso"
    stage.service.destroy(instance)
    stage.assert_nothing_is_left(node)


def kernel_in_glance(images: Images, kernel: str) -> virt.ImageMeta:
    parts = {"kernel_id": images.in_glance(kernel), "ramdisk_id": images.in_glance("ramdisk")}
    return virt.ImageMeta(images.in_glance("none", ironic_ramdisk_deploy="true", **parts))


@pytest.mark.parametrize("image", [kernel_by_url, kernel_in_glance])
def test_a_kernel_and_a_ramdisk_are_booted_and_rebuilt(stage, image) -> None:
    node = stage.boot_node("ramdisk")
    instance = stage.service.instance_on(node)
    stage.spawn(instance, image(stage.images, "kernel"))
    assert stage.operator.node(node)["provision_state"] == "active"
    script = stage.text(node, "config")
    url = f"{stage.boot_files.url}/{node}"
    assert re.search(rf"^kernel {url}/kernel root=/dev/ram0 ", script, re.M)
    assert f"initrd {url}/ramdisk" in script
    assert stage.text(node, "kernel") == "kernel"
    assert stage.text(node, "ramdisk") == "ramdisk"
    stage.service.rebuild(instance, image(stage.images, "newer kernel"))
    assert stage.operator.node(node)["provision_state"] == "active"
    assert stage.text(node, "kernel") == "newer kernel"
    stage.service.destroy(instance)
    stage.assert_nothing_is_left(node)


def test_an_iso_image_in_glance_is_booted_and_rebuilt(stage: BootStage) -> None:
    node = stage.boot_node("ramdisk")
    instance = stage.service.instance_on(node)
    for name, deploy in (("live.iso", stage.spawn), ("newer.iso", stage.service.rebuild)):
        told = {"ironic_ramdisk_deploy": "true", "boot_iso_id": stage.images.in_glance(name)}
        deploy(instance, virt.ImageMeta(stage.images.in_glance("none", **told)))
        assert stage.operator.node(node)["provision_state"] == "active"
        assert stage.text(node, "boot_iso") == name
    stage.service.destroy(instance)
    stage.assert_nothing_is_left(node)


def test_ironic_may_find_out_that_an_image_is_to_be_booted(stage: BootStage) -> None:
    node = stage.boot_node("autodetect")
    instance = stage.service.instance_on(node)
    stage.spawn(instance, iso_by_url(stage.images))
    seen = stage.operator.node(node)
    assert (seen["provision_state"], seen["deploy_interface"]) == ("active", "ramdisk")
    stage.service.destroy(instance)
    assert stage.operator.wait_for_state(node, "available")["deploy_interface"] == "autodetect"


@pytest.mark.parametrize(
    ("boot_mode", "script"), [("bios", "label boot_ramdisk"), ("uefi", 'menuentry "boot_ramdisk"')]
)
def test_the_boot_mode_of_the_flavor_is_that_of_the_boot_script(stage, boot_mode, script) -> None:
    node = stage.boot_node("ramdisk", "pxe")
    instance = stage.service.instance_on(node, flavor(capabilities__boot_mode=boot_mode))
    stage.spawn(instance, kernel_by_url(stage.images, "kernel"))
    assert script in stage.text(node, "config", root="tftp")
    stage.service.destroy(instance)
    stage.assert_nothing_is_left(node)


def test_an_unknown_boot_mode_is_refused_with_ironics_words(stage: BootStage) -> None:
    node = stage.boot_node("ramdisk")
    instance = stage.service.instance_on(node, flavor(capabilities__boot_mode="warp"))
    with pytest.raises(exceptions.NodeValidationFailed, match=r"boot_mode.*'warp'.*bios, uefi"):
        stage.spawn(instance, iso_by_url(stage.images))
    stage.assert_nothing_is_left(node)
