# SPDX-License-Identifier: Apache-2.0

"""Nova's config drive.

Its documents are Nova's own, so that they say what every other driver's say.  What Nova
can't know is which port of the node has which VIF: the driver writes those addresses.

Ironic takes metadata, user data, network data and vendor data as JSON and makes an image
with ``openstack/2012-08-10`` and ``openstack/latest`` of them.  Nova's own image also has
other versions, injected files, and metadata in the form of EC2.  A server for which these
say more gets an image of all of Nova's files.  It is ISO 9660, also with ``[DEFAULT]
config_drive_format = vfat``, and no program is run for it.
"""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Mapping, Sequence
from typing import Any

from nova.api.metadata import base as instance_metadata

from ironic_virt import virt
from ironic_virt.driver.deploy import iso_image

_LATEST = "/openstack/latest/"


def build_config_drive(
    instance: Any,
    network_info: Any,
    injected_files: Sequence[tuple[str, bytes]],
    admin_password: str | None,
) -> virt.ConfigDrive:
    """What is on it; Nova's own image of it is made only if it is needed.

    :param network_info: Nova's.
    """
    metadata = instance_metadata.InstanceMetadata(
        instance,
        content=injected_files,
        extra_md={"admin_pass": admin_password} if admin_password else {},
        network_info=network_info,
    )
    why = _why_no_json(instance, metadata)
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
        make_image=functools.partial(_image, metadata, given),
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


def _why_no_json(instance: Any, metadata: Any) -> str | None:
    """Why only Nova's own image will do; ``None`` if Ironic's will too."""
    if metadata.content:
        return "it has files"
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


def _image(metadata: Any, given: virt.ConfigDrive, wanted: virt.ConfigDrive) -> bytes:
    """An image of Nova's own files, with what the driver and hooks have changed in each version.

    :param given: the documents as Nova has made them, and ``wanted`` as they are to be.
    """
    changed: dict[str, bytes] = {}
    if wanted.meta_data != given.meta_data:
        changed["meta_data.json"] = json.dumps(wanted.meta_data).encode()
    if wanted.network_data != given.network_data:
        changed["network_data.json"] = json.dumps(wanted.network_data).encode()
    files: dict[str, bytes] = {}
    for path, content in metadata.metadata_for_config_drive():
        name = path.rpartition("/")[2] if path.startswith("openstack/") else ""
        text = changed.get(name, content)
        files[path] = text.encode() if isinstance(text, str) else text
    return iso_image.make_image(files)
