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

import dataclasses
import functools

from oslo_log import log as logging

from ironic_virt import exceptions
from ironic_virt.baremetal import states
from ironic_virt.baremetal.node import Node
from ironic_virt.driver import resources
from ironic_virt.driver.claim import own_keys
from ironic_virt.driver.console import switch_off
from ironic_virt.driver.deploy import project_fields
from ironic_virt.driver.deploy.claiming import claim_node
from ironic_virt.driver.deploy.release import InUse, Release
from ironic_virt.driver.held import REFUSALS, Held
from ironic_virt.driver.pools.reservation import Reservation
from ironic_virt.driver.protection import unprotect_patch
from ironic_virt.driver.site import Site
from ironic_virt.driver.volumes import Volumes
from ironic_virt.virt import InstanceLike

LOG = logging.getLogger(__name__)

_VERBS = {
    states.TearDownStep.REQUEST: states.VERB_DELETED,
    states.TearDownStep.ABORT: states.VERB_ABORT,
    states.TearDownStep.UNHOLD: states.VERB_UNHOLD,
}


@dataclasses.dataclass
class _Progress:
    """How far a tear down has come.

    :ivar deadline: on the clock; ``None``: it has none.
    :ivar verb: what Ironic was asked for last.
    """

    instance: InstanceLike
    lost: str | None
    deadline: float | None
    verb: str | None = None
    _tries: set[str] = dataclasses.field(default_factory=set)

    def is_first(self, attempt: str) -> bool:
        """Whether this is the first time that something is tried that is tried once."""
        is_first = attempt not in self._tries
        self._tries.add(attempt)
        return is_first


@dataclasses.dataclass(eq=False)
class TearDown:
    """Tears nodes down.  Thread-safe: it keeps nothing between calls."""

    _site: Site
    _release: Release
    _volumes: Volumes
    _reservation: Reservation

    def tear_down(self, instance: InstanceLike, *, lost: str | None = None) -> None:
        """Return when no node carries the instance any more.

        :param lost: the node that a build had, which may keep what was written to it.
        :raises TearDownFailed: Ironic refused or failed; says why.
        :raises WaitTimeout: ``[ironic] unprovision_timeout`` has passed.
        :raises NodeLocked: likewise, and the node was locked by then.
        :raises NodeNotOurs: the node is outside the target set; nothing done.
        """
        progress = _Progress(instance, lost, self._deadline())
        is_over = False
        while not is_over:
            try:
                held = Held.of(self._site, instance)
            except exceptions.InstanceNotFound:
                is_over = self._end(progress)
            else:
                is_over = self._take_step(held, progress)

    def _deadline(self) -> float | None:
        timeout = self._site.conf.ironic.unprovision_timeout
        return self._site.clock() + timeout if timeout else None

    # Each of these returns whether no node carries the instance any more.

    def _end(self, progress: _Progress) -> bool:
        """Give up what is left of an instance that no node carries."""
        instance = progress.instance
        failure = functools.partial(exceptions.TearDownFailed, None, instance.uuid)
        if not self._reservation.release(instance):
            if progress.is_first("look at a reservation in use"):
                # Ironic chose its node between the two requests.
                return False
            raise failure(
                "the server's allocation in Ironic has a node that is in use and does not carry "
                "the server. Look at the allocation in Ironic, then delete the server again"
            )
        if progress.verb is not None:
            return True
        if progress.lost and self._reclaim(progress.lost, instance):
            progress.lost = None
            return False
        if not self._site.nodes.are_shown():
            raise failure(
                "Ironic shows the user of [ironic] no node at all, so the server may still run on "
                "one. Give the user a role that shows all nodes, then delete the server again"
            )
        LOG.info("Instance %s is on no node; nothing to tear down", instance.uuid)
        self._volumes.detach_left(instance)
        return True

    def _take_step(self, held: Held, progress: _Progress) -> bool:
        """Do what the node's state asks for."""
        node, instance = held.node, held.instance
        step = _step_of(node, node)
        LOG.debug("Instance %s, node %s in %s: %s", instance.uuid, node.uuid, node.states, step)
        if step in _VERBS and (reason := resources.why_protected(node)):
            raise held.error(exceptions.TearDownFailed, reason)
        if (
            node.console_enabled
            and step is not states.TearDownStep.WAIT
            and progress.is_first("console")
        ):
            switch_off(self._site, held)
            # How long that took must not keep the instance.
            progress.deadline = self._deadline()
            return False
        if step in _VERBS:
            return self._request(held, _VERBS[step], progress)
        if step is states.TearDownStep.WAIT:
            return self._wait(held, progress)
        try:
            self._release.release_node(held)
        except (InUse, exceptions.NodeNotAvailable, exceptions.NodeNotFound):
            # It went on, off the node or with it between the two requests: look again.
            if not progress.is_first("release"):
                raise
            return False
        return True

    def _request(self, held: Held, verb: str, progress: _Progress) -> bool:
        """Ask for a step, and wait for what comes of it."""
        if held.node.provision_state == states.ERROR and progress.verb == states.VERB_DELETED:
            raise _failed(held.node, held.instance)
        try:
            self._ask(held, verb)
        except InUse:
            return False
        except exceptions.NodeLocked as exc:
            LOG.info(
                "Instance %s, node %s: it is locked, and is torn down when it is not: %s",
                *(held.instance.uuid, held.uuid, exc),
            )
            try:
                return self._wait(held, progress)
            except exceptions.WaitTimeout as timeout:
                raise exc from timeout
        except exceptions.NodeNotAvailable as exc:
            # While it was locked, and perhaps another's by now.
            LOG.debug("Instance %s went off its node: %s", held.instance.uuid, exc)
        progress.verb = verb
        return self._wait(held, progress)

    def _wait(self, held: Held, progress: _Progress) -> bool:
        """Wait for a state in which there is something to do."""
        deadline, instance = progress.deadline, held.instance
        remaining = 0.0 if deadline is None else max(deadline - self._site.clock(), 0.001)
        is_off, node = self._wait_for_step(held, remaining)
        if not is_off:
            return False
        # What the wait has seen counts also if it can't be read again.
        node = self._site.nodes.note_seen(node, held.uuid) or node
        if node is not None and node.instance_uuid is None:
            if node.provision_state == states.ERROR:
                # Ironic has taken the instance off, and yet it may still run.
                raise _failed(node, instance)
            # What tears a node down empties that.
            if own_keys(node.instance_info or {}, instance.uuid) and self._reclaim(
                node.uuid, instance
            ):
                return False
            self._volumes.detach_left(instance, node)
        LOG.info("Instance %s is off node %s", instance.uuid, held.uuid)
        return True

    def _reclaim(self, uuid: str, instance: InstanceLike) -> bool:
        """Make a node the instance's again that has lost nothing but its uuid.

        Ironic takes that off when it deletes the allocation, and a deletion may arrive late.

        :returns: whether the node was one; another's, or a clean one, is left alone.
        """
        if not self._site.by_ironic:
            return False
        try:
            node = self._site.nodes.read(uuid, instance.uuid)
            self._site.nodes.check_free(node, instance.uuid)
            if not own_keys(node.instance_info or {}, instance.uuid):
                return False
            # Ironic refuses it where the key is not any more.
            claim_node(self._site, node, instance)
        except (exceptions.NodeError, exceptions.IronicError) as exc:
            LOG.info("Node %s is not instance %s's any more: %s", uuid, instance.uuid, exc)
            return False
        LOG.info("Node %s had lost instance %s, and is released from it", uuid, instance.uuid)
        return True

    def _ask(self, held: Held, verb: str) -> None:
        """Ask Ironic for a step; if the node's state has changed meanwhile, do nothing.

        :raises NodeNotAvailable: the instance went off the node meanwhile.
        :raises InUse: its console was switched on meanwhile; nothing was asked for.
        :raises NodeLocked: somebody else is at work on it; nothing was asked for.
        """
        node, instance = held.node, held.instance
        self._site.service.report_progress(instance, "tearing down", node.provision_state)
        LOG.info("Tearing down instance %s: %r on node %s", instance.uuid, verb, node.uuid)

        def applied(current: Node) -> bool:
            # The verb was chosen for the state that the node had before it was patched.
            return (
                current.instance_uuid != instance.uuid
                or current.provision_state != node.provision_state
            )

        def check_console(current: Node) -> None:
            if current.console_enabled and not node.console_enabled:
                raise held.error(InUse, "its console was switched on meanwhile")

        try:
            if verb == states.VERB_DELETED:
                self._give_back_fields(held)
                if operations := unprotect_patch(node):
                    held.patch(operations)
            # The patch may have waited for Ironic to switch it on.
            check_console(held.node)
            request = held.only_if(check_console).client.set_provision_state
            request(node.uuid, verb, applied=applied)
        except exceptions.NodeNotFound:
            return
        except exceptions.NodeLocked:
            raise
        except (*REFUSALS, exceptions.IronicUnauthorized) as exc:
            current = self._site.client.node_of_instance(instance.uuid)
            if current is not None and not applied(current):
                raise held.error(
                    exceptions.TearDownFailed,
                    f"Ironic refused {verb!r} in provision state {current.provision_state!r}: "
                    f"{exc.message}",
                    request_id=exc.request_id,
                ) from exc

    def _give_back_fields(self, held: Held) -> None:
        """Take the project off a node, before it has another instance.

        Ironic itself keeps it, and then takes no patch until it has cleaned the node.
        """
        if not (operations := project_fields.release_patch(held.node)):
            return
        try:
            held.patch(operations)
        except exceptions.NodeLocked:
            raise
        except REFUSALS as exc:
            LOG.warning(
                "[node-keeps-data] Node %s keeps the project of its instance until it gets "
                "another one, or until an operator changes its lessee: %s",
                *(held.uuid, exc),
            )

    def _wait_for_step(self, held: Held, remaining: float) -> tuple[bool, Node | None]:
        """Wait for a state in which there is something to do.

        :returns: whether the instance is off the node; the node, ``None`` if it is gone too.
        """
        asked_of = held.node

        def until(node: Node | None) -> tuple[bool, Node | None] | None:
            if node is None or node.instance_uuid != held.instance.uuid:
                return True, node
            if _step_of(node, asked_of) is states.TearDownStep.WAIT:
                return None
            # The request was taken, but this look may be older than its effect.
            if node.provision_state == asked_of.provision_state and node.reservation:
                return None
            return False, node

        goal = "be torn down ([ironic] unprovision_timeout)"
        return held.wait(until, goal, remaining, kind="tear down", state=states.DELETING)


def _step_of(node: Node, asked_of: Node) -> states.TearDownStep:
    """What a node needs next.

    :param asked_of: the node as it was when something was asked of it.
    """
    return states.tear_down_step(node.provision_state, patched=bool(unprotect_patch(asked_of)))


def _failed(node: Node, instance: InstanceLike) -> exceptions.TearDownFailed:
    return exceptions.TearDownFailed(
        node.uuid,
        instance.uuid,
        f"Ironic failed to tear the node down: {node.why}. What ran on it may still run. "
        "Repair the node in Ironic, then delete the server again",
        last_error=node.last_error,
    )
