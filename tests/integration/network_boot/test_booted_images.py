# SPDX-License-Identifier: Apache-2.0

"""Images that are booted and not written, with Ironic's deploy interface ``ramdisk``."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

import real_ironic
from ironic_virt import exceptions, virt
from ironic_virt.exceptions import Disk
from tests.integration.network_boot.boot_files import BootFiles, Images
from tests.integration.network_boot.deployments import (
    MakeNode,
    assert_nothing_is_left,
    has_drive,
    iso_by_url,
    kernel_by_url,
    spawn,
)
from tests.integration.services import Operator, Service, flavor


def test_an_iso_image_is_booted(
    service: Service,
    operator: Operator,
    images: Images,
    boot_files: BootFiles,
    make_node: MakeNode,
    ironic: real_ironic.RealIronic,
) -> None:
    node = make_node("ramdisk")
    instance = service.instance_on(node)
    has_drive(service, virt.ConfigDrive(meta_data={"uuid": instance.uuid}))
    spawn(service, instance, iso_by_url(images))
    seen = operator.node(node)
    assert (seen["provision_state"], seen["power_state"]) == ("active", "power on")
    assert f"sanboot {boot_files.url}/{node}/boot_iso\n" in boot_files.text(node, "config")
    assert boot_files.text(node, "boot_iso") == "live.iso"
    said = [
        line
        for line in ironic.log_tail(2000).splitlines()
        if instance.uuid in line or node in line
    ]
    assert any("configuration drive will be ignored" in line for line in said)
    service.destroy(instance)
    assert_nothing_is_left(operator, boot_files, node)


def test_an_iso_image_by_url_is_not_rebuilt_and_the_error_says_so(
    service: Service,
    operator: Operator,
    images: Images,
    boot_files: BootFiles,
    make_node: MakeNode,
) -> None:
    node = make_node("ramdisk")
    instance = service.instance_on(node)
    spawn(service, instance, iso_by_url(images))
    before = operator.at_rest(node)
    with pytest.raises(exceptions.RebuildFailed, match="ISO image; delete it") as caught:
        service.rebuild(instance, iso_by_url(images))
    assert caught.value.disk is Disk.UNTOUCHED
    assert operator.node(node) == before
    assert boot_files.text(node, "boot_iso") == "live.iso"
    service.destroy(instance)


def kernel_in_glance(images: Images, kernel: str) -> virt.ImageMeta:
    parts = {"kernel_id": images.in_glance(kernel), "ramdisk_id": images.in_glance("ramdisk")}
    return virt.ImageMeta(images.in_glance("none", ironic_ramdisk_deploy="true", **parts))


@pytest.mark.parametrize("image", [kernel_by_url, kernel_in_glance])
def test_a_kernel_and_a_ramdisk_are_booted_and_rebuilt(
    service: Service,
    operator: Operator,
    images: Images,
    boot_files: BootFiles,
    make_node: MakeNode,
    image: Callable[[Images, str], virt.ImageMeta],
) -> None:
    node = make_node("ramdisk")
    instance = service.instance_on(node)
    spawn(service, instance, image(images, "kernel"))
    assert operator.node(node)["provision_state"] == "active"
    script = boot_files.text(node, "config")
    assert re.search(rf"^kernel {boot_files.url}/{node}/kernel root=/dev/ram0 ", script, re.M)
    assert f"initrd {boot_files.url}/{node}/ramdisk" in script
    assert boot_files.text(node, "kernel") == "kernel"
    assert boot_files.text(node, "ramdisk") == "ramdisk"
    service.rebuild(instance, image(images, "newer kernel"))
    assert operator.node(node)["provision_state"] == "active"
    assert boot_files.text(node, "kernel") == "newer kernel"
    service.destroy(instance)
    assert_nothing_is_left(operator, boot_files, node)


def test_an_iso_image_in_glance_is_booted_and_rebuilt(
    service: Service,
    operator: Operator,
    images: Images,
    boot_files: BootFiles,
    make_node: MakeNode,
) -> None:
    node = make_node("ramdisk")
    instance = service.instance_on(node)
    for name in ("live.iso", "newer.iso"):
        told = {"ironic_ramdisk_deploy": "true", "boot_iso_id": images.in_glance(name)}
        image = virt.ImageMeta(images.in_glance("none", **told))
        if name == "live.iso":
            spawn(service, instance, image)
        else:
            service.rebuild(instance, image)
        assert operator.node(node)["provision_state"] == "active"
        assert boot_files.text(node, "boot_iso") == name
    service.destroy(instance)
    assert_nothing_is_left(operator, boot_files, node)


def test_ironic_may_find_out_that_an_image_is_to_be_booted(
    service: Service, operator: Operator, images: Images, make_node: MakeNode
) -> None:
    node = make_node("autodetect")
    instance = service.instance_on(node)
    spawn(service, instance, iso_by_url(images))
    seen = operator.node(node)
    assert (seen["provision_state"], seen["deploy_interface"]) == ("active", "ramdisk")
    service.destroy(instance)
    assert operator.wait_for_state(node, "available")["deploy_interface"] == "autodetect"


@pytest.mark.parametrize(
    ("boot_mode", "script"), [("bios", "label boot_ramdisk"), ("uefi", 'menuentry "boot_ramdisk"')]
)
def test_the_boot_mode_of_the_flavor_is_that_of_the_boot_script(
    service: Service,
    operator: Operator,
    images: Images,
    boot_files: BootFiles,
    make_node: MakeNode,
    boot_mode: str,
    script: str,
) -> None:
    node = make_node("ramdisk", "pxe")
    instance = service.instance_on(node, flavor(capabilities__boot_mode=boot_mode))
    spawn(service, instance, kernel_by_url(images, "kernel"))
    assert script in boot_files.text(node, "config", root="tftp")
    service.destroy(instance)
    assert_nothing_is_left(operator, boot_files, node)


def test_a_boot_mode_that_there_is_not_is_refused_with_ironics_words(
    service: Service,
    operator: Operator,
    images: Images,
    boot_files: BootFiles,
    make_node: MakeNode,
) -> None:
    node = make_node("ramdisk")
    instance = service.instance_on(node, flavor(capabilities__boot_mode="warp"))
    with pytest.raises(exceptions.NodeValidationFailed, match=r"boot_mode.*'warp'.*bios, uefi"):
        spawn(service, instance, iso_by_url(images))
    assert_nothing_is_left(operator, boot_files, node)
