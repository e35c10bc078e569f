# SPDX-License-Identifier: Apache-2.0

"""What Ironic is told about a deployment."""

import json
from typing import Any

import msgspec
import pytest

from ironic_virt import exceptions
from ironic_virt.baremetal.node import Node
from ironic_virt.baremetal.properties import NodeProperties
from ironic_virt.driver.deploy import instance_info
from ironic_virt.virt import BlockDevice, DeployRequest, Flavor, ImageMeta, Instance

NODE = Node(uuid="a1b2c3d4-0000-4000-8000-000000000000", properties=NodeProperties(local_gb=500))
GLANCE_ID = "0f7bb2a1-0000-4000-8000-000000000000"


def info(image: ImageMeta, **flavor: Any) -> dict[str, Any]:
    instance = Instance(
        uuid="6d2b4f02-0000-4000-8000-000000000001",
        name="instance-1",
        display_name="web",
        host="compute1",
        project_id="p1",
        user_id="u1",
        flavor=Flavor("bm.large", vcpus=8, memory_mb=1024, root_gb=10, swap=512, **flavor),
    )
    return instance_info.wanted(DeployRequest(instance, image), NODE, {"project_name": "Demo"})


def test_sizes_are_texts_and_the_names_are_novas() -> None:
    assert info(ImageMeta(GLANCE_ID)) == {
        "image_source": GLANCE_ID,
        "root_gb": "10",
        "swap_mb": "512",
        "display_name": "web",
        "vcpus": "8",
        "memory_mb": "1024",
        "local_gb": "500",
        "flavor_name": "bm.large",
        "nova_host_id": "compute1",
        "project_id": "p1",
        "user_id": "u1",
        "project_name": "Demo",
    }


def test_ephemeral_disk_is_told_only_when_there_is_one() -> None:
    assert "ephemeral_gb" not in info(ImageMeta(GLANCE_ID))
    assert info(ImageMeta(GLANCE_ID), ephemeral_gb=20)["ephemeral_gb"] == "20"


def test_an_image_by_url_brings_its_checksum_and_its_type() -> None:
    told = info(ImageMeta("https://example.test/a.raw", checksum="ab" * 16, disk_format="raw"))
    assert told["image_checksum"] == "ab" * 16
    assert told["image_disk_format"] == "raw"
    assert told["image_type"] == "whole-disk"


def test_a_kernel_and_a_ramdisk_make_a_partition_image() -> None:
    parts = {"kernel_id": "https://example.test/k", "ramdisk_id": "https://example.test/r"}
    told = info(ImageMeta("https://example.test/a.raw", properties=parts))
    assert (told["image_type"], told["kernel"], told["ramdisk"]) == (
        "partition",
        "https://example.test/k",
        "https://example.test/r",
    )


def test_a_kickstart_needs_more_parts() -> None:
    url = "https://example.test/"
    parts = {
        "kernel_id": f"{url}k",
        "ramdisk_id": f"{url}r",
        "stage2_id": f"{url}s",
        "ks_template": f"{url}ks.cfg",
    }
    told = info(ImageMeta(f"{url}live.tar", properties=parts))
    assert (told["stage2"], told["ks_template"]) == (f"{url}s", f"{url}ks.cfg")
    assert told["image_source"] == f"{url}live.tar"


def test_a_kickstart_may_install_from_a_tree_which_has_no_type() -> None:
    url = "https://example.test/"
    parts = {"kernel_id": f"{url}k", "ramdisk_id": f"{url}r", "ks_template": f"{url}ks.cfg"}
    told = info(ImageMeta(f"{url}BaseOS/", properties=parts))
    assert told["image_source"] == f"{url}BaseOS/"
    assert "image_type" not in told


@pytest.mark.parametrize(
    ("url", "has", "lacks"),
    [
        ("https://a/live.tar", (), "kernel_id, ramdisk_id, stage2_id"),
        ("https://a/live.tar", ("kernel_id", "ramdisk_id"), "stage2_id"),
        ("https://a/BaseOS/", ("kernel_id",), "ramdisk_id"),
        ("https://a/BaseOS/", ("kernel_id", "ramdisk_id"), None),
        (GLANCE_ID, (), None),
    ],
)
def test_a_node_that_anaconda_installs_gets_no_image_that_lacks_a_part(
    url: str, has: tuple[str, ...], lacks: str | None
) -> None:
    node = msgspec.structs.replace(NODE, deploy_interface="anaconda")
    image = ImageMeta(url, properties=dict.fromkeys(has, "https://a/part"))
    instance = Instance("6d2b4f02-0000-4000-8000-000000000001", "web", Flavor("bm"))
    request = DeployRequest(instance, image)
    if lacks is None:
        assert instance_info.wanted(request, node, {})["image_source"] == url
        return
    with pytest.raises(exceptions.ImageRefused, match=f"properties {lacks}$") as caught:
        instance_info.wanted(request, node, {})
    assert not caught.value.retriable
    assert instance_info.wanted(request, NODE, {})
    from_volume = DeployRequest(instance, image, block_devices=[BlockDevice("v0", 0, {})])
    assert instance_info.wanted(from_volume, node, {})


def test_an_image_to_be_run_from_memory_is_booted_as_it_is() -> None:
    image = ImageMeta("https://example.test/a.iso", properties={"ironic_ramdisk_deploy": "true"})
    told = info(image)
    assert (told["boot_iso"], told["ironic_ramdisk_deploy"]) == (image.id, "True")
    assert {"image_source", "image_type", "image_checksum"}.isdisjoint(told)


def test_or_it_is_a_kernel_and_a_ramdisk() -> None:
    parts = {"kernel_id": "https://example.test/k", "ramdisk_id": "https://example.test/r"}
    image = ImageMeta("https://example.test/r", properties={**parts, "ironic_ramdisk_deploy": "1"})
    told = info(image)
    assert (told["kernel"], told["ramdisk"]) == tuple(parts.values())
    assert told["ironic_ramdisk_deploy"] == "True"
    assert "boot_iso" not in told


def test_an_image_in_glance_tells_all_that_itself() -> None:
    properties = {"ironic_ramdisk_deploy": "true", "kernel_id": "k", "ramdisk_id": "r"}
    told = info(ImageMeta(GLANCE_ID, properties=properties))
    assert told["image_source"] == GLANCE_ID
    assert {"boot_iso", "kernel", "image_type"}.isdisjoint(told)


def test_capabilities_and_traits_of_the_flavor_are_required_of_the_node() -> None:
    specs = {
        "capabilities:boot_mode": "uefi",
        "capabilities:secure_boot": "true",
        "trait:CUSTOM_A": "required",
        "trait1:CUSTOM_B": "required",
        "trait_FAST-NET:CUSTOM_D": "required",
        "trait:CUSTOM_C": "forbidden",
        "resources:CUSTOM_GOLD": "1",
        "traits_are_nice": "required",
    }
    properties = {"traits_required": ["CUSTOM_I", "CUSTOM_A"], "trait:CUSTOM_J": "required"}
    image = ImageMeta(GLANCE_ID, properties=properties)
    told = info(image, extra_specs=specs)
    assert json.loads(told["capabilities"]) == {"boot_mode": "uefi", "secure_boot": "true"}
    assert told["traits"] == ["CUSTOM_A", "CUSTOM_B", "CUSTOM_D", "CUSTOM_I", "CUSTOM_J"]


def test_without_an_image_nothing_is_deployed() -> None:
    with pytest.raises(exceptions.OperationNotSupported, match="without an image"):
        info(ImageMeta(""))


@pytest.mark.parametrize(
    "message",
    [
        "Validation of image href http://x/y failed, reason: Got HTTP code 404",
        "Image 0f7b could not be found.",
        "Image 0f7b is unacceptable: it is a floppy",
        "The requested image is not valid for use.",
        "The supplied image checksum is invalid or does not match.",
        "Invalid image href ftp://x.",
        "boom InvalidImage boom",
    ],
)
def test_a_fault_of_the_image_is_told_apart(message: str) -> None:
    assert instance_info.is_image_fault(message)


@pytest.mark.parametrize(
    ("href", "blamed"),
    [
        ("https://a/image", True),
        ("https://a/kernel", True),
        ("secreturl", True),
        ("https://ironic/ipa.kernel", False),
        ("file:///usr/share/ironic/ks.cfg.template", False),
    ],
)
def test_what_ironic_has_of_its_own_is_not_blamed_on_the_image(href: str, blamed: bool) -> None:
    told = {"image_source": "https://a/image", "kernel": "https://a/kernel", "mark": {}}
    message = f"Failed to prepare to deploy: Validation of image href {href} failed, reason: x"
    assert instance_info.is_image_fault(message, told) is blamed


@pytest.mark.parametrize(
    "message",
    [
        None,
        "",
        "Timeout reached while waiting for callback",
        "Failed to download image http://x/y, reason: no route to host",
        "Node 0f7b could not be found.",
    ],
)
def test_other_failures_are_not_blamed_on_the_image(message: str | None) -> None:
    assert not instance_info.is_image_fault(message)
