# SPDX-License-Identifier: Apache-2.0

"""Nova's config drive.

Its documents are Nova's own, so that they say what every other driver's say.  What Nova
can't know is which port of the node has which VIF: the driver writes those addresses.

Ironic takes metadata, user data, network data and vendor data as JSON and makes an image
with ``openstack/2012-08-10`` and ``openstack/latest`` of them.  Nova's own image also has
other versions, injected files, and metadata in the form of EC2.  A server for which these
say more gets an image of all of Nova's files.  No program is run for it, unless ``[DEFAULT]
config_drive_format`` is ``vfat``: then Nova makes the image.
"""

from __future__ import annotations

import base64
import dataclasses
import functools
import gzip
import json
import tempfile
import types
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from nova.api.metadata import base as instance_metadata
from nova.virt import configdrive
from oslo_config import cfg

from ironic_virt import virt
from ironic_virt.driver.deploy import iso_image

_LATEST = "/openstack/latest/"
_ISO = "iso9660"


def build_config_drive(
    conf: cfg.ConfigOpts,
    instance: Any,
    network_info: Any,
    injected_files: Sequence[tuple[str, bytes]],
    admin_password: str | None,
) -> virt.ConfigDrive:
    """What is on it; Nova's own image of it is made only if it is needed.

    :param conf: Nova's.
    :param network_info: Nova's.
    """
    metadata = instance_metadata.InstanceMetadata(
        instance,
        content=injected_files,
        extra_md={"admin_pass": admin_password} if admin_password else {},
        network_info=network_info,
    )
    why = _why_no_json(conf, instance, metadata)
    given = virt.ConfigDrive(
        meta_data=_document(metadata, "meta_data.json"),
        user_data=metadata.userdata_raw,
        network_data=_document(metadata, "network_data.json"),
        # Nova may have to ask for it, and does so for the image anyway.
        vendor_data=None if why else _document(metadata, "vendor_data2.json"),
        no_json=why,
    )
    return dataclasses.replace(
        given,
        network_data=_with_mtus(given.network_data, network_info),
        make_iso=functools.partial(_image, conf, metadata, given),
    )


def _with_mtus(document: Mapping[str, Any] | None, network_info: Any) -> Mapping[str, Any] | None:
    """Nova's network data with the MTU of each network, which it leaves out if there is DHCP."""
    if not document or not document.get("links"):
        return document
    mtus = {vif["id"]: vif["network"]["meta"].get("mtu") for vif in network_info}
    links = [
        link if link.get("mtu") is not None else {**link, "mtu": mtus.get(link.get("vif_id"))}
        for link in document["links"]
    ]
    return {**document, "links": links}


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
        document: dict[str, Any] = json.loads(metadata.lookup(_LATEST + name))
    except instance_metadata.InvalidMetadataPath:
        return {}
    return document


def _image(
    conf: cfg.ConfigOpts, metadata: Any, given: virt.ConfigDrive, wanted: virt.ConfigDrive
) -> str:
    """An image of Nova's own files, gzipped, in base64.

    :param given: the documents as Nova has made them, and ``wanted`` as they are to be.
    """
    files = dict(_files(metadata, given, wanted))
    if conf.config_drive_format == _ISO:
        # Nova would run ``[DEFAULT] mkisofs_cmd``, which may not be installed.
        return iso_image.pack_image(
            {
                path: content.encode() if isinstance(content, str) else content
                for path, content in files.items()
            }
        )
    with tempfile.TemporaryDirectory(prefix="ironic-virt-") as directory:
        image = Path(directory, "config-drive")
        source = types.SimpleNamespace(metadata_for_config_drive=files.items)
        with configdrive.ConfigDriveBuilder(instance_md=source) as builder:
            builder.make_drive(str(image))
        packed = gzip.compress(image.read_bytes(), mtime=0)
    return base64.b64encode(packed).decode("ascii")


def _files(
    metadata: Any, given: virt.ConfigDrive, wanted: virt.ConfigDrive
) -> Iterator[tuple[str, str | bytes]]:
    """Nova's files, with what the driver and hooks have changed in each version of them."""
    for path, content in metadata.metadata_for_config_drive():
        name = path.rpartition("/")[2] if path.startswith("openstack/") else ""
        if name == "meta_data.json" and wanted.meta_data != given.meta_data:
            changed = _changed(json.loads(content), given.meta_data, wanted.meta_data)
            yield path, json.dumps(changed)
        elif name == "network_data.json" and wanted.network_data != given.network_data:
            yield path, json.dumps(wanted.network_data)
        else:
            yield path, content


def _changed(
    document: Mapping[str, Any], given: Mapping[str, Any], wanted: Mapping[str, Any]
) -> dict[str, Any]:
    """A document with what makes ``wanted`` of ``given``; older ones have fewer keys."""
    changes = {
        key: value for key, value in wanted.items() if key not in given or given[key] != value
    }
    gone = given.keys() - wanted.keys()
    return {key: value for key, value in {**document, **changes}.items() if key not in gone}
