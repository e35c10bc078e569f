# SPDX-License-Identifier: Apache-2.0

"""Images as people name them, checked before anything is written down.

What Ironic would refuse in the middle of a deployment is refused here at once,
as far as the name alone tells.  Nothing is fetched.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from urllib import parse

from ironic_virt import virt
from ironic_virt.compute.errors import InvalidRequest

_DIGEST = re.compile(r"[0-9a-fA-F]{32}|[0-9a-fA-F]{64}|[0-9a-fA-F]{128}")
_FETCHED = ("http", "https")
_FORMATS = ("raw", "qcow2", "iso", "vhd", "vhdx", "vmdk", "vdi", "gpt", "unknown")


def image(
    href: str,
    *,
    checksum: str | None = None,
    disk_format: str | None = None,
    properties: Mapping[str, str] | None = None,
) -> virt.ImageMeta:
    """An image that Ironic can be told of.

    :param href: an ``http(s)://``, ``file://`` or ``oci://`` URL, or the id of an
        image in Glance.
    :param checksum: an MD5, SHA-256 or SHA-512 digest in hex, or the URL of a file
        of such digests.  Needed for ``http(s)``; others may have one, but for
        images in Glance, which knows it.
    :param properties: ``kernel_id`` and ``ramdisk_id`` make it a partition image;
        ``ironic_ramdisk_deploy`` says that it is run from memory.
    :raises InvalidRequest: it is none of these.
    """
    properties = dict(properties or {})
    if disk_format is not None and disk_format not in _FORMATS:
        raise InvalidRequest(
            f"the image format {disk_format!r} is not known: use one of {', '.join(_FORMATS)}"
        )
    scheme = _scheme(href)
    if scheme == "glance":
        for what, value in (("a checksum", checksum), ("a format", disk_format)):
            if value is not None:
                raise InvalidRequest(
                    f"the image {href} is in Glance, which knows it: {what} can't be given"
                )
    elif scheme in _FETCHED and checksum is None and not _is_ramdisk(properties):
        raise InvalidRequest(
            f"the image {href} needs a checksum, or Ironic won't deploy it: an MD5, SHA-256 or "
            "SHA-512 digest, or the URL of a file of them"
        )
    if checksum is not None and not _is_checksum(checksum):
        raise InvalidRequest(
            f"the image checksum {checksum!r} is neither an MD5, SHA-256 or SHA-512 digest nor "
            "the URL of a file of them"
        )
    if ("kernel_id" in properties) != ("ramdisk_id" in properties):
        raise InvalidRequest("an image needs both kernel_id and ramdisk_id, or neither")
    return virt.ImageMeta(href, checksum, disk_format, properties)


def _scheme(href: str) -> str:
    try:
        uuid.UUID(href)
    except ValueError:
        pass
    else:
        return "glance"
    try:
        url = parse.urlsplit(href)
    except ValueError:
        url = parse.SplitResult("", "", "", "", "")
    complete = {
        **dict.fromkeys((*_FETCHED, "oci"), bool(url.hostname and url.path.strip("/"))),
        "file": url.path.startswith("/") and not url.netloc and url.path != "/",
        "glance": bool(url.netloc),
    }
    if any(letter.isspace() for letter in href) or not complete.get(url.scheme):
        raise InvalidRequest(
            f"the image {href!r} is neither an http(s)://, file:/// or oci:// URL nor the id of "
            "an image in Glance"
        )
    return url.scheme


def _is_ramdisk(properties: Mapping[str, str]) -> bool:
    if "ironic_ramdisk_deploy" not in properties:
        return False
    # The driver takes long to import, and commands mostly do without.
    from ironic_virt.driver.deploy.instance_info import is_ramdisk

    return is_ramdisk(properties)


def _is_checksum(text: str) -> bool:
    if _DIGEST.fullmatch(text):
        return True
    try:
        url = parse.urlsplit(text)
    except ValueError:
        return False
    return url.scheme in _FETCHED and bool(url.hostname)
