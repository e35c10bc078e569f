# SPDX-License-Identifier: Apache-2.0

"""Taking an instance off its node: ``destroy``, and the undo path of ``spawn``.

Level-triggered: each round reads the node that carries the instance, does the
one step that its state asks for (:func:`states.tear_down_step`) and looks again,
until no node carries the instance.  Called again after a crash it simply goes
on; called for an instance that is gone it returns.

A node outside the target set, or one that carries another instance, is never
touched.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from oslo_log import log as logging

from ironic_virt import exceptions
from ironic_virt.baremetal import states
from ironic_virt.baremetal.node import Node
from ironic_virt.driver import resources
from ironic_virt.driver.change import Change
from ironic_virt.driver.claim import claim, own_keys
from ironic_virt.driver.console import Console
from ironic_virt.driver.deploy import instance_info, project_fields
from ironic_virt.driver.network import Network
from ironic_virt.driver.pools.reservation import Reservation
from ironic_virt.driver.protection import unprotect
from ironic_virt.driver.site import Site
from ironic_virt.driver.volumes import Volumes
from ironic_virt.virt import InstanceLike

LOG = logging.getLogger(__name__)

_VERBS = {
    states.TearDownStep.REQUEST: states.VERB_DELETED,
    states.TearDownStep.ABORT: states.VERB_ABORT,
    states.TearDownStep.UNHOLD: states.VERB_UNHOLD,
}


class _InUse(exceptions.TearDownFailed):
    """Something is deployed on a node, or about to be, by now."""


class _Left(NamedTuple):
    """A node without the instance as it was seen; ``None`` if it is gone too."""

    node: Node | None


class TearDown:
    """Tears nodes down.  Thread-safe: it keeps nothing between calls."""

    def __init__(
        self,
        site: Site,
        network: Network,
        volumes: Volumes,
        console: Console,
        reservation: Reservation,
    ) -> None:
        self._site = site
        self._network = network
        self._volumes = volumes
        self._console = console
        self._reservation = reservation

    def tear_down(self, instance: InstanceLike, *, has_volumes: bool) -> None:
        """Return when no node carries the instance any more.

        :param has_volumes: look for them also on a node that doesn't carry it any more.
        :raises TearDownFailed: Ironic refused or failed; says why.
        :raises WaitTimeout: ``[ironic] unprovision_timeout`` has passed.
        :raises NodeLocked: likewise, and the node was locked by then.
        :raises NodeNotOurs: the node is outside the target set; nothing done.
        """
        timeout = self._site.conf.ironic.unprovision_timeout
        deadline = self._site.clock() + timeout if timeout else None
        asked: str | None = None
        missed = moved = switched = False
        while True:
            try:
                node = self._site.access.guarded(instance)
            except exceptions.InstanceNotFound:
                if not self._reservation.release(instance):
                    # Ironic chose its node between the two requests: look again.
                    if missed:
                        raise _held_by_reservation(instance) from None
                    missed = True
                    continue
                if asked is None:
                    LOG.info("Instance %s is on no node; nothing to tear down", instance.uuid)
                    if has_volumes:
                        self._volumes.detach_forgotten(instance)
                return
            locked: exceptions.NodeLocked | None = None
            step = states.tear_down_step(node.provision_state, patched=bool(unprotect(node)))
            LOG.debug(
                "Instance %s, node %s in %s: %s", instance.uuid, node.uuid, node.states, step
            )
            if step in _VERBS and (reason := resources.why_protected(node)):
                raise exceptions.TearDownFailed(node.uuid, instance.uuid, reason)
            if node.console_enabled and step is not states.TearDownStep.WAIT and not switched:
                switched = True
                self._console.switch_off(node, instance)
                # How long that took must not keep the instance.
                deadline = self._site.clock() + timeout if timeout else None
                continue
            if step is states.TearDownStep.RELEASE:
                try:
                    self._release(node, instance)
                    return
                except (_InUse, exceptions.NodeNotAvailable):
                    # It went on, or off the node, between the two requests: look again.
                    if moved:
                        raise
                    moved = True
                    continue
            if step is not states.TearDownStep.WAIT:
                if node.provision_state == states.ERROR and asked == states.VERB_DELETED:
                    raise _failed(node, instance)
                try:
                    self._request(node, instance, _VERBS[step])
                except exceptions.NodeNotAvailable as exc:
                    # While it was locked, and perhaps another's by now.
                    LOG.debug("Instance %s went off its node: %s", instance.uuid, exc)
                except exceptions.NodeLocked as exc:
                    locked = exc
                    LOG.info(
                        "Instance %s, node %s: it is locked, and is torn down when it is not: %s",
                        *(instance.uuid, node.uuid, exc),
                    )
                if locked is None:
                    asked = _VERBS[step]
            remaining = 0.0 if deadline is None else max(deadline - self._site.clock(), 0.001)
            try:
                left = self._wait(node, instance, remaining, timeout)
            except exceptions.WaitTimeout as exc:
                if locked is not None:
                    raise locked from exc
                raise
            if left is not None:
                # What the wait has seen counts also if it can't be read again.
                now = self._site.access.note_seen(left.node, node.uuid) or left.node
                if now is not None and now.instance_uuid is None:
                    if now.provision_state == states.ERROR:
                        # Ironic has taken the instance off, and yet it may still run.
                        raise _failed(now, instance)
                    self._volumes.detach_left(now, instance)
                LOG.info("Instance %s is off node %s", instance.uuid, node.uuid)
                return

    def take_off(self, instance: InstanceLike) -> bool:
        """Take an instance's data off a node on which nothing is deployed for it.

        :returns: ``False``: something is, or Ironic is at work; nothing was changed.
        :raises InstanceNotFound: no node carries it.
        :raises NodeNotOurs: the node is outside the target set; nothing was changed.
        """
        node = self._site.access.guarded(instance)
        try:
            self._release(node, instance)
        except _InUse:
            return False
        return True

    def _request(self, node: Node, instance: InstanceLike, verb: str) -> None:
        """Ask Ironic for a step; a state that has changed meanwhile is no error.

        :raises NodeNotAvailable: the instance went off the node meanwhile.
        :raises NodeLocked: somebody else is at work on it; nothing was asked for.
        """
        again = self._site.access.still_held(instance, node.uuid)
        if verb == states.VERB_DELETED:
            self._give_back_fields(node, instance, again)
        self._site.service.report_progress(instance, "tearing down", node.provision_state or "")
        LOG.info("Tearing down instance %s: %r on node %s", instance.uuid, verb, node.uuid)
        before = node.provision_state

        def applied(now: Node) -> bool:
            return now.instance_uuid != instance.uuid or now.provision_state != before

        unprotected = unprotect(node) if verb == states.VERB_DELETED else []
        try:
            if unprotected:
                patch = [*claim(node, instance.uuid), *unprotected]
                self._site.client.patch_node(node.uuid, patch, again=again)
            self._site.client.set_provision_state(node.uuid, verb, applied=applied, again=again)
        except exceptions.NodeNotFound:
            return
        except exceptions.NodeLocked:
            raise
        except (
            exceptions.BadRequest,
            exceptions.Conflict,
            exceptions.IronicUnauthorized,
        ) as exc:
            now = self._site.client.node_of_instance(instance.uuid)
            if now is not None and now.provision_state == before:
                raise exceptions.TearDownFailed(
                    node.uuid,
                    instance.uuid,
                    f"Ironic refused {verb!r} in provision state {before!r}: {exc.message}",
                    request_id=exc.request_id,
                ) from exc

    def _give_back_fields(
        self, node: Node, instance: InstanceLike, again: Callable[[], None]
    ) -> None:
        """Take the project off a node, before it has another instance.

        Ironic itself keeps it, and then takes no patch until it has cleaned the node.
        """
        changes = project_fields.release(node)
        if not changes:
            return
        patch = [*claim(node, instance.uuid), *changes]
        try:
            self._site.client.patch_node(node.uuid, patch, again=again)
        except exceptions.NodeLocked:
            raise
        except (exceptions.BadRequest, exceptions.Conflict) as exc:
            LOG.warning(
                "[node-keeps-data] Node %s keeps the project of its instance until it gets "
                "another one, or until an operator changes its lessee: %s",
                *(node.uuid, exc),
            )

    def _wait(
        self, node: Node, instance: InstanceLike, remaining: float, timeout: float
    ) -> _Left | None:
        """Wait for a state in which there is something to do.

        :returns: how the node was left; ``None`` if it still carries the instance.
        """

        def until(now: Node | None) -> tuple[_Left | None] | None:
            if now is None or now.instance_uuid != instance.uuid:
                return (_Left(now),)
            step = states.tear_down_step(now.provision_state, patched=bool(unprotect(node)))
            if step is states.TearDownStep.WAIT:
                return None
            # The request was taken, but this look may be older than its effect.
            if now.provision_state == node.provision_state and now.reservation:
                return None
            return (None,)

        try:
            change = Change(self._site, instance, node)
            (left,) = change.wait(
                until, "be torn down", remaining, kind="tear down", state=states.DELETING
            )
            return left
        except exceptions.WaitTimeout as exc:
            raise exceptions.WaitTimeout(
                node.uuid,
                instance.uuid,
                "be torn down ([ironic] unprovision_timeout)",
                timeout,
                exc.last_seen,
            ) from exc

    def _release(self, node: Node, instance: InstanceLike) -> None:
        """Take the instance's data off a node on which nothing is deployed.

        :raises _InUse: something is, or Ironic is at work.
        :raises NodeNotAvailable: the instance went off the node meanwhile.
        """
        _check_unused(node, instance)
        self._network.detach_all(node, instance)
        self._volumes.detach_all(node, instance)
        held = self._unused(node, instance)

        def again() -> None:
            self._unused(node, instance)

        if not own_keys(held.instance_info or {}, instance.uuid):
            # Ironic would carry out a late release without a key on the next instance, too.
            first = claim(held, instance.uuid)
            held = self._site.client.patch_node(node.uuid, first, again=again)
        patch: list[dict[str, Any]] = instance_info.release(
            held.instance_info or {}, instance.uuid
        )
        patch.append({"op": "remove", "path": "/instance_uuid"})
        patch += project_fields.release(held)
        if held.instance_name is not None:
            # Ironic set it by itself, from the display_name, and keeps it otherwise.
            patch.append({"op": "remove", "path": "/instance_name"})
        try:
            released = self._site.client.patch_node(node.uuid, patch, again=again)
        except exceptions.Conflict as exc:
            released = self._release_with_allocation(node, instance, patch, exc, again)
        except exceptions.BadRequest:
            # The key is missing: a copy of this request may have come in before.
            released = self._site.access.fresh(node.uuid, instance.uuid)
            if released.instance_uuid == instance.uuid:
                raise
        self._site.access.note(released)
        self._site.service.report_progress(instance, "released", released.provision_state or "")
        LOG.info("Node %s is released from instance %s", node.uuid, instance.uuid)

    def _unused(self, node: Node, instance: InstanceLike) -> Node:
        """The node as it is now, if it still carries the instance and nothing is deployed."""
        held = self._site.access.held(instance, node.uuid)
        _check_unused(held, instance)
        return held

    def _release_with_allocation(
        self,
        node: Node,
        instance: InstanceLike,
        patch: list[dict[str, Any]],
        refusal: exceptions.Conflict,
        again: Callable[[], None],
    ) -> Node:
        """The same where Ironic takes an instance off only with its allocation.

        That is so in the states in which something has failed (39.0.0).
        """
        client = self._site.client
        if (
            isinstance(refusal, exceptions.NodeLocked)
            or client.allocations.get(instance.uuid) is None
        ):
            raise refusal
        rest = [operation for operation in patch if operation["path"] != "/instance_uuid"]
        client.patch_node(node.uuid, rest, again=again)
        client.allocations.delete(instance.uuid)
        return self._site.access.fresh(node.uuid, instance.uuid)


def _check_unused(node: Node, instance: InstanceLike) -> None:
    if states.tear_down_step(node.provision_state) is not states.TearDownStep.RELEASE:
        raise _InUse(
            node.uuid,
            instance.uuid,
            f"the node went on to {node.provision_state!r} while the server was taken off it; "
            "delete the server again",
        )


def _held_by_reservation(instance: InstanceLike) -> exceptions.TearDownFailed:
    return exceptions.TearDownFailed(
        None,
        instance.uuid,
        "the server's allocation in Ironic has a node that is in use and does not carry the "
        "server. Look at the allocation in Ironic, then delete the server again",
    )


def _failed(node: Node, instance: InstanceLike) -> exceptions.TearDownFailed:
    return exceptions.TearDownFailed(
        node.uuid,
        instance.uuid,
        f"Ironic failed to tear the node down: {node.why}. What ran on it may still run. "
        "Repair the node in Ironic, then delete the server again",
        last_error=node.last_error,
    )
