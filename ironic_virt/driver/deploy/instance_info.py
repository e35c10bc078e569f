# SPDX-License-Identifier: Apache-2.0

"""A node's ``instance_info`` for a deployment, computed from the request by pure functions.

The keys are those that Ironic reads, and those that Nova's driver has written
for operators' tools, with the same forms (sizes as text).

An operator may have written other keys to the node's ``instance_info``, and those stay.  So the
names of our keys are written there, too (:data:`KEYS`).  Ironic itself clears them all when it
tears a node down (39.0.0).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from ironic_virt import exceptions
from ironic_virt.baremetal.node import Node
from ironic_virt.baremetal.patches import HIDDEN
from ironic_virt.driver.claim import KEY_PREFIX, own_keys, remove_key
from ironic_virt.driver.pools.allocation_extra import without_credentials
from ironic_virt.driver.resources import asked_capabilities
from ironic_virt.request import requirements
from ironic_virt.request.spec import image_properties, required_traits, traits_of_nodes
from ironic_virt.virt import DeployRequest, FlavorLike, ImageLike, Properties

# The texts of Ironic 39.0.0's exceptions that blame the image: InvalidImage and
# its kinds, ImageUnacceptable, ImageNotFound, InvalidImageRef, ImageRefValidationFailed.
# A failed download is not among them: another conductor may have a better network.
# From "Image failed" on they are those of ironic-python-agent 13.0.0.  A failed write is the
# image's fault only if that could not be read, and a failed boot loader only if there is none
# in it: either may be the disk's, or the firmware's.
_IMAGE_FAULTS = re.compile(
    r"\bInvalidImage"
    r"|The requested image\b"
    r"|The supplied image checksum"
    r"|Use of remote checksum files is not supported"
    r"|\bImage (tag )?\S+ (is unacceptable|could not be found)"
    r"|Invalid image href"
    r"|Validation of image href (?P<href>\S+) failed"
    r"|Not authorized for image"
    r"|Image failed to verify against checksum"
    r"|(Checksum file does not contain name|Invalid checksum file|Empty checksum file)"
    r"|Received status code 4(04|10) from \S+, expected 200"
    r"|Security: (Unable to safety check image|Image (matched|failed)|Detected image format"
    r"|Expected format)"
    r"|Writing image to device \S+ failed .*qemu-img: Could not open '(?!/dev/)"
    r"|Failed to install a bootloader.*(chroot: failed to run command"
    r"|grub2?-install: (command )?not found)",
    re.DOTALL,
)


IMAGE_PARTS = {
    "kernel_id": "kernel",
    "ramdisk_id": "ramdisk",
    "stage2_id": "stage2",
    "ks_template": "ks_template",
}
"""Where Ironic looks for what Glance's properties would tell it of an image."""

KEYS = "ironic_virt_keys"
"""The key of ``instance_info`` that names the others which were written with it."""

_NEVER_AN_OPERATORS = frozenset({KEYS, "configdrive", "image_url", "traits"})
"""What Ironic writes there for an instance, with a reservation or a deployment."""

FOUND_BY_IRONIC = frozenset(
    {
        "boot_iso",
        "image_checksum",
        "image_container_format",
        "image_disk_format",
        "image_os_hash_algo",
        "image_os_hash_value",
        "image_properties",
        "image_tags",
        "image_type",
        "kernel",
        "ks_template",
        "original_image_source",
        "preserve_ephemeral",
        "ramdisk",
        "stage2",
    }
)
"""What Ironic 39.0.0 finds out about an image and writes there, and what is for one rebuild."""

_FORMER_SIGN = "flavor_name"
"""Former versions, and Nova's driver, wrote it without :data:`KEYS`."""

# Of what Ironic takes as a step of a path.
_NAME = re.compile(r"[\w-]+")
_URL_BEYOND_GLANCE = re.compile(r"(?!glance://).*://")

# Ironic copies an instance's name into a column of 255 characters.  No database stores half a
# surrogate pair; MariaDB's utf8mb3 stores none beyond U+FFFF, and PostgreSQL no NUL.
_NOT_STORABLE = re.compile("[\x00\ud800-\udfff\U00010000-\U0010ffff]")
_LONGEST_NAME = 255

_YES = frozenset({"1", "t", "true", "on", "y", "yes"})


def is_ramdisk(properties: Properties) -> bool:
    """Whether an image is run from memory, by Ironic's deploy interface ``ramdisk``."""
    return str(properties.get("ironic_ramdisk_deploy") or "").strip().lower() in _YES


def is_image_fault(message: str | None, info: Mapping[str, Any] | None = None) -> bool:
    """Whether Ironic's message blames the image, so that no node would do better.

    :param info: the node's ``instance_info``.  A URL that is not in it belongs to the node or to
        Ironic, such as the deploy ramdisk's, and may differ on another node.
    """
    fault = _IMAGE_FAULTS.search(message or "")
    if fault is None:
        return False
    href = fault["href"]
    return info is None or href is None or "://" not in href or href in info.values()


def make_info(request: DeployRequest, node: Node, more: Mapping[str, str]) -> dict[str, Any]:
    """The node's ``instance_info`` for a deployment.

    :param more: further keys from the compute service, as text.
    :raises ImageRefused: the node's deploy interface would fail with the image.
    """
    instance, image = request.instance, request.image
    from_volume = request.boots_from_volume
    if not from_volume and (lacking := _parts_lacking(image, node)):
        raise exceptions.ImageRefused(
            node.uuid,
            instance.uuid,
            f"for Anaconda, image {without_credentials(image.id)} needs the properties {lacking}",
        )
    flavor = instance.flavor
    name = _NOT_STORABLE.sub("?", instance.display_name or instance.name)
    info: dict[str, Any] = {
        **{key: str(value) for key, value in more.items()},
        **({} if from_volume else _image(image)),
        "root_gb": str(flavor.root_gb),
        "swap_mb": str(flavor.swap),
        "display_name": name[:_LONGEST_NAME],
        "vcpus": str(flavor.vcpus),
        "memory_mb": str(flavor.memory_mb),
        "local_gb": str(node.properties.local_gb),
        "flavor_name": flavor.name,
    }
    for key, value in (
        ("nova_host_id", instance.host),
        ("project_id", instance.project_id),
        ("user_id", instance.user_id),
    ):
        if value is not None:
            info[key] = value
    if flavor.ephemeral_gb:
        info["ephemeral_gb"] = str(flavor.ephemeral_gb)
    if capabilities := required_capabilities(flavor, node):
        info["capabilities"] = json.dumps(capabilities, sort_keys=True)
    required = required_traits(flavor.extra_specs, image_properties(image))
    # Ironic looks for all of them at the node.
    if traits := traits_of_nodes(required, node.traits):
        info["traits"] = sorted(traits)
    return info


def name_keys(info: Mapping[str, Any]) -> dict[str, Any]:
    """What is to be written for an instance, with the names of its keys."""
    return {**info, KEYS: sorted(info)}


def own_names(info: Mapping[str, Any]) -> frozenset[str]:
    """The keys of a node's ``instance_info`` that were written for an instance.

    With ours go those in which Ironic has noted the image, or the next one would get them.
    """
    names = info.get(KEYS)
    certain = _NEVER_AN_OPERATORS.union(filter(_is_claim, info)).intersection(info)
    if isinstance(names, list):
        written = {name for name in names if isinstance(name, str)}
        return (certain | FOUND_BY_IRONIC | written).intersection(info)
    if _FORMER_SIGN in info:
        return frozenset(info)
    return certain


def _is_claim(key: str) -> bool:
    return key.startswith(KEY_PREFIX)


def make_patch(
    former: Mapping[str, Any], wanted: Mapping[str, Any], *, drops: frozenset[str] = frozenset()
) -> list[dict[str, Any]]:
    """From one ``instance_info`` to another.

    What Ironic hides it has written itself, so it is left; so is what it takes no path
    for, and what neither this package nor Ironic writes therefore.  So is the key that is an
    instance's own.

    :param drops: keys that go all the same.
    """

    def hidden(key: str, value: object) -> bool:
        is_left = _is_claim(key) or (isinstance(value, str) and HIDDEN in value)
        return is_left and key not in drops

    gone = [
        key
        for key, value in former.items()
        if (key in drops or key not in wanted) and not hidden(key, value) and _NAME.fullmatch(key)
    ]
    changes: list[dict[str, Any]] = [
        {"op": "remove", "path": f"/instance_info/{key}"} for key in gone
    ]
    changes += [
        {"op": "add", "path": f"/instance_info/{key}", "value": value}
        for key, value in wanted.items()
        if _NAME.fullmatch(key)
        and not _is_claim(key)
        and (key not in former or former[key] != value)
    ]
    return changes


def configure_patch(
    former: Mapping[str, Any], wanted: Mapping[str, Any], instance: str
) -> list[dict[str, Any]]:
    """The patch that makes a node ready for a deployment; what an operator has written stays.

    :param instance: its uuid; the key that is its own is written with the claim.
    """
    gone = own_names(former)
    kept = {key: value for key, value in former.items() if key not in gone}
    others = {*filter(_is_claim, former)}.difference(own_keys(former, instance))
    drops = (_NEVER_AN_OPERATORS | others) - wanted.keys()
    return make_patch(former, {**kept, **wanted}, drops=drops)


def release_patch(info: Mapping[str, Any], instance: str) -> list[dict[str, Any]]:
    """The patch that takes off what was written for an instance.

    :param instance: its uuid; the key that is its own goes first: see :mod:`.driver.claim`.
    """
    first = remove_key(info, instance)
    gone = own_names(info)
    if gone == info.keys():
        return [*first, {"op": "add", "path": "/instance_info", "value": {}}]
    return first + [
        {"op": "remove", "path": f"/instance_info/{key}"}
        for key in sorted(gone.difference(own_keys(info, instance)))
        if _NAME.fullmatch(key)
    ]


def _image(image: ImageLike) -> dict[str, Any]:
    if not image.id:
        raise exceptions.OperationNotSupported(
            "deploying without an image", "give the image's id, or its URL with a checksum"
        )
    info: dict[str, Any] = {"image_source": image.id}
    if not _URL_BEYOND_GLANCE.match(image.id):
        # Glance knows the checksum, the format, the kernel and the ramdisk.
        return info
    parts = {
        key: value for name, key in IMAGE_PARTS.items() if (value := image.properties.get(name))
    }
    is_run_from_memory = is_ramdisk(image.properties)
    if is_run_from_memory:
        info["ironic_ramdisk_deploy"] = "True"
    if is_run_from_memory and not {"kernel", "ramdisk"} <= parts.keys():
        # Ironic takes one of both.
        info["boot_iso"] = info.pop("image_source")
        return info
    info |= parts
    # A tree of packages for Anaconda has none: with a type said, Ironic takes it for one image.
    if not image.id.endswith("/"):
        # Said outright, because Ironic can't look it up for a URL.
        is_partition = {"kernel", "ramdisk"} <= parts.keys()
        info["image_type"] = "partition" if is_partition else "whole-disk"
    for key, attribute in (("image_checksum", "checksum"), ("image_disk_format", "disk_format")):
        if value := getattr(image, attribute, None):
            info[key] = value
    return info


def _parts_lacking(image: ImageLike, node: Node) -> str:
    """The properties that an image by URL lacks for the node's deploy interface.

    For an image in Glance, Ironic itself finds them when it deploys.  For a URL, Ironic 39.0.0
    notices late that they are missing, and then can't even tear the node down.
    """
    url = image.id or ""
    if node.deploy_interface != "anaconda" or not _URL_BEYOND_GLANCE.match(url):
        return ""
    needed = ["kernel_id", "ramdisk_id", *([] if url.endswith("/") else ["stage2_id"])]
    return ", ".join(name for name in needed if not image.properties.get(name))


def required_capabilities(flavor: FlavorLike, node: Node) -> dict[str, str]:
    """The ``capabilities:`` extra specs of a flavor, without the prefix.

    Ironic takes values and knows no operators: where the flavor has one (``<in> uefi``), it
    gets the node's own value.
    """
    own = dict(node.properties.capabilities)
    return {
        name: value if requirements.is_text(value) else own[name]
        for name, value in asked_capabilities(flavor.extra_specs).items()
        if requirements.is_text(value) or name in own
    }
