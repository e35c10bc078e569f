# SPDX-License-Identifier: Apache-2.0

"""Power, reboots and NMIs; soft changes with a fall back to hard ones.

A change that Ironic is making already, asked for before a crash, is waited
for and not asked for again.

A soft reboot is followed by a hard one only when Ironic says that it has failed.

A node with ``disable_power_off`` is rebooted and powered on as any other.  Ironic never
powers it off, and is never asked to.
"""

from __future__ import annotations

import functools

from oslo_log import log as logging

from ironic_virt import exceptions
from ironic_virt.baremetal import states
from ironic_virt.baremetal.node import Node
from ironic_virt.driver import resources
from ironic_virt.driver.held import Held
from ironic_virt.driver.protection import protect_node
from ironic_virt.driver.site import Site
from ironic_virt.virt import InstanceLike, PowerState

LOG = logging.getLogger(__name__)

# What Ironic shows as target_power_state while it carries out each request.
_REACHED = {
    states.POWER_ON: states.POWER_ON,
    states.POWER_OFF: states.POWER_OFF,
    states.SOFT_POWER_OFF: states.POWER_OFF,
    states.REBOOT: states.POWER_ON,
    states.SOFT_REBOOT: states.POWER_ON,
}
_REBOOTS = (states.REBOOT, states.SOFT_REBOOT)


class Power:
    """The part of the driver that is about power."""

    _site: Site

    def power_on(self, instance: InstanceLike) -> None:
        """Power on, and return when it is on.

        :raises PowerFailed: with Ironic's reason.
        """
        change_power(self._site, instance, states.POWER_ON)

    def power_off(self, instance: InstanceLike, timeout: int = 0) -> None:
        """Power off, and return when it is off; Ironic itself watches a soft one.

        :param timeout: seconds for the system to shut down by itself; 0: cut the power.
        :raises PowerFailed: with Ironic's reason, or because the node can't be powered off.
        """
        if timeout > 0:
            try:
                change_power(self._site, instance, states.SOFT_POWER_OFF, timeout)
                return
            except exceptions.PowerOffDisabled:
                raise
            except (exceptions.PowerFailed, exceptions.WaitTimeout) as exc:
                LOG.warning("[power-retried] %s. Cutting the power instead", exc)
        change_power(self._site, instance, states.POWER_OFF)

    def reboot(self, instance: InstanceLike, reboot_type: str) -> None:
        """Reboot, and return when the node is on again; a soft one falls back to a hard one.

        :param reboot_type: ``SOFT`` or ``HARD``.
        :raises PowerFailed: with Ironic's reason.
        :raises WaitTimeout: Ironic has not finished, or does not answer.
        """
        if reboot_type == "SOFT":
            try:
                change_power(self._site, instance, states.SOFT_REBOOT)
                return
            except exceptions.PowerFailed as exc:
                LOG.warning("[power-retried] %s. Rebooting it hard instead", exc)
        change_power(self._site, instance, states.REBOOT)

    def trigger_crash_dump(self, instance: InstanceLike) -> None:
        """Inject an NMI, which makes a system that is set up for it write a crash dump.

        The driver never injects a second one, and does not wait for the dump.

        :raises CrashDumpFailed: it was not injected, or this is not known.
        """
        held = Held.of(self._site, instance)
        with held.refused_as(
            exceptions.CrashDumpFailed, "an NMI could not be injected", when=lambda error: True
        ):
            held.client.management.inject_nmi(held.uuid)
        LOG.info("Instance %s, node %s: an NMI was injected", instance.uuid, held.uuid)

    def power_update_event(self, instance: InstanceLike) -> PowerState | None:
        """Take note of a power state that changed by itself, and return it as it is by now.

        What is known of the node would contradict it until the next refresh.  ``None``: unread.
        """
        try:
            node = self._site.nodes.read_carrier(instance)
            self._site.nodes.note(node)
            return resources.power_of(node).state
        except (exceptions.InstanceNotFound, exceptions.IronicError) as exc:
            LOG.warning(
                "[node-unread] Instance %s: its node can't be read after its power state has "
                "changed: %s. The next refresh does it",
                *(instance.uuid, exc),
            )
            return None


def change_power(site: Site, instance: InstanceLike, target: str, timeout: int = 0) -> None:
    """Change a power state, and return when it is done.

    :param timeout: seconds that Ironic itself waits for a soft change.
    :raises PowerFailed: with Ironic's reason.
    """
    held = Held.of(site, instance)
    if _REACHED[target] == states.POWER_ON:
        protect_node(site, held)
    node: Node | None = None
    if held.node.disable_power_off and _REACHED[target] == states.POWER_OFF:
        node = _off_already(held)
    elif _is_on_its_way(held.node, target):
        # Somebody has asked for it already.
        try:
            node = _settled(site, held, target, timeout)
        except exceptions.PowerFailed as exc:
            LOG.warning("[power-retried] %s. Asking for it again", exc)
    if node is None:
        _request(site, held, target, timeout)
        node = _settled(site, held, target, timeout)
    held.note(node)
    LOG.info("Instance %s, node %s: %r is done", instance.uuid, held.uuid, target)


def _request(site: Site, held: Held, target: str, timeout: int) -> None:
    changed_at = site.client.management.power_changed_at
    # A reboot that has ended looks like one that never began, but for this.
    before = changed_at(held.uuid) if target in _REBOOTS else None

    def applied(node: Node) -> bool:
        if _is_changing(node):
            return node.target_power_state in (target, _REACHED[target])
        if target in _REBOOTS:
            return changed_at(node.uuid) != before
        return node.power_state == _REACHED[target]

    with held.refused_as(exceptions.PowerFailed, f"Ironic refused {target!r}"):
        held.client.set_power_state(held.uuid, target, applied=applied, timeout=timeout or None)


def _settled(site: Site, held: Held, target: str, timeout: int) -> Node:
    """The node when it is done."""
    try:
        return _wait(site, held, target, timeout)
    except exceptions.WaitTimeout as exc:
        if target != states.SOFT_REBOOT or exc.__cause__ is not None:
            raise
        # Ironic gives a deaf system about as long as this, and takes no other request.
        LOG.warning("[power-retried] %s. Ironic is still working on it; waiting once more", exc)
    return _wait(site, held, target, timeout)


def _wait(site: Site, held: Held, target: str, timeout: int) -> Node:
    """The node when it is done; for the timeout see :func:`change_power`."""
    node = held.node
    began = node.hides_lock and node.target_power_state is not None

    def until(seen: Node | None) -> Node | None:
        nonlocal began
        if seen is not None and seen.hides_lock and not began:
            began = seen.target_power_state is not None
            if not began and (target in _REBOOTS or seen.power_state != _REACHED[target]):
                # Before it has begun a node looks just as it does afterwards.
                return None
        return check_outcome(node, seen, held.instance, target)

    limit = site.conf.ironic.power_timeout
    return held.wait(
        until,
        f"carry out {target!r} ([ironic] power_timeout)",
        # Ironic holds the lock as long as it waits: cutting the power has to come after.
        limit + timeout if limit else 0,
        kind="power",
        state=node.provision_state,
        late=lambda seen: check_outcome(node, seen, held.instance, target),
    )


def _is_changing(node: Node) -> bool:
    """Whether Ironic is changing the power.

    It holds the node's lock meanwhile.  A conductor that was stopped may leave a target without
    a lock: then nothing is changing it any more.
    """
    return node.target_power_state is not None and (
        node.reservation is not None or node.hides_lock
    )


def _is_on_its_way(node: Node, target: str) -> bool:
    """Whether Ironic is doing just this; it shows the state to come, and not the request."""
    if not _is_changing(node):
        return False
    if target in _REBOOTS and node.power_state != states.POWER_ON:
        return node.target_power_state == target
    # What is on and is to be on is rebooted: a node that is on is not switched on again.
    return node.target_power_state in (target, _REACHED[target])


def check_outcome(
    before: Node, after: Node | None, instance: InstanceLike, target: str
) -> Node | None:
    """What a look at a node says of a change: done, on its way (``None``), or failed.

    :param before: the node before the change was asked for.
    :param after: ``None``: Ironic has no such node.
    :raises PowerFailed: it failed, or the instance is not there any more.
    """
    failure = functools.partial(exceptions.PowerFailed, before.uuid, instance.uuid)
    if after is None or after.instance_uuid != instance.uuid:
        raise failure("the server went off the node meanwhile")
    # Ironic holds the node's lock from taking the request until its end.
    if _is_changing(after) or after.reservation is not None:
        return None
    # Only a reboot can leave the state as it was and yet have failed.
    has_failed = target in _REBOOTS and bool(after.last_error or after.target_power_state)
    if after.power_state == _REACHED[target] and not has_failed:
        return after
    raise failure(f"{target!r} failed, {after.states}: {after.why}")


def _off_already(held: Held) -> Node:
    """A node that Ironic never powers off, if there is no need to.

    :raises PowerOffDisabled: there is.
    """
    node = held.node
    if node.power_state == states.POWER_OFF and not _is_changing(node):
        return node
    raise held.error(
        exceptions.PowerOffDisabled,
        "the node can't be powered off, says its disable_power_off in Ironic. Shut the system "
        "down from inside, or reboot the server",
    )
