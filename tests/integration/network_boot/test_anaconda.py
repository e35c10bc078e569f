# SPDX-License-Identifier: Apache-2.0

"""Installations by Anaconda, whose part the tests play, with Ironic's deploy interface."""

from __future__ import annotations

import base64
import subprocess

import pytest

import real_ironic
from ironic_virt import exceptions, virt
from tests.integration.network_boot.boot_files import API, KICKSTART, BootFiles, Images, Installer
from tests.integration.network_boot.deployments import (
    CHECKSUM,
    MakeNode,
    assert_nothing_is_left,
    has_drive,
    installation,
    spawn,
)
from tests.integration.services import Operator, Service


def parts_of_anaconda(images: Images) -> dict[str, str]:
    return {
        "kernel_id": images.file("kernel"),
        "ramdisk_id": images.file("ramdisk"),
        "stage2_id": images.file("stage2"),
        "ks_template": images.file("ks.cfg", KICKSTART),
    }


def by_url(images: Images, name: str) -> virt.ImageMeta:
    return virt.ImageMeta(
        images.file(name), checksum=CHECKSUM, properties=parts_of_anaconda(images)
    )


def config_drive(ironic: real_ironic.RealIronic, user_data: str) -> virt.ConfigDrive:
    """One whose image can be made without a program on this host."""
    script = (
        "import base64, gzip, io, sys, pycdlib\n"
        "data = sys.stdin.buffer.read()\n"
        "iso = pycdlib.PyCdlib()\n"
        "iso.new(interchange_level=3, rock_ridge='1.09', vol_ident='config-2')\n"
        "iso.add_directory('/OPENSTACK', rr_name='openstack')\n"
        "iso.add_directory('/OPENSTACK/LATEST', rr_name='latest')\n"
        "iso.add_fp(io.BytesIO(data), len(data), '/OPENSTACK/LATEST/DATA.;1',"
        " rr_name='user_data')\n"
        "image = io.BytesIO()\n"
        "iso.write_fp(image)\n"
        "print(base64.b64encode(gzip.compress(image.getvalue())).decode(), end='')\n"
    )

    def make(drive: virt.ConfigDrive) -> str:
        python = str(ironic.environment.python)
        done = subprocess.run(
            [python, "-c", script], input=user_data, capture_output=True, text=True, check=True
        )
        return done.stdout

    return virt.ConfigDrive(user_data=user_data, make_iso=make)


def test_anaconda_installs_and_its_end_is_that_of_the_deployment(
    service: Service,
    operator: Operator,
    images: Images,
    boot_files: BootFiles,
    installer: Installer,
    make_node: MakeNode,
    ironic: real_ironic.RealIronic,
) -> None:
    node = make_node("anaconda")
    instance = service.instance_on(node)
    has_drive(service, config_drive(ironic, "#!/bin/sh\n"))
    going_on = installation(
        service, operator, node, lambda: spawn(service, instance, by_url(images, "a.tar"))
    )
    script = boot_files.text(node, "config")
    assert f"inst.ks={boot_files.url}/{node}/ks.cfg inst.stage2={boot_files.url}/{node} " in script
    assert boot_files.text(node, "kernel") == "kernel"
    assert boot_files.text(node, "LiveOS/squashfs.img") == "stage2"
    kickstart = boot_files.text(node, "ks.cfg")
    assert f"liveimg --url {images.url}/a.tar\n" in kickstart
    assert f"{API}/v1/heartbeat/{node}" in kickstart
    assert "/openstack/latest/user_data" in kickstart
    assert base64.b64encode(b"#!/bin/sh\n").decode() in kickstart
    installer.report(node, "start", "off we go")
    assert not going_on.is_over
    installer.report(node, "end", "that is it")
    going_on.result()
    seen = operator.node(node)
    assert (seen["provision_state"], seen["power_state"]) == ("active", "power on")
    assert boot_files.of(node) == [], "it boots from its disk"

    anew = installation(
        service, operator, node, lambda: service.rebuild(instance, by_url(images, "b.tar"))
    )
    assert f"liveimg --url {images.url}/b.tar\n" in boot_files.text(node, "ks.cfg")
    installer.report(node, "end", "that is it")
    anew.result()
    assert operator.node(node)["provision_state"] == "active"
    service.destroy(instance)
    assert_nothing_is_left(operator, boot_files, node)


def test_what_anaconda_fails_with_is_told_and_undone(
    service: Service,
    operator: Operator,
    images: Images,
    boot_files: BootFiles,
    installer: Installer,
    make_node: MakeNode,
) -> None:
    node = make_node("anaconda")
    instance = service.instance_on(node)
    going_on = installation(
        service, operator, node, lambda: spawn(service, instance, by_url(images, "a.tar"))
    )
    installer.report(node, "error", "no disk is large enough")
    with pytest.raises(exceptions.DeployFailed, match="no disk is large enough") as caught:
        going_on.result()
    assert caught.value.retriable
    assert_nothing_is_left(operator, boot_files, node)


def test_anaconda_installs_from_a_tree_of_packages(
    service: Service,
    operator: Operator,
    images: Images,
    boot_files: BootFiles,
    installer: Installer,
    make_node: MakeNode,
) -> None:
    node = make_node("anaconda")
    instance = service.instance_on(node)
    images.file("BaseOS/index.html")
    parts = parts_of_anaconda(images)
    del parts["stage2_id"]
    tree = virt.ImageMeta(f"{images.url}/BaseOS/", properties=parts)
    going_on = installation(service, operator, node, lambda: spawn(service, instance, tree))
    assert f"inst.repo={images.url}/BaseOS/ " in boot_files.text(node, "config")
    installer.report(node, "end", "that is it")
    going_on.result()
    assert operator.node(node)["provision_state"] == "active"
    service.destroy(instance)


def test_an_image_that_lacks_a_part_does_not_cost_a_node(
    service: Service,
    operator: Operator,
    images: Images,
    boot_files: BootFiles,
    make_node: MakeNode,
) -> None:
    """Ironic would take it, fail, and then fail to tear the node down."""
    node = make_node("anaconda")
    parts = parts_of_anaconda(images)
    del parts["stage2_id"]
    image = virt.ImageMeta(images.file("a.tar"), checksum=CHECKSUM, properties=parts)
    with pytest.raises(exceptions.ImageRefused, match=r"needs the properties stage2_id$"):
        spawn(service, service.instance_on(node), image)
    assert_nothing_is_left(operator, boot_files, node)


def test_of_an_image_in_glance_ironic_itself_says_so(
    service: Service,
    operator: Operator,
    images: Images,
    boot_files: BootFiles,
    make_node: MakeNode,
) -> None:
    node = make_node("anaconda")
    parts = {"kernel_id": images.in_glance("kernel"), "ramdisk_id": images.in_glance("ramdisk")}
    image = virt.ImageMeta(images.in_glance("a.tar", **parts))
    with pytest.raises(exceptions.NodeValidationFailed, match=r"missing .* stage2_id"):
        spawn(service, service.instance_on(node), image)
    assert_nothing_is_left(operator, boot_files, node)


def test_a_template_of_ironics_own_that_it_cannot_read_is_not_the_images_fault(
    service: Service,
    operator: Operator,
    images: Images,
    boot_files: BootFiles,
    make_node: MakeNode,
) -> None:
    """Its directory is not among ``[conductor] file_url_allowed_paths`` by default."""
    node = make_node("anaconda")
    parts = parts_of_anaconda(images)
    del parts["ks_template"]
    image = virt.ImageMeta(images.file("a.tar"), checksum=CHECKSUM, properties=parts)
    with pytest.raises(exceptions.DeployFailed, match="is not allowed") as caught:
        spawn(service, service.instance_on(node), image)
    assert not isinstance(caught.value, exceptions.ImageRefused)
    assert caught.value.retriable
    assert_nothing_is_left(operator, boot_files, node)
