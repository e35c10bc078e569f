# SPDX-License-Identifier: Apache-2.0

"""Nova's config drive with the addresses that a node's ports really have.

Its documents are Nova's own, so that they say what every other driver's say.  What Nova
can't know is which port of the node has which VIF: Ironic does.

Ironic takes metadata, user data, network data and vendor data as JSON and makes an image
with ``openstack/2012-08-10`` and ``openstack/latest`` of them.  Nova's own image also has
other versions, injected files, and metadata in the form of EC2.  A server for which these
say more gets an image of all of Nova's files.  No program is run for it, unless ``[DEFAULT]
config_drive_format`` is ``vfat``: then Nova makes the image.
"""

from __future__ import annotations

import base64
import functools
import gzip
import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nova.api.metadata import base as instance_metadata
from nova.virt import configdrive, netutils
from oslo_config import cfg
from oslo_log import log as logging

from ironic_virt import virt
from ironic_virt.driver import Link, iso_image
from ironic_virt.driver.network_data import with_links

LOG = logging.getLogger(__name__)

_LATEST = "/openstack/latest/"
_ISO = "iso9660"


def is_wanted(instance: Any) -> bool:
    """Whether server, image or ``[DEFAULT] force_config_drive`` ask for one."""
    return bool(configdrive.required_by(instance))


def build(
    conf: cfg.ConfigOpts,
    instance: Any,
    network_info: Any,
    links: Mapping[str, Link],
    injected_files: Sequence[tuple[str, bytes]],
    admin_password: str | None,
) -> virt.ConfigDrive:
    """What is on it; Nova's own image of it only if it is needed.

    :param conf: Nova's.
    :param network_info: Nova's.
    :param links: the physical link of each VIF.
    """
    metadata = instance_metadata.InstanceMetadata(
        instance,
        content=injected_files,
        extra_md={"admin_pass": admin_password} if admin_password else {},
        network_info=network_info,
        network_metadata=network_data(netutils.get_network_metadata(network_info), links),
    )
    if why := _why_no_json(conf, instance, metadata):
        LOG.info("The config drive is sent as an image: %s", why, instance=instance)
        return virt.ConfigDrive(iso_gzip_base64=_image(conf, metadata))
    return virt.ConfigDrive(
        meta_data=_document(metadata, "meta_data.json"),
        user_data=metadata.userdata_raw,
        network_data=_document(metadata, "network_data.json"),
        vendor_data=_document(metadata, "vendor_data2.json"),
        make_iso=functools.partial(_image, conf, metadata),
    )


def _why_no_json(conf: cfg.ConfigOpts, instance: Any, metadata: Any) -> str | None:
    """Why only Nova's own image will do; ``None`` if Ironic's will too."""
    if metadata.content:
        return "it has files"
    if conf.config_drive_format != _ISO:
        return f"[DEFAULT] config_drive_format is {conf.config_drive_format}"
    if instance.flavor.ephemeral_gb or instance.flavor.swap:
        # Where they are, cloud-init reads in the metadata of EC2's form.
        return "the server has an ephemeral disk or swap space"
    if _document(metadata, "vendor_data.json"):
        return "[api] vendordata_jsonfile_path has data for vendor_data.json"
    return None


def _document(metadata: Any, name: str) -> dict[str, Any]:
    """One of Nova's documents; empty if there is none."""
    try:
        found: dict[str, Any] = json.loads(metadata.lookup(_LATEST + name))
    except instance_metadata.InvalidMetadataPath:
        return {}
    return found


def _image(conf: cfg.ConfigOpts, metadata: Any) -> str:
    """An image of Nova's own files, gzipped, in base64."""
    if conf.config_drive_format == _ISO:
        # Nova would run ``[DEFAULT] mkisofs_cmd``, which may not be installed.
        files = metadata.metadata_for_config_drive()
        return iso_image.build(
            {path: text.encode() if isinstance(text, str) else text for path, text in files}
        )
    with tempfile.TemporaryDirectory(prefix="ironic-virt-") as directory:
        image = Path(directory, "config-drive")
        with configdrive.ConfigDriveBuilder(instance_md=metadata) as builder:
            builder.make_drive(str(image))
        packed = gzip.compress(image.read_bytes(), mtime=0)
    return base64.b64encode(packed).decode("ascii")


def network_data(nova: Any, links: Mapping[str, Link]) -> Any:
    """Nova's ``network_data`` with physical addresses, and with bonds spelled out.

    :param nova: as Nova makes it from its records; ``None``: there is no network.
    """
    return None if nova is None else with_links(nova, links)
