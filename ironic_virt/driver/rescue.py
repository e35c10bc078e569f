# SPDX-License-Identifier: Apache-2.0

"""Booting an instance's node into the rescue system, and back.

Level-triggered: what Ironic is doing already is waited for.  A rescue is then asked for
in any case, also of a node that is rescued, since nobody can tell whether the password
there is the one that is given now.

A rescue that fails is followed by an unrescue, so the node goes on with its own system;
an unrescue that fails is tried a second time.  The error says what came of that.
"""

from __future__ import annotations

from collections.abc import Callable

from oslo_config import cfg
from oslo_log import log as logging

from ironic_virt import exceptions
from ironic_virt.baremetal import states
from ironic_virt.baremetal.client import IronicClient
from ironic_virt.baremetal.node import Node
from ironic_virt.baremetal.waiting.watcher import Watcher
from ironic_virt.driver import history, resources
from ironic_virt.driver.access import NodeAccess
from ironic_virt.driver.deploy import deployment
from ironic_virt.virt import InstanceLike, VirtAPI

LOG = logging.getLogger(__name__)

_BACK = "the instance runs its own system"
_NOT_BACK = (
    "it could not be brought back to its own system either: {why}. Mend the node in Ironic, "
    "then unrescue the instance"
)


class Rescue:
    """Rescues and unrescues instances.  Thread-safe: it keeps nothing between calls."""

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        client: IronicClient,
        access: NodeAccess,
        watcher: Watcher,
        virtapi: VirtAPI,
    ) -> None:
        self._conf = conf
        self._client = client
        self._access = access
        self._watcher = watcher
        self._virtapi = virtapi

    def rescue(self, instance: InstanceLike, password: str) -> None:
        """Return when the rescue system is there.

        :param password: of its user; never logged.
        :raises InstanceNotFound: no node carries it.
        :raises RescueFailed: why, and on which system the instance is now.
        :raises BuildAborted: it is not wanted any more; the node is on the way there.
        :raises NodeNotOurs: the node is outside the target set; nothing was done.
        """
        if not password.strip():
            raise exceptions.OperationNotSupported("rescuing without a password")
        node = self._at_rest(instance)
        if reason := _why_not(node, states.RESCUABLE, "rescued"):
            raise _untouched(node, instance, reason)
        try:
            self._ask(node, instance, states.VERB_RESCUE, password)
            done = self._wait(node, instance, states.RESCUE)
        except (exceptions.RescueFailed, exceptions.WaitTimeout) as exc:
            history.explain(self._client, exc)
            raise self._left(instance, exc) from exc
        self._access.note_seen(done, done.uuid)
        LOG.info("Instance %s, node %s: the rescue system is there", instance.uuid, node.uuid)

    def unrescue(self, instance: InstanceLike) -> None:
        """Return when the instance's own system has been booted.

        :raises InstanceNotFound: no node carries it.
        :raises RescueFailed: why; the node is not on its own system.
        :raises BuildAborted: it is not wanted any more; the node is on the way there.
        :raises NodeNotOurs: the node is outside the target set; nothing was done.
        """
        node = self._at_rest(instance)
        if node.provision_state == states.ACTIVE:
            self._access.note(node)
            return
        if reason := _why_not(node, states.UNRESCUABLE, "unrescued"):
            raise _untouched(node, instance, reason)
        try:
            done = self._unrescued(node, instance)
        except exceptions.RescueFailed as exc:
            LOG.warning("%s. Trying once more", exc)
            done = self._second_try(instance, exc)
        self._access.note_seen(done, done.uuid)
        LOG.info("Instance %s, node %s: it is unrescued", instance.uuid, node.uuid)

    def _unrescued(self, node: Node, instance: InstanceLike) -> Node:
        self._ask(node, instance, states.VERB_UNRESCUE)
        return self._wait(node, instance, states.ACTIVE)

    def _second_try(self, instance: InstanceLike, first: exceptions.RescueFailed) -> Node:
        node = self._at_rest(instance)
        if node.provision_state == states.ACTIVE:
            return node
        if node.provision_state != states.UNRESCUE_FAILED:
            raise first
        try:
            return self._unrescued(node, instance)
        except exceptions.RescueFailed as exc:
            raise exceptions.RescueFailed(
                node.uuid,
                instance.uuid,
                f"{exc.reason}. That was the second try: the node stays in "
                f"{states.UNRESCUE_FAILED!r}. Mend it in Ironic, then unrescue the instance again",
                last_error=exc.last_error,
            ) from exc

    # -- a failed rescue ------------------------------------------------------

    def _left(
        self, instance: InstanceLike, error: exceptions.NodeError
    ) -> exceptions.RescueFailed:
        """Leave the state in which a rescue has failed, and say what came of that."""
        try:
            how = self._leave(instance)
        except (exceptions.BuildAborted, exceptions.WaitCancelled):
            raise
        except (exceptions.NodeError, exceptions.IronicError) as exc:
            why = exc.reason if isinstance(exc, exceptions.NodeError) else str(exc)
            how = _NOT_BACK.format(why=why)
        # The good news first: Nova's users see the beginning only.
        parts = [how, error.reason] if how == _BACK else [error.reason, how]
        failed = exceptions.RescueFailed(
            error.node,
            instance.uuid,
            "; ".join(parts),
            last_error=getattr(error, "last_error", None),
            request_id=error.request_id,
            system=exceptions.System.OWN if how == _BACK else exceptions.System.UNKNOWN,
        )
        for note in getattr(error, "__notes__", ()):
            failed.add_note(note)
        return failed

    def _leave(self, instance: InstanceLike) -> str:
        node = self._access.of_instance(instance)
        self._access.guard(node, instance)
        if node.provision_state == states.RESCUE_WAIT:
            # The rescue system never called back; only so it can be left.
            self._ask(node, instance, states.VERB_ABORT)
        if node.provision_state in states.RESCUE_IN_PROGRESS:
            node = self._at_rest(instance)
        if node.provision_state == states.ACTIVE:
            return _BACK
        if node.provision_state in (states.RESCUE_FAILED, states.UNRESCUE_FAILED):
            self._access.note_seen(self._unrescued(node, instance), node.uuid)
            return _BACK
        return f"the node is in {node.provision_state!r} now"

    # -- request and wait -----------------------------------------------------

    def _at_rest(self, instance: InstanceLike) -> Node:
        """The node that carries the instance, past the guard, when it is on no way."""
        node = self._access.of_instance(instance)
        self._access.guard(node, instance)
        if node.provision_state not in states.RESCUE_IN_PROGRESS:
            return node

        def until(now: Node | None) -> Node | None:
            if now is not None and now.provision_state in states.RESCUE_IN_PROGRESS:
                return None
            return self._still(now, node, instance)

        self._wait_until(node, instance, until, "end what it is doing")
        node = self._access.of_instance(instance)
        self._access.guard(node, instance)
        return node

    def _ask(
        self, node: Node, instance: InstanceLike, verb: str, password: str | None = None
    ) -> None:
        """Ask for a change of a node that was read just now."""
        self._virtapi.report_progress(instance, f"{verb} asked for", node.provision_state or "")

        def applied(now: Node) -> bool:
            return (now.provision_state, now.provision_updated_at) != (
                node.provision_state,
                node.provision_updated_at,
            )

        try:
            self._client.set_provision_state(
                node.uuid,
                verb,
                applied=applied,
                rescue_password=password,
                again=self._access.still_held(instance, node.uuid),
            )
        except exceptions.IronicError as exc:
            if exc.status is None or isinstance(exc, exceptions.IronicUnavailable):
                raise
            raise exceptions.RescueFailed(
                node.uuid,
                instance.uuid,
                f"Ironic refused {verb!r}: {exc.message}",
                request_id=exc.request_id,
                system=exceptions.System.UNTOUCHED,
            ) from exc

    def _wait(self, node: Node, instance: InstanceLike, wanted: str) -> Node:
        def until(now: Node | None) -> Node | None:
            now = self._still(now, node, instance)
            state = now.provision_state
            if state == wanted:
                return now
            if state in states.RESCUE_IN_PROGRESS or state not in (None, *states.ALL):
                return None
            if state in (states.RESCUE_FAILED, states.UNRESCUE_FAILED) and now.owes_reason:
                return None
            what = "the rescue" if wanted == states.RESCUE else "the unrescue"
            raise exceptions.RescueFailed(
                now.uuid,
                instance.uuid,
                f"{what} failed: {now.last_error or f'the node is in {state!r}'}",
                last_error=now.last_error,
            )

        what = "be rescued" if wanted == states.RESCUE else "be unrescued"
        return self._wait_until(node, instance, until, what)

    def _still(self, now: Node | None, node: Node, instance: InstanceLike) -> Node:
        if now is None or now.instance_uuid != instance.uuid:
            raise exceptions.RescueFailed(
                node.uuid, instance.uuid, "the instance went off the node meanwhile"
            )
        return now

    def _wait_until(
        self,
        node: Node,
        instance: InstanceLike,
        until: Callable[[Node | None], Node | None],
        what: str,
    ) -> Node:
        return self._watcher.wait(
            node.uuid,
            until,
            what=f"{what} ([ironic] rescue_timeout)",
            timeout=self._conf.ironic.rescue_timeout,
            instance=instance.uuid,
            state=states.RESCUING,
            abort=lambda: self._virtapi.abort_reason(instance),
            patience=deployment.PATIENCE,
        )


def _untouched(node: Node, instance: InstanceLike, reason: str) -> exceptions.RescueFailed:
    return exceptions.RescueFailed(
        node.uuid, instance.uuid, reason, system=exceptions.System.UNTOUCHED
    )


def _why_not(node: Node, allowed: frozenset[str], what: str) -> str | None:
    if reason := resources.why_in_maintenance(node):
        return f"the node is {reason}"
    state = node.provision_state or states.AVAILABLE
    if state not in allowed:
        return f"the node is in {state!r}, from which nothing can be {what}"
    return None
