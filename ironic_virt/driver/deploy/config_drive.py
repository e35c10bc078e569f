# SPDX-License-Identifier: Apache-2.0

"""The config drive of an instance, in the form in which Ironic takes it.

Usually that is JSON, which the conductor turns into an image when it deploys.  JSON has room
for metadata, user data that is text, network data and vendor data.  An image with the same files
is made here if JSON can't carry the contents or they are nested too deeply, if ``[ironic]
config_drive_form`` says so, and for nodes that Anaconda installs: Ironic 39.0.0 fails with the
JSON form when it writes their kickstart file.  A service may make the image in its own way.

The config drive is written to the node with the claim and the image, where Ironic finds it when
it deploys.  So a late request of a former instance can't deploy its own.  One that is too large
for that goes with the request to deploy; one that is too large for both is refused before
Ironic is asked for anything.  No error and no log line holds any of the contents.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from typing import Any

from oslo_log import log as logging

from ironic_virt import exceptions
from ironic_virt.baremetal.node import Node
from ironic_virt.baremetal.patches import JsonPatch
from ironic_virt.driver.deploy import iso_image
from ironic_virt.driver.hooks import Calls
from ironic_virt.driver.network import Network
from ironic_virt.driver.network_data import network_data, with_links, with_mtus
from ironic_virt.driver.site import Site
from ironic_virt.virt import ConfigDrive, DeployRequest

LOG = logging.getLogger(__name__)

Form = str | dict[str, Any]
"""An image, gzipped and in base64, or the JSON form."""

MIB = 1024**2
LARGEST_IMAGE = 64 * MIB
"""Ironic's agent makes the partition for the unpacked image no larger."""

LARGEST_REQUEST = 64 * MIB
"""Ironic's default of ``[api] max_json_body_size_provision``."""

LARGEST_PATCH = 960 * 1024
"""Bytes of a patch with a config drive; Ironic's ``[api] max_json_body_size`` is 1 MiB."""

DEEPEST = 23
"""Levels of the JSON form: Ironic's default of ``[api] max_json_body_depth`` is 25 for a body."""

VERSIONS = ("2012-08-10", "latest")
"""The directories that Ironic's conductor writes; each has all files."""

# Of an image: tables, directories, and what is padded at its end.
_OVERHEAD = 384 * 1024
_SECTOR = 2048
# What stands around the config drive in the request.
_AROUND = 1024

_TOO_LARGE = 413


class ConfigDrives:
    """Makes config drives.  Thread-safe: it keeps nothing."""

    def __init__(self, site: Site, network: Network) -> None:
        self._site = site
        self._network = network

    def make(self, node: Node, request: DeployRequest, hooks: Calls) -> Form | None:
        """An instance's config drive as Ironic takes it; ``None`` if none is wanted.

        :param node: the instance's node, read by a separate request.
        :param hooks: for this deployment.
        :raises HookFailed: a hook does not want the deployment, or can't do its part.
        :raises NodeError: the node has too few ports for it.
        :raises ConfigDriveFailed: it can't be made.
        :raises ConfigDriveTooLarge: it is larger than Ironic takes.
        """
        instance = request.instance
        try:
            drive = self._site.service.config_drive(request)
            if drive is None:
                return None
            drive = hooks.config_drive(self._with_networks(drive, node.uuid, request))
            if drive.network_data:
                drive = dataclasses.replace(drive, network_data=with_mtus(drive.network_data))
            form, size = in_form(drive, instance.uuid, no_json=self._why_no_json(node))
        except exceptions.IronicVirtError:
            raise
        except Exception as exc:
            why = f": {exc}"
            if not isinstance(exc, iso_image.NotMade):
                # The text may have secrets in it: only the log gets more.
                LOG.exception(
                    "[unexpected-error] The config drive of instance %s can't be made",
                    instance.uuid,
                )
                why = f" ({type(exc).__name__}); the log says why"
            raise exceptions.ConfigDriveFailed(
                node.uuid, instance.uuid, f"the config drive can't be made{why}"
            ) from exc
        check_size(form, size, node.uuid, instance.uuid)
        return form

    def _why_no_json(self, node: Node) -> str | None:
        """Why an image is sent for any contents; ``None`` if JSON is possible."""
        if self._site.conf.ironic.config_drive_form == "iso":
            return "[ironic] config_drive_form is iso"
        # It reads the files of an image.
        if node.deploy_interface == "anaconda":
            return f"the node's deploy interface is {node.deploy_interface}"
        return None

    def _with_networks(self, drive: ConfigDrive, node: str, request: DeployRequest) -> ConfigDrive:
        """A config drive whose network data has the addresses of the node's ports."""
        data, vifs = drive.network_data, request.network_info
        if not (vifs if data is None else data.get("links")):
            # Nothing has an address.
            return drive
        links, free = self._network.links(node)
        try:
            data = network_data(vifs, links) if data is None else with_links(data, links, free)
        except ValueError as exc:
            # Another node may have more ports.
            raise exceptions.NodeError(node, request.instance.uuid, str(exc)) from exc
        return dataclasses.replace(drive, network_data=data)


def in_form(drive: ConfigDrive, instance: str, *, no_json: str | None = None) -> tuple[Form, int]:
    """A config drive in the form in which Ironic takes it, and the bytes of its image.

    :param instance: the instance's uuid.
    :param no_json: why an image is sent even if JSON would do.
    :raises iso_image.NotMade: an image is needed and can't be made.
    """
    why = no_json or drive.no_json or why_no_json(drive)
    if why is None:
        return json_form(drive), image_size(drive)
    LOG.info("The config drive of instance %s is sent as an image: %s", instance, why)
    if drive.make_image is not None:
        image = drive.make_image(drive)
    else:
        image = iso_image.make_image(list_files(drive, instance))
    return iso_image.pack_image(image), len(image)


def why_no_json(drive: ConfigDrive) -> str | None:
    """Why a config drive can't be sent as JSON; ``None`` if it can."""
    data = drive.user_data
    if isinstance(data, bytes) and data.decode(errors="ignore").encode() != data:
        return "its user data is not text"
    documents = (drive.meta_data, drive.network_data, drive.vendor_data)
    if any(_is_deeper(document, DEEPEST - 1) for document in documents):
        return f"it has JSON that is nested more than {DEEPEST - 1} levels deep"
    return None


def json_form(drive: ConfigDrive) -> dict[str, Any]:
    """The JSON form; what is absent or empty is left out."""
    form: dict[str, Any] = {"meta_data": dict(drive.meta_data)}
    if drive.user_data:
        user_data = drive.user_data
        form["user_data"] = user_data.decode() if isinstance(user_data, bytes) else user_data
    for key in ("network_data", "vendor_data"):
        if value := getattr(drive, key):
            form[key] = value
    return form


def list_files(drive: ConfigDrive, instance: str) -> dict[str, bytes]:
    """The files of an image by path, laid out as Ironic's conductor does it."""
    contents = {"meta_data.json": _as_json({"uuid": instance, **drive.meta_data})}
    if drive.user_data:
        data = drive.user_data
        contents["user_data"] = data if isinstance(data, bytes) else data.encode()
    if drive.network_data:
        contents["network_data.json"] = _as_json(drive.network_data)
    if drive.vendor_data:
        contents["vendor_data2.json"] = _as_json(drive.vendor_data)
    return {
        f"openstack/{version}/{name}": content
        for version in VERSIONS
        for name, content in contents.items()
    }


# -- sizes --------------------------------------------------------------------


def check_size(form: Form, image: int, node: str, instance: str) -> None:
    """Refuse a config drive that Ironic would not take.

    :param image: the bytes of its image, unpacked.
    :raises ConfigDriveTooLarge: with its size, and the limit.
    """
    request = len(form if isinstance(form, str) else _as_json(form)) + _AROUND
    for size, limit, form_name in (
        (request, LARGEST_REQUEST, "as a request to Ironic"),
        (image, LARGEST_IMAGE, "as an image, unpacked"),
    ):
        if size > limit:
            raise exceptions.ConfigDriveTooLarge(node, instance, size, limit, form_name)


def image_size(drive: ConfigDrive) -> int:
    """The bytes that an image of a config drive has at most."""
    contents = list_files(drive, "")
    return _OVERHEAD + sum(-(-len(content) // _SECTOR) * _SECTOR for content in contents.values())


# -- sending ------------------------------------------------------------------


def write_with(
    write: Callable[[JsonPatch], Node],
    changes: JsonPatch,
    form: Form | None,
    node: str,
    instance: str,
) -> tuple[Node, Form | None]:
    """Write to a node what is to be deployed, its config drive with it.

    :param write: writes a patch.
    :returns: the node as it is then; the config drive if it has to go with the request to
        deploy.
    :raises ConfigDriveFailed: Ironic does not take it.
    """
    if form is None:
        return write(changes), None
    patch = [*changes, {"op": "add", "path": "/instance_info/configdrive", "value": form}]
    if len(json.dumps(patch)) > LARGEST_PATCH:
        return write(changes), form
    try:
        return write(patch), None
    except exceptions.BodyRefused as exc:
        if exc.status == _TOO_LARGE:
            # The limit is smaller here; that of the request to deploy is another one.
            return write(changes), form
        if isinstance(form, str):
            raise refusal_error(exc, node, instance) from exc
        image = iso_image.make_image(list_files(ConfigDrive(**form), instance))
        return write_with(write, changes, iso_image.pack_image(image), node, instance)


def refusal_error(
    error: exceptions.BodyRefused, node: str, instance: str
) -> exceptions.ConfigDriveFailed:
    """The error for a request with a config drive that Ironic did not take."""
    if error.status == _TOO_LARGE:
        defect = "too large"
        remedy = "its limit is [api] max_json_body_size_provision, or a proxy's"
    else:
        defect = "nested too deeply"
        remedy = "[ironic] config_drive_form = iso sends an image instead"
    return exceptions.ConfigDriveFailed(
        node,
        instance,
        f"Ironic refuses the config drive as {defect}: {error.message} ({remedy})",
        request_id=error.request_id,
    )


def _is_deeper(value: object, levels: int) -> bool:
    """Whether a JSON value has more levels of objects and lists."""
    if not isinstance(value, (Mapping, list, tuple)):
        return False
    members = value.values() if isinstance(value, Mapping) else value
    return not levels or any(_is_deeper(member, levels - 1) for member in members)


def _as_json(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value).encode()
