# SPDX-License-Identifier: Apache-2.0

"""What is written to a node for a rebuild, and how its progress is read: pure functions.

A rebuild that has ended looks like one that never began.  So a mark is written with the
image: the id of the request, the state of the node, and since when it is in that state.
When the node has left that state, the rebuild has begun.  Until then the mark tells what the
node's ``instance_info`` was, for the case that it never does.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ironic_virt import exceptions
from ironic_virt.baremetal import states
from ironic_virt.baremetal.node import Node
from ironic_virt.baremetal.patches import HIDDEN
from ironic_virt.driver import resources
from ironic_virt.driver.deploy import instance_info
from ironic_virt.exceptions import Disk
from ironic_virt.virt import DeployRequest

_CONFIG_DRIVE = frozenset({"configdrive"})
_FORMER = "former"

# Texts of Ironic 39.0.0: what fails before the first deploy step, and what comes
# after the image was written.
_BEFORE_WRITING = re.compile(
    r"Failed to (prepare to deploy|(prepare|store|upload) the configdrive)"
    r"|Cannot get deploy steps"
    r"|No deploy steps returned"
)
_AFTER_WRITING = re.compile(
    r"Deploy step deploy\.(prepare_instance_boot|set_boot_to_disk|tear_down_agent"
    r"|switch_to_tenant_network|boot_instance) failed"
)
# Ironic 39.0.0 trips over itself when it can't find out what kind of image it is.
_UNKNOWN_TYPE = re.compile(r"\bauto_lessee\b")


def make_info(request: DeployRequest, node: Node, more: Mapping[str, str]) -> dict[str, Any]:
    """The node's ``instance_info`` for a rebuild: that of a deployment, and a mark.

    :param node: as it is now.
    :param more: further keys from the compute service, as text.
    """
    info = instance_info.make_info(request, node, more)
    if request.preserve_ephemeral:
        info["preserve_ephemeral"] = "True"
    present = node.instance_info or {}
    source = info.get("image_source")
    if source and present.get("image_source") == source and present.get("image_type"):
        # Found out by Ironic for the same image, or said by an operator.
        info.setdefault("image_type", present["image_type"])
    info_before = former_info(node)
    written = instance_info.own_names(info_before) | instance_info.FOUND_BY_IRONIC | info.keys()
    mark = {
        "wish": request.request_id,
        "provision_state": node.provision_state,
        "provision_updated_at": node.provision_updated_at,
        # Without the contents of a config drive.
        _FORMER: {
            name: HIDDEN if name in _CONFIG_DRIVE else info_before[name]
            for name in sorted(written & info_before.keys())
        },
    }
    return instance_info.name_keys({**info, resources.REBUILD_MARK: mark})


def former_info(node: Node) -> dict[str, Any]:
    """A node's ``instance_info`` as it was before a rebuild that has not begun."""
    info = dict(node.instance_info or {})
    mark = info[resources.REBUILD_MARK] if resources.is_rebuild_pending(node) else {}
    overwritten = mark.get(_FORMER)
    if not isinstance(overwritten, dict):
        return info
    own = instance_info.own_names(info)
    return {key: value for key, value in info.items() if key not in own} | overwritten


def configure_patch(
    node: Node, wanted: Mapping[str, Any], *, with_drive: bool
) -> list[dict[str, Any]]:
    """The patch that makes a node ready for a rebuild; what an operator has written stays.

    :param with_drive: a config drive comes with the request.  If none does, that of
        the former deployment goes, or Ironic would put it on again.
    """
    info_before = node.instance_info or {}
    gone = instance_info.own_names(info_before) | instance_info.FOUND_BY_IRONIC
    kept = {key: value for key, value in info_before.items() if key not in gone}
    drops = frozenset() if with_drive else _CONFIG_DRIVE
    return instance_info.make_patch(info_before, {**kept, **wanted}, drops=drops)


def put_back(node: Node) -> list[dict[str, Any]]:
    """The patch that takes back what was written for a rebuild that did not happen.

    A config drive that has replaced another one stays: that one is not known any more, and
    the next rebuild writes its own.
    """
    info_before = former_info(node)
    known = {key: value for key, value in info_before.items() if value != HIDDEN}
    drops = _CONFIG_DRIVE - info_before.keys()
    return instance_info.make_patch(node.instance_info or {}, known, drops=drops)


def forget_former(node: Node) -> list[dict[str, Any]]:
    """The patch that takes what the former image had off a node that has been rebuilt."""
    mark = (node.instance_info or {}).get(resources.REBUILD_MARK)
    path = f"/instance_info/{resources.REBUILD_MARK}/{_FORMER}"
    return [{"op": "remove", "path": path}] if isinstance(mark, dict) and _FORMER in mark else []


def is_marked(node: Node, wish: str | None) -> bool:
    """Whether the node is prepared for this very request, or has been rebuilt for it."""
    mark = (node.instance_info or {}).get(resources.REBUILD_MARK)
    return wish is not None and isinstance(mark, dict) and mark.get("wish") == wish


def why_not(node: Node, request: DeployRequest) -> str | None:
    """Why a rebuild can't begin on a node in its present state; ``None`` if it can."""
    if request.resumes:
        return "it was interrupted before Ironic had begun with it"
    if reason := resources.why_in_maintenance(node):
        return f"the node is {reason}"
    if reason := resources.why_protected(node):
        return reason
    state = node.provision_state
    if state in states.REBUILDABLE:
        return None
    if state in (states.RESCUE, states.RESCUE_FAILED, states.UNRESCUE_FAILED):
        return f"the node is in {state!r}; unrescue the server first"
    return f"the node is in {state!r}, from which nothing can be rebuilt"


def disk_after(last_error: str | None) -> Disk:
    """What is on the disk after a deployment that ended with this error."""
    if last_error and _BEFORE_WRITING.search(last_error):
        return Disk.KEPT
    if last_error and _AFTER_WRITING.search(last_error):
        return Disk.REWRITTEN
    return Disk.UNKNOWN


def is_taken_for_whole_disk(error: exceptions.IronicError, info: Mapping[str, Any]) -> bool:
    """Whether to say that it is one of an image whose type Ironic could not find out.

    That is Ironic's own default.  It would overwrite an ephemeral disk that is to be preserved,
    so in that case nothing is assumed.  A tree of packages is not an image of a disk.
    """
    is_image = not info.get("image_source", "/").endswith("/")
    is_unsaid = is_image and not {"image_type", "preserve_ephemeral"} & info.keys()
    return is_unsaid and _is_unknown_type(error)


def why_no_iso(error: exceptions.IronicError, info: Mapping[str, Any]) -> str | None:
    """What an error means for an image that is booted and not written; ``None``: nothing.

    Such an image has no type that could be declared.
    """
    if not _is_unknown_type(error) or "boot_iso" not in info:
        return None
    return (
        "this Ironic can't rebuild a server that boots an ISO image; delete it and create it again"
    )


def _is_unknown_type(error: exceptions.IronicError) -> bool:
    return error.status == 500 and bool(_UNKNOWN_TYPE.search(error.message))
