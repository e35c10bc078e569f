# SPDX-License-Identifier: Apache-2.0

"""``--image`` and what says more of it."""

from __future__ import annotations

import argparse

from ironic_virt import virt
from ironic_virt.cmd import arguments
from ironic_virt.cmd.commands import Row, argument, group
from ironic_virt.compute import images


def options(default: str | None = None) -> Row:
    """The arguments.

    :param default: what it is without ``--image``; ``None``: ``--image`` is required.
    """
    return group(
        "the image",
        argument(
            "--image",
            required=default is None,
            metavar="<image>",
            help="An http(s)://, file:/// or oci:// URL, or the id of an image in Glance"
            + (f" (default: {default})." if default else "."),
        ),
        argument(
            "--image-checksum",
            metavar="<checksum>",
            help="MD5, SHA-256 or SHA-512 in hex, or the URL of a file of such digests;"
            " needed for http(s).",
        ),
        argument(
            "--image-format",
            metavar="<format>",
            help="The image's format, raw or qcow2 for example (default: Ironic finds out).",
        ),
        argument(
            "--image-property",
            action=arguments.KeyValue,
            default={},
            dest="image_properties",
            metavar="<key=value>",
            help="A property of the image; kernel_id and ramdisk_id make it a partition image"
            " (may be repeated).",
        ),
    )


def lone_option(parsed_args: argparse.Namespace) -> str | None:
    """The first option that says more of an image that isn't given."""
    if parsed_args.image is not None:
        return None
    for option in ("checksum", "format"):
        if getattr(parsed_args, f"image_{option}") is not None:
            return f"--image-{option}"
    return "--image-property" if parsed_args.image_properties else None


def image(parsed_args: argparse.Namespace) -> virt.ImageMeta:
    """The image that is asked for.

    :raises InvalidRequest: Ironic would not take it.
    """
    return images.image(
        parsed_args.image,
        checksum=parsed_args.image_checksum,
        disk_format=parsed_args.image_format,
        properties=parsed_args.image_properties,
    )
