# SPDX-License-Identifier: Apache-2.0

"""Deploying to an instance's node again: check, configure, request, wait.

Level-triggered: called again with the same request id, it goes on where the former
call ended, and does nothing if that one ended well.  Called for another request,
it first waits for the end of a deployment that is under way.

Nothing is undone that Ironic has begun.  An error says what is on the disk, and
until Ironic has taken the request, the node's ``instance_info`` is put back.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from oslo_log import log as logging

from ironic_virt import exceptions
from ironic_virt.baremetal import states
from ironic_virt.baremetal.http.requests import hurry_requests
from ironic_virt.baremetal.node import Node
from ironic_virt.driver import history, resources
from ironic_virt.driver.deploy import completion, config_drive, rebuild_info, steps
from ironic_virt.driver.deploy.config_drive import ConfigDrives
from ironic_virt.driver.held import Held, has_moved, is_ambiguous
from ironic_virt.driver.hooks import Hooks
from ironic_virt.driver.patience import Patience
from ironic_virt.driver.protection import protect_node, unprotect_patch
from ironic_virt.driver.site import LONGEST_LOOK, Site
from ironic_virt.exceptions import Disk
from ironic_virt.virt import DeployRequest

LOG = logging.getLogger(__name__)

T = TypeVar("T")
_SAY_ALL = (exceptions.RebuildFailed, exceptions.BuildAborted, exceptions.WaitCancelled)


def rebuild_instance(
    site: Site, drives: ConfigDrives, hooks: Hooks, request: DeployRequest
) -> None:
    """Return when the instance is active with the image.

    :raises OperationNotSupported: it boots from a volume; nothing was touched.
    :raises InstanceNotFound: no node carries it.
    :raises RebuildFailed: what went wrong, and what is on the disk.
    :raises BuildAborted: the instance is not wanted any more.
    :raises WaitCancelled: the service stops; what Ironic has begun goes on, and
        a later call takes it up.
    """
    if request.boots_from_volume:
        raise exceptions.OperationNotSupported("rebuilding a server that boots from a volume")
    if request.resumes:
        Patience(site, request.instance, gives_up=False).look()
    attempt = _Attempt(site, drives, hooks, request)
    try:
        attempt.go()
    except (exceptions.NodeError, exceptions.IronicError) as exc:
        attempt.put_back(exc)
        if isinstance(exc, _SAY_ALL):
            raise
        raise attempt.failure_after(exc) from exc


class _Attempt:
    """One call.

    :ivar disk: what is on the disk by now.
    """

    def __init__(
        self, site: Site, drives: ConfigDrives, hooks: Hooks, request: DeployRequest
    ) -> None:
        self._site = site
        self._drives = drives
        self._hooks = hooks
        self._request = request
        self._instance = request.instance
        self._uuid: str | None = None
        self._steps: list[dict[str, Any]] = []
        self._is_prepared = self._is_unprotected = self._has_begun = False
        self.disk = Disk.UNTOUCHED

    def go(self) -> None:
        request, instance = self._request, self._instance
        node = self._found()
        if node.provision_state in states.DEPLOY_IN_PROGRESS and not self._has_begun:
            LOG.info(
                "Instance %s, node %s: a deployment is under way; it is rebuilt after that",
                *(instance.uuid, node.uuid),
            )
            self._wait(_at_rest)
            node = self._found()
        hooks = self._hooks.of(instance, node, is_rebuild=True)
        if not self._has_begun:
            if reason := rebuild_info.why_not(node, request):
                raise self._failure(reason)
            try:
                self._steps = steps.read_steps(instance.flavor)
            except exceptions.InvalidExtraSpec as exc:
                raise self._failure(str(exc)) from exc
            were_called = hooks.before_deploy()
            drive = self._drives.make(node, request, hooks)
            if drive is not None or were_called:
                # That takes its time, and what comes now writes to the node.
                node = self._held.refresh()
                if reason := rebuild_info.why_not(node, request):
                    raise self._failure(reason)
            info = rebuild_info.make_info(
                request, node, self._site.service.deploy_metadata(instance, request.network_info)
            )
            if request.preserve_ephemeral and info.get("image_type") == "whole-disk":
                raise self._failure(
                    "a whole-disk image would overwrite the ephemeral disk that is to be "
                    "preserved; use a partition image"
                )
            self._begin(info, drive)
        rebuilt = self._wait(lambda node: completion.check_deployed(instance, node, self._uuid))
        self.disk = Disk.REWRITTEN
        self._held.note(rebuilt)
        # What can't be taken off now stays until the next rebuild, or the instance's end.
        with contextlib.suppress(exceptions.IronicError):
            if changes := rebuild_info.forget_former(self._held.node):
                self._held.patch(changes)
        completion.end_deployment(self._site, self._held, self._held.node, hooks)

    def _found(self) -> Node:
        """The node that carries the instance, fresh and past the guard."""
        node = self._site.nodes.read_carrier(self._instance)
        self._uuid = node.uuid
        is_marked = rebuild_info.is_marked(node, self._request.request_id)
        is_pending = resources.is_rebuild_pending(node)
        self._has_begun = is_marked and not is_pending
        if self._has_begun:
            # Also if Ironic has finished since: what it says counts from here on.
            self.disk = Disk.UNKNOWN
        self._held = Held(self._site, self._instance, node)
        # If so, a former process has taken the protection off, or it may yet come off.
        self._is_prepared = self._request.resumes or is_marked or is_pending
        self._is_unprotected = self._is_prepared
        return node

    # -- configure and request ------------------------------------------------

    def _begin(self, info: Mapping[str, Any], drive: config_drive.Form | None) -> None:
        node, service = self._held.node, self._site.service
        service.report_progress(self._instance, "configuring", node.provision_state)
        changes = rebuild_info.configure_patch(node, info, with_drive=drive is not None)
        self._is_prepared = True
        self._is_unprotected |= resources.is_protected_here(node)
        _, rest = config_drive.write_with(
            self._held.patch,
            *([*changes, *unprotect_patch(node)], drive, node.uuid, self._instance.uuid),
        )
        if reason := service.abort_reason(self._instance):
            raise exceptions.BuildAborted(node.uuid, self._instance.uuid, reason)
        service.report_progress(self._instance, "rebuilding", node.provision_state)
        try:
            self._ask(rest)
        except exceptions.IronicError as exc:
            is_whole_disk = rebuild_info.is_taken_for_whole_disk(exc, info)
            if self.disk is not Disk.UNTOUCHED or not is_whole_disk:
                raise
            LOG.warning(
                "[image-kind-unknown] Node %s: Ironic could not find out what kind of image %s "
                "is; it is taken for one of a whole disk",
                *(node.uuid, info.get("image_source")),
            )
            declared = {"op": "add", "path": "/instance_info/image_type", "value": "whole-disk"}
            self._held.patch([declared])
            self._ask(rest)

    def _ask(self, drive: config_drive.Form | None) -> None:
        """Ask for the rebuild of a node that was read just now.

        :param drive: what has to go with the request.
        :raises IronicError, RebuildFailed: Ironic refused it, or may have; see :attr:`disk`.
        """
        self.disk = Disk.UNKNOWN
        try:
            self._held.ask(states.VERB_REBUILD, configdrive=drive, deploy_steps=self._steps)
        except exceptions.IronicError as exc:
            self._check_begun(exc, drive)
        LOG.info("Node %s is being rebuilt for instance %s", self._held.uuid, self._instance.uuid)

    def _check_begun(self, error: exceptions.IronicError, drive: config_drive.Form | None) -> None:
        """Return if Ironic has begun in spite of an error; else see what is on the disk.

        :param drive: what was sent with the request, which another one may not have had.
        """
        node = self._held.node
        try:
            current = self._site.client.get_node(node.uuid)
        except exceptions.IronicError:
            raise error from None
        if has_moved(node, current):
            if drive is not None or self._steps or is_ambiguous(node, current):
                raise error
            LOG.info("Node %s went on although Ironic said: %s", node.uuid, error)
            return
        self.disk = Disk.UNTOUCHED
        if reason := rebuild_info.why_no_iso(error, node.instance_info or {}):
            raise self._failure(reason, request_id=error.request_id) from error
        raise error

    def put_back(self, error: Exception) -> None:
        """Take back what was written for a rebuild that has not begun; protect the instance.

        :param error: ends the rebuild.  After one that has begun there is nothing to protect
            if it has failed, or if the instance goes.
        """
        has_begun = self.disk is not Disk.UNTOUCHED
        is_lost = isinstance(error, completion.InFailedState | exceptions.BuildAborted)
        if not self._is_prepared or (has_begun and is_lost):
            return
        if not has_begun:
            self._put_info_back()
        if self._is_unprotected:
            deadline = self._site.clock() + LONGEST_LOOK
            with hurry_requests(deadline), contextlib.suppress(exceptions.NodeError):
                protect_node(self._site, self._held, again=True)

    def _put_info_back(self) -> None:
        try:
            # Also without changes: what is still on its way is refused then.
            self._held.patch(rebuild_info.put_back(self._held.refresh()))
        except (exceptions.IronicError, exceptions.NodeError) as exc:
            LOG.warning(
                "[node-keeps-data] Node %s: its instance_info tells of the image of a rebuild "
                "that did not happen, and could not be put back: %s",
                *(self._held.uuid, exc),
            )

    # -- wait -----------------------------------------------------------------

    def _wait(self, until: Callable[[Node | None], T | None]) -> T:
        return self._held.wait(
            until,
            "be rebuilt ([ironic] deploy_timeout)",
            self._site.conf.ironic.deploy_timeout,
            kind="rebuild",
            state=states.DEPLOYING,
            abortable=True,
            step="rebuilding",
        )

    # -- errors ---------------------------------------------------------------

    def _failure(self, reason: str, **more: Any) -> exceptions.RebuildFailed:
        return exceptions.RebuildFailed(self._uuid, self._instance.uuid, reason, self.disk, **more)

    def failure_after(
        self, error: exceptions.NodeError | exceptions.IronicError
    ) -> exceptions.RebuildFailed:
        """Tell of an error together with what is on the disk."""
        if isinstance(error, completion.InFailedState):
            node = history.with_reason(self._site.client, error.failed)
            self.disk = rebuild_info.disk_after(node.last_error)
            return self._failure(node.why, last_error=node.last_error)
        if isinstance(error, exceptions.NodeError):
            return self._failure(
                error.reason, request_id=error.request_id, last_error=error.last_error
            )
        refused = error.status is not None and error.status < 500
        reason = f"Ironic refused: {error.message}" if refused else str(error)
        return self._failure(reason, request_id=error.request_id)


def _at_rest(node: Node | None) -> bool | None:
    """``True`` when no deployment is under way, or the node is gone."""
    return node is None or node.provision_state not in states.DEPLOY_IN_PROGRESS or None
