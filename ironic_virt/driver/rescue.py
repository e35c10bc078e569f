# SPDX-License-Identifier: Apache-2.0

"""Booting an instance's node into the rescue system, and back.

Level-triggered: what Ironic is doing already is waited for.  A rescue is then asked for
in any case, also for a node that is rescued already, since it may have another password.

A rescue that fails is followed by an unrescue, so the node goes on with its own system;
an unrescue that fails is tried a second time.  The error says what came of that.
"""

from __future__ import annotations

from collections.abc import Callable

from oslo_log import log as logging

from ironic_virt import exceptions
from ironic_virt.baremetal import states
from ironic_virt.baremetal.node import Node
from ironic_virt.driver import history, resources
from ironic_virt.driver.change import Change, is_refusal
from ironic_virt.driver.patience import Patience
from ironic_virt.driver.site import Site
from ironic_virt.virt import InstanceLike

LOG = logging.getLogger(__name__)

_BACK = "the server runs its own system"
_NOT_BACK = (
    "it could not be brought back to its own system either: {why}. Repair the node in Ironic, "
    "then unrescue the server"
)


class Rescue:
    """Rescues and unrescues instances.  Thread-safe: it keeps nothing between calls."""

    def __init__(self, site: Site) -> None:
        self._site = site

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
        change = self._at_rest(instance)
        _check(change, states.RESCUABLE, "rescued")
        self._carry_out(change, password)

    def finish_rescue(self, instance: InstanceLike) -> None:
        """Return when a rescue has ended that another process has asked for.

        As long as Ironic doesn't answer, it is asked again.

        For errors see :meth:`rescue`.  It is also refused if it was never asked for.
        """
        node = Patience(self._site, instance, gives_up=False).look()
        change = Change(self._site, instance, node)
        begun = (*states.RESCUE_IN_PROGRESS, states.RESCUE, states.RESCUE_FAILED)
        if change.node.provision_state not in begun:
            raise change.error(
                exceptions.RescueFailed,
                "it was interrupted before Ironic was asked for it",
                system=exceptions.System.UNTOUCHED,
            )
        self._carry_out(change)

    def _carry_out(self, change: Change, password: str | None = None) -> None:
        """Rescue, or wait for a rescue that was asked for.

        :param password: ``None``: it was.
        """
        instance = change.instance
        try:
            if password is not None:
                self._ask(change, states.VERB_RESCUE, password)
            done = self._wait(change, states.RESCUE)
        except (exceptions.RescueFailed, exceptions.WaitTimeout) as exc:
            history.explain(self._site.client, exc)
            raise self._left(instance, exc) from exc
        change.note(done)
        LOG.info("Instance %s, node %s: the rescue system is there", instance.uuid, done.uuid)

    def unrescue(self, instance: InstanceLike) -> None:
        """Return when the instance's own system has been booted.

        :raises InstanceNotFound: no node carries it.
        :raises RescueFailed: why; the node is not on its own system.
        :raises BuildAborted: it is not wanted any more; the node is on the way there.
        :raises NodeNotOurs: the node is outside the target set; nothing was done.
        """
        change = self._at_rest(instance)
        if change.node.provision_state == states.ACTIVE:
            self._site.access.note(change.node)
            return
        _check(change, states.UNRESCUABLE, "unrescued")
        try:
            done = self._unrescued(change)
        except exceptions.RescueFailed as exc:
            LOG.warning("[unrescue-retried] %s. Trying once more", exc)
            done = self._second_try(instance, exc)
        change.note(done)
        LOG.info("Instance %s, node %s: it is unrescued", instance.uuid, done.uuid)

    def _unrescued(self, change: Change) -> Node:
        self._ask(change, states.VERB_UNRESCUE)
        return self._wait(change, states.ACTIVE)

    def _second_try(self, instance: InstanceLike, first: exceptions.RescueFailed) -> Node:
        change = self._at_rest(instance)
        if change.node.provision_state == states.ACTIVE:
            return change.node
        if change.node.provision_state != states.UNRESCUE_FAILED:
            raise first
        try:
            return self._unrescued(change)
        except exceptions.RescueFailed as exc:
            raise change.error(
                exceptions.RescueFailed,
                f"{exc.reason}. That was the second try: the node stays in "
                f"{states.UNRESCUE_FAILED!r}. Repair it in Ironic, then unrescue the server "
                "again",
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
        change = Change.of(self._site, instance)
        if change.node.provision_state == states.RESCUE_WAIT:
            # The rescue system never called back; only so it can be left.
            self._ask(change, states.VERB_ABORT)
        if change.node.provision_state in states.RESCUE_IN_PROGRESS:
            change = self._at_rest(instance)
        state = change.node.provision_state
        if state == states.ACTIVE:
            return _BACK
        if state in (states.RESCUE_FAILED, states.UNRESCUE_FAILED):
            change.note(self._unrescued(change))
            return _BACK
        return f"the node is in {state!r} now"

    # -- request and wait -----------------------------------------------------

    def _at_rest(self, instance: InstanceLike) -> Change:
        """A change of the node that carries the instance, when Ironic is not at work on it."""
        change = Change.of(self._site, instance)
        if change.node.provision_state not in states.RESCUE_IN_PROGRESS:
            return change

        def until(now: Node | None) -> Node | None:
            if now is not None and now.provision_state in states.RESCUE_IN_PROGRESS:
                return None
            return _still(change, now)

        self._wait_until(change, until, "end what it is doing")
        return Change.of(self._site, instance)

    def _ask(self, change: Change, verb: str, password: str | None = None) -> None:
        """Ask for a change of a node that was read just now."""
        self._site.service.report_progress(
            change.instance, f"{verb} asked for", change.node.provision_state or ""
        )
        with change.refused_as(
            exceptions.RescueFailed,
            f"Ironic refused {verb!r}",
            when=is_refusal,
            system=exceptions.System.UNTOUCHED,
        ):
            change.ask(verb, exceptions.RescueFailed, rescue_password=password)

    def _wait(self, change: Change, wanted: str) -> Node:
        def until(now: Node | None) -> Node | None:
            now = _still(change, now)
            state = now.provision_state
            if state == wanted:
                return now
            if state in states.RESCUE_IN_PROGRESS or state not in (None, *states.ALL):
                return None
            if state in (states.RESCUE_FAILED, states.UNRESCUE_FAILED) and now.owes_reason:
                return None
            what = "the rescue" if wanted == states.RESCUE else "the unrescue"
            raise change.error(
                exceptions.RescueFailed,
                f"{what} failed: {now.last_error or f'the node is in {state!r}'}",
                last_error=now.last_error,
            )

        what = "be rescued" if wanted == states.RESCUE else "be unrescued"
        return self._wait_until(change, until, what)

    def _wait_until(
        self, change: Change, until: Callable[[Node | None], Node | None], what: str
    ) -> Node:
        return change.wait(
            until,
            f"{what} ([ironic] rescue_timeout)",
            self._site.conf.ironic.rescue_timeout,
            kind="rescue",
            state=states.RESCUING,
            abortable=True,
        )


def _still(change: Change, now: Node | None) -> Node:
    if now is None or now.instance_uuid != change.instance.uuid:
        raise change.error(exceptions.RescueFailed, "the server went off the node meanwhile")
    return now


def _check(change: Change, allowed: frozenset[str], what: str) -> None:
    """Refuse what can't be done in the node's state.

    :raises RescueFailed: why; nothing was done.
    """
    node = change.node
    state = node.provision_state or states.AVAILABLE
    if maintenance := resources.why_in_maintenance(node):
        reason = f"the node is {maintenance}"
    elif state not in allowed:
        reason = f"the node is in {state!r}, from which nothing can be {what}"
    else:
        return
    raise change.error(exceptions.RescueFailed, reason, system=exceptions.System.UNTOUCHED)
