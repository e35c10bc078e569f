# SPDX-License-Identifier: Apache-2.0

"""What is written to a node for a deployment."""

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


def info(image: ImageMeta, node: Node = NODE, **flavor: Any) -> dict[str, Any]:
    instance = Instance(
        uuid="6d2b4f02-0000-4000-8000-000000000001",
        name="instance-1",
        display_name="web",
        host="compute1",
        project_id="p1",
        user_id="u1",
        flavor=Flavor("bm.large", vcpus=8, memory_mb=1024, root_gb=10, swap=512, **flavor),
    )
    return instance_info.make_info(DeployRequest(instance, image), node, {"project_name": "Demo"})


def test_sizes_are_texts_and_the_names_are_novas() -> None:
    wanted = {
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
    assert info(ImageMeta(GLANCE_ID)) == wanted
    assert info(ImageMeta(GLANCE_ID), ephemeral_gb=20) == {**wanted, "ephemeral_gb": "20"}


def test_an_image_by_url_brings_its_checksum_and_its_type() -> None:
    told = info(ImageMeta("https://example.test/a.raw", checksum="ab" * 16, disk_format="raw"))
    assert (told["image_checksum"], told["image_disk_format"]) == ("ab" * 16, "raw")
    assert told["image_type"] == "whole-disk"


URL = "https://example.test/"
PARTS = {"kernel": f"{URL}k", "ramdisk": f"{URL}r", "stage2": f"{URL}s"}
KICKSTART = {"ks_template": f"{URL}ks.cfg"}


@pytest.mark.parametrize(
    ("image", "parts", "told"),
    [
        ("a.raw", ("kernel", "ramdisk"), {"image_type": "partition"}),
        ("live.tar", ("kernel", "ramdisk", "stage2"), KICKSTART),
        # A tree has no type.
        ("BaseOS/", ("kernel", "ramdisk"), {**KICKSTART, "image_type": None}),
    ],
    ids=["partitions", "a kickstart", "a kickstart of a tree"],
)
def test_a_kernel_and_a_ramdisk_make_a_partition_image(image, parts, told) -> None:
    properties = {f"{name}_id": PARTS[name] for name in parts}
    if "ks_template" in told:
        properties |= KICKSTART
    found = info(ImageMeta(URL + image, properties=properties))
    expected = {name: PARTS[name] for name in parts} | told
    assert {name: found.get(name) for name in expected} == expected
    assert found["image_source"] == URL + image


@pytest.mark.parametrize(
    ("url", "has", "lacks"),
    [
        ("https://a/live.tar", (), "kernel_id, ramdisk_id, stage2_id"),
        ("https://a/live.tar", ("kernel_id", "ramdisk_id"), "stage2_id"),
        ("https://a/BaseOS/", ("kernel_id",), "ramdisk_id"),
        ("https://a/BaseOS/", ("kernel_id", "ramdisk_id"), None),
        (GLANCE_ID, (), None),
        (f"glance://{GLANCE_ID}", (), None),
    ],
)
def test_anaconda_gets_no_image_that_lacks_a_part(url, has, lacks) -> None:
    node = msgspec.structs.replace(NODE, deploy_interface="anaconda")
    image = ImageMeta(url, properties=dict.fromkeys(has, "https://a/part"))
    instance = Instance("6d2b4f02-0000-4000-8000-000000000001", "web", Flavor("bm"))
    request = DeployRequest(instance, image)
    if lacks is None:
        assert instance_info.make_info(request, node, {})["image_source"] == url
        return
    with pytest.raises(exceptions.ImageRefused, match=f"properties {lacks}$") as caught:
        instance_info.make_info(request, node, {})
    assert not caught.value.retriable
    assert instance_info.make_info(request, NODE, {})
    from_volume = DeployRequest(instance, image, block_devices=[BlockDevice("v0", 0, {})])
    assert instance_info.make_info(from_volume, node, {})


def test_a_ramdisk_image_is_booted_whole_or_by_its_parts() -> None:
    properties = {"ironic_ramdisk_deploy": "true"}
    told = info(ImageMeta(f"{URL}a.iso", properties=properties))
    assert (told["boot_iso"], told["ironic_ramdisk_deploy"]) == (f"{URL}a.iso", "True")
    assert {"image_source", "image_type", "image_checksum"}.isdisjoint(told)
    parts = {"kernel_id": f"{URL}k", "ramdisk_id": f"{URL}r", "ironic_ramdisk_deploy": "1"}
    told = info(ImageMeta(f"{URL}r", properties=parts))
    assert (told["kernel"], told["ramdisk"]) == (f"{URL}k", f"{URL}r")
    assert (told["ironic_ramdisk_deploy"], told.get("boot_iso")) == ("True", None)


@pytest.mark.parametrize("image", [GLANCE_ID, f"glance://{GLANCE_ID}"])
def test_an_image_in_glance_tells_all_that_itself(image: str) -> None:
    properties = {"ironic_ramdisk_deploy": "true", "kernel_id": "k", "ramdisk_id": "r"}
    told = info(ImageMeta(image, properties=properties))
    assert told["image_source"] == image
    assert {"boot_iso", "kernel", "image_type"}.isdisjoint(told)


def test_capabilities_and_traits_of_the_flavor_are_required() -> None:
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


def test_for_an_operator_ironic_gets_the_nodes_own_value() -> None:
    own = NodeProperties(capabilities=(("boot_mode", "uefi"), ("cores", "64"), ("disk", "ssd")))
    specs = {
        "capabilities:boot_mode": "<or> bios <or> uefi",
        "capabilities:cores": ">= 32",
        "capabilities:secure_boot": "s== true",
        "capabilities:disk": "nvme",
    }
    told = info(
        ImageMeta(GLANCE_ID), msgspec.structs.replace(NODE, properties=own), extra_specs=specs
    )
    assert json.loads(told["capabilities"]) == {"boot_mode": "uefi", "cores": "64", "disk": "nvme"}


def test_traits_of_novas_own_are_none_of_a_nodes() -> None:
    specs = {
        f"trait:{name}": "required"
        for name in ("COMPUTE_NODE", "COMPUTE_TRUSTED_CERTS", "OWNER_NOVA", "HW_CPU_X86_VMX")
    }
    assert info(ImageMeta(GLANCE_ID), extra_specs=specs)["traits"] == ["HW_CPU_X86_VMX"]
    having = msgspec.structs.replace(NODE, traits=frozenset({"COMPUTE_NODE"}))
    assert info(ImageMeta(GLANCE_ID), having, extra_specs=specs)["traits"] == [
        "COMPUTE_NODE",
        "HW_CPU_X86_VMX",
    ]


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("web \U0001f600", "web ?"),
        ("a\0b\ud83d", "a?b?"),
        ("\u65e5\u672c \u00e4\u20ac\uffff", "\u65e5\u672c \u00e4\u20ac\uffff"),
        ("x" * 300, "x" * 255),
    ],
)
def test_a_name_is_told_as_ironics_database_can_hold_it(name: str, told: str) -> None:
    flavor = Flavor("bm")
    instance = Instance(uuid=NODE.uuid, name="i", display_name=name, flavor=flavor)
    request = DeployRequest(instance, ImageMeta(GLANCE_ID))
    assert instance_info.make_info(request, NODE, {})["display_name"] == told


def test_without_an_image_nothing_is_deployed() -> None:
    with pytest.raises(exceptions.OperationNotSupported, match="without an image"):
        info(ImageMeta(""))


@pytest.mark.parametrize(
    ("message", "blamed"),
    [
        ("Validation of image href http://x/y failed, reason: Got HTTP code 404", True),
        ("Image 0f7b could not be found.", True),
        ("Image 0f7b is unacceptable: it is a floppy", True),
        ("The requested image is not valid for use.", True),
        ("The supplied image checksum is invalid or does not match.", True),
        ("Invalid image href ftp://x.", True),
        ("boom InvalidImage boom", True),
        (None, False),
        ("", False),
        ("Timeout reached while waiting for callback", False),
        ("Failed to download image http://x/y, reason: no route to host", False),
        ("Node 0f7b could not be found.", False),
    ],
)
def test_a_fault_of_the_image_is_told_apart(message: str | None, blamed: bool) -> None:
    assert instance_info.is_image_fault(message) is blamed


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
