# SPDX-License-Identifier: Apache-2.0

"""Booting an instance's node into the rescue system, and back.

Level-triggered: what Ironic is doing already is waited for.  A rescue is then asked for
in any case, also for a node that is rescued already, since it may have another password.

A rescue that fails, or leaves the node off, is followed by an unrescue, so the node goes on
with its own system; an unrescue that fails is tried a second time.  The error says what came
of that.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from oslo_log import log as logging

from ironic_virt import exceptions
from ironic_virt.baremetal import states
from ironic_virt.baremetal.node import Node
from ironic_virt.driver import history, resources
from ironic_virt.driver.held import Held, is_refusal
from ironic_virt.driver.patience import Patience
from ironic_virt.driver.protection import protect_node
from ironic_virt.driver.site import Site
from ironic_virt.virt import InstanceLike

LOG = logging.getLogger(__name__)

_BACK = "the server runs its own system"
_OFF = "the server is off; a hard reboot boots its own system"
_NOT_BACK = (
    "it could not be brought back to its own system either: {why}. Repair the node in Ironic, "
    "then unrescue the server"
)

_POWERED_OFF = (
    "the rescue failed: at its end Ironic powered the node off, as its boot interface "
    "redfish-virtual-media does. With driver_info/fast_track = true on the node it leaves it on"
)


class Rescue:
    """The part of the driver that is about the rescue system."""

    _site: Site

    def rescue(self, instance: InstanceLike, rescue_password: str) -> None:
        """Boot the rescue system that Ironic has; return when it is there.

        :param rescue_password: of its user; never logged.
        :raises RescueFailed: why, and on which system the instance is now.
        :raises BuildAborted: it is not wanted any more; the node is on the way there.
        """
        if not rescue_password.strip():
            raise exceptions.OperationNotSupported("rescuing without a password")
        held = self._held_at_rest(instance)
        _check(held, states.RESCUABLE, "rescued")
        self._carry_out_rescue(held, rescue_password)

    def finish_rescue(self, instance: InstanceLike, since: datetime | None = None) -> None:
        """Return when a rescue that another process has begun has ended.

        As long as Ironic doesn't answer, it is asked again.  For errors see :meth:`rescue`; it is
        also refused if it was never asked for.

        :param since: when the user asked for it: an earlier rescue has another password.
        """
        held = Patience(self._site, instance, gives_up=False).look()
        state = held.node.provision_state
        begun = (*states.RESCUE_IN_PROGRESS, states.RESCUE, states.RESCUE_FAILED)
        entered = history.read_time(held.node.provision_updated_at)
        is_earlier = since and entered and state == states.RESCUE and entered < since
        if state not in begun or is_earlier:
            raise held.error(
                exceptions.RescueFailed,
                "it was interrupted before Ironic was asked for it",
                system=exceptions.System.UNTOUCHED,
            )
        self._carry_out_rescue(held)

    def _carry_out_rescue(self, held: Held, password: str | None = None) -> None:
        """Rescue; or, without a password, wait for a rescue that was asked for."""
        instance = held.instance
        try:
            if password is not None:
                self._ask_rescuing(held, states.VERB_RESCUE, password)
            node = self._rescue_ended(held, states.RESCUE, was_on=password is None)
        except (exceptions.RescueFailed, exceptions.WaitTimeout) as exc:
            history.explain_error(self._site.client, exc)
            raise self._rescue_error(instance, exc) from exc
        held.note(node)
        LOG.info("Instance %s, node %s: the rescue system is there", instance.uuid, node.uuid)

    def unrescue(self, instance: InstanceLike) -> None:
        """Boot the instance's own system again; return when it is there.

        :raises RescueFailed: why; the node is not on its own system.
        :raises BuildAborted: it is not wanted any more; the node is on the way there.
        """
        with history.explained_errors(self._site.client):
            held = self._held_at_rest(instance)
            if held.node.provision_state == states.ACTIVE:
                self._site.nodes.note(held.node)
                return
            _check(held, states.UNRESCUABLE, "unrescued")
            try:
                node = self._unrescued(held)
            except exceptions.RescueFailed as exc:
                LOG.warning("[unrescue-retried] %s. Trying once more", exc)
                node = self._unrescue_again(instance, exc)
            held.note(node)
            LOG.info("Instance %s, node %s: it is unrescued", instance.uuid, node.uuid)

    def _unrescued(self, held: Held) -> Node:
        self._ask_rescuing(held, states.VERB_UNRESCUE)
        return self._rescue_ended(held, states.ACTIVE)

    def _unrescue_again(self, instance: InstanceLike, first: exceptions.RescueFailed) -> Node:
        held = self._held_at_rest(instance)
        if held.node.provision_state == states.ACTIVE:
            return held.node
        if held.node.provision_state != states.UNRESCUE_FAILED:
            raise first
        try:
            return self._unrescued(held)
        except exceptions.RescueFailed as exc:
            raise held.error(
                exceptions.RescueFailed,
                f"{exc.reason}. That was the second try: the node stays in "
                f"{states.UNRESCUE_FAILED!r}. Repair it in Ironic, then unrescue the server "
                "again",
                last_error=exc.last_error,
            ) from exc

    # -- a failed rescue ------------------------------------------------------

    def _rescue_error(
        self, instance: InstanceLike, error: exceptions.NodeError
    ) -> exceptions.RescueFailed:
        """Leave the state in which a rescue has failed, and say what came of that."""
        try:
            how = self._leave_rescue(instance)
        except (exceptions.BuildAborted, exceptions.WaitCancelled):
            raise
        except (exceptions.NodeError, exceptions.IronicError) as exc:
            why = exc.reason if isinstance(exc, exceptions.NodeError) else str(exc)
            how = _NOT_BACK.format(why=why)
        # The good news first: Nova's users see the beginning only.
        is_back = how in (_BACK, _OFF)
        parts = [how, error.reason] if is_back else [error.reason, how]
        failed = exceptions.RescueFailed(
            error.node,
            instance.uuid,
            "; ".join(parts),
            last_error=getattr(error, "last_error", None),
            request_id=error.request_id,
            system=exceptions.System.OWN if is_back else exceptions.System.UNKNOWN,
        )
        for note in getattr(error, "__notes__", ()):
            failed.add_note(note)
        return failed

    def _leave_rescue(self, instance: InstanceLike) -> str:
        held = Held.of(self._site, instance)
        if held.node.provision_state == states.RESCUE_WAIT:
            # The rescue system never called back; only so it can be left.
            self._ask_rescuing(held, states.VERB_ABORT)
        if held.node.provision_state in states.RESCUE_IN_PROGRESS:
            held = self._held_at_rest(instance)
        state = held.node.provision_state
        if state == states.ACTIVE:
            # Nova stops a server before it is rescued.
            return _OFF if held.node.power_state == states.POWER_OFF else _BACK
        failed = state in (states.RESCUE_FAILED, states.UNRESCUE_FAILED)
        if failed or _is_off_in_rescue(held.node):
            held.note(self._unrescued(held))
            return _BACK
        return f"the node is in {state!r} now"

    # -- request and wait -----------------------------------------------------

    def _held_at_rest(self, instance: InstanceLike) -> Held:
        """The node that carries the instance, protected, when Ironic is not at work on it."""
        held = Held.of(self._site, instance)

        def until(node: Node | None) -> Node | None:
            if node is not None and node.provision_state in states.RESCUE_IN_PROGRESS:
                return None
            return _still(held, node)

        if held.node.provision_state in states.RESCUE_IN_PROGRESS:
            self._wait_for_rescue(held, until, "end what it is doing")
            held = Held.of(self._site, instance)
        protect_node(self._site, held)
        return held

    def _ask_rescuing(self, held: Held, verb: str, password: str | None = None) -> None:
        """Ask for a change of a node that was read just now."""
        self._site.service.report_progress(
            held.instance, f"{verb} asked for", held.node.provision_state
        )
        with held.refused_as(
            exceptions.RescueFailed,
            f"Ironic refused {verb!r}",
            when=is_refusal,
            system=exceptions.System.UNTOUCHED,
        ):
            held.ask(verb, exceptions.RescueFailed, rescue_password=password)

    def _rescue_ended(self, held: Held, wanted: str, *, was_on: bool = False) -> Node:
        """The node in that state; ``was_on``: it may have been on while nobody looked."""
        verb = "rescue" if wanted == states.RESCUE else "unrescue"
        was_on = was_on or held.node.power_state == states.POWER_ON
        state = ""

        def until(seen: Node | None) -> Node | None:
            nonlocal was_on, state
            node = _still(held, seen)
            state = node.provision_state
            # Nova powers it off before.  Fake hardware leaves it so, and is the only one to.
            was_on = was_on or node.power_state == states.POWER_ON
            if state == wanted:
                if was_on and _is_off_in_rescue(node):
                    raise held.error(exceptions.RescueFailed, _POWERED_OFF)
                return node
            if state in states.RESCUE_IN_PROGRESS or state not in states.ALL:
                return None
            if state in (states.RESCUE_FAILED, states.UNRESCUE_FAILED) and node.owes_reason:
                return None
            raise held.error(
                exceptions.RescueFailed,
                f"the {verb} failed: {node.last_error or f'the node is in {state!r}'}",
                last_error=node.last_error,
            )

        try:
            return self._wait_for_rescue(held, until, f"be {verb}d")
        except exceptions.WaitTimeout as exc:
            if state != states.RESCUING or exc.__cause__ is not None:
                raise
            timeout = exc

        def until_abortable(seen: Node | None) -> Node | None:
            if (ended := until(seen)) is None and state == states.RESCUE_WAIT:
                raise timeout
            return ended

        # It can't be aborted in that state, and may end well after its time.
        return self._wait_for_rescue(held, until_abortable, f"be {verb}d")

    def _wait_for_rescue(
        self, held: Held, until: Callable[[Node | None], Node | None], what: str
    ) -> Node:
        return held.wait(
            until,
            f"{what} ([ironic] rescue_timeout)",
            self._site.conf.ironic.rescue_timeout,
            kind="rescue",
            state=states.RESCUING,
            abortable=True,
        )


def _is_off_in_rescue(node: Node) -> bool:
    return node.provision_state == states.RESCUE and node.power_state == states.POWER_OFF


def _still(held: Held, node: Node | None) -> Node:
    if node is None or node.instance_uuid != held.instance.uuid:
        raise held.error(exceptions.RescueFailed, "the server went off the node meanwhile")
    return node


def _check(held: Held, allowed: frozenset[str], what: str) -> None:
    """Refuse, with RescueFailed, what can't be done in the node's state."""
    node, state = held.node, held.node.provision_state
    if maintenance := resources.why_in_maintenance(node):
        reason = f"the node is {maintenance}"
    elif state not in allowed:
        reason = f"the node is in {state!r}, from which nothing can be {what}"
    else:
        return
    has_failed = state in (states.RESCUE_FAILED, states.UNRESCUE_FAILED)
    system = exceptions.System.UNKNOWN if has_failed else exceptions.System.UNTOUCHED
    raise held.error(exceptions.RescueFailed, reason, system=system)
