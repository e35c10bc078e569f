# SPDX-License-Identifier: Apache-2.0

"""Installations by Anaconda, whose part the tests play, with Ironic's deploy interface."""

import base64

import pytest

from ironic_virt import exceptions, virt
from ironic_virt.driver.deploy import iso_image
from ironic_virt.driver.deploy.config_drive import list_files
from tests.integration.network_boot.boot_files import API, KICKSTART, TURN_SECONDS, Images
from tests.integration.network_boot.deployments import CHECKSUM, BootStage, has_drive


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


def config_drive(user_data: str) -> virt.ConfigDrive:
    """One whose image can be made without a program on this host."""
    return virt.ConfigDrive(
        user_data=user_data, make_image=lambda drive: iso_image.make_image(list_files(drive, "a"))
    )


def test_anaconda_installs_and_its_end_is_that_of_the_deployment(stage: BootStage) -> None:
    node = stage.boot_node("anaconda")
    instance = stage.service.instance_on(node)
    has_drive(stage.service, config_drive("#!/bin/sh\n"))
    going_on = stage.spawning(instance, by_url(stage.images, "a.tar"))
    script = stage.text(node, "config")
    url = f"{stage.boot_files.url}/{node}"
    assert f"inst.ks={url}/ks.cfg inst.stage2={url} " in script
    assert stage.text(node, "kernel") == "kernel"
    assert stage.text(node, "LiveOS/squashfs.img") == "stage2"
    kickstart = stage.text(node, "ks.cfg")
    assert f"liveimg --url {stage.images.url}/a.tar\n" in kickstart
    assert f"{API}/v1/heartbeat/{node}" in kickstart
    assert "/openstack/latest/user_data" in kickstart
    assert base64.b64encode(b"#!/bin/sh\n").decode() in kickstart
    stage.installer.report(node, "start", "off we go")
    assert not going_on.done()
    stage.installer.report(node, "end", "that is it")
    going_on.result(TURN_SECONDS)
    seen = stage.operator.node(node)
    assert (seen["provision_state"], seen["power_state"]) == ("active", "power on")
    assert stage.boot_files.of(node) == [], "it boots from its disk"

    other = by_url(stage.images, "b.tar")
    anew = stage.installing(instance, lambda: stage.service.rebuild(instance, other))
    assert f"liveimg --url {stage.images.url}/b.tar\n" in stage.text(node, "ks.cfg")
    stage.installer.report(node, "end", "that is it")
    anew.result(TURN_SECONDS)
    assert stage.operator.node(node)["provision_state"] == "active"
    stage.service.destroy(instance)
    stage.assert_nothing_is_left(node)


def test_what_anaconda_fails_with_is_told_and_undone(stage: BootStage) -> None:
    node = stage.boot_node("anaconda")
    instance = stage.service.instance_on(node)
    going_on = stage.spawning(instance, by_url(stage.images, "a.tar"))
    stage.installer.report(node, "error", "no disk is large enough")
    with pytest.raises(exceptions.DeployFailed, match="no disk is large enough") as caught:
        going_on.result(TURN_SECONDS)
    assert caught.value.retriable
    stage.assert_nothing_is_left(node)


def test_anaconda_installs_from_a_tree_of_packages(stage: BootStage) -> None:
    node = stage.boot_node("anaconda")
    instance = stage.service.instance_on(node)
    stage.images.file("BaseOS/index.html")
    parts = parts_of_anaconda(stage.images)
    del parts["stage2_id"]
    tree = virt.ImageMeta(f"{stage.images.url}/BaseOS/", properties=parts)
    going_on = stage.spawning(instance, tree)
    assert f"inst.repo={stage.images.url}/BaseOS/ " in stage.text(node, "config")
    stage.installer.report(node, "end", "that is it")
    going_on.result(TURN_SECONDS)
    assert stage.operator.node(node)["provision_state"] == "active"
    stage.service.destroy(instance)


def test_an_image_that_lacks_a_part_does_not_cost_a_node(stage: BootStage) -> None:
    node = stage.boot_node("anaconda")
    parts = parts_of_anaconda(stage.images)
    name = stage.images.file("a.tar")
    # Ironic would take it, fail, and then fail to tear the node down.
    without = {key: value for key, value in parts.items() if key != "stage2_id"}
    image = virt.ImageMeta(name, checksum=CHECKSUM, properties=without)
    with pytest.raises(exceptions.ImageRefused, match=r"needs the properties stage2_id$"):
        stage.spawn(stage.service.instance_on(node), image)
    stage.assert_nothing_is_left(node)

    # Of an image in Glance, Ironic itself says so.
    in_glance = {key: stage.images.in_glance(key) for key in ("kernel_id", "ramdisk_id")}
    image = virt.ImageMeta(stage.images.in_glance("a.tar", **in_glance))
    with pytest.raises(exceptions.NodeValidationFailed, match=r"missing .* stage2_id"):
        stage.spawn(stage.service.instance_on(node), image)
    stage.assert_nothing_is_left(node)

    # A template of Ironic's own that it can't read is not the image's fault: its directory is
    # not among `[conductor] file_url_allowed_paths` by default.
    without = {key: value for key, value in parts.items() if key != "ks_template"}
    image = virt.ImageMeta(name, checksum=CHECKSUM, properties=without)
    with pytest.raises(exceptions.DeployFailed, match="is not allowed") as caught:
        stage.spawn(stage.service.instance_on(node), image)
    assert not isinstance(caught.value, exceptions.ImageRefused)
    assert caught.value.retriable
    stage.assert_nothing_is_left(node)
