# SPDX-License-Identifier: Apache-2.0

"""Power, reboots and NMIs; soft changes with a fall back to hard ones.

A change that Ironic is making already, asked for before a crash, is waited
for and not asked for again.

A node with ``disable_power_off`` is rebooted and powered on as any other.  Ironic never
powers it off, so nobody asks for that.
"""

from __future__ import annotations

from oslo_config import cfg
from oslo_log import log as logging

from ironic_virt import exceptions
from ironic_virt.baremetal import states
from ironic_virt.baremetal.client import IronicClient
from ironic_virt.baremetal.node import Node
from ironic_virt.baremetal.watcher import Watcher
from ironic_virt.driver.access import NodeAccess
from ironic_virt.virt import InstanceLike

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
    """Changes power states.  Thread-safe: it keeps nothing between calls."""

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        client: IronicClient,
        access: NodeAccess,
        watcher: Watcher,
    ) -> None:
        self._conf = conf
        self._client = client
        self._access = access
        self._watcher = watcher

    def on(self, instance: InstanceLike) -> None:
        """Power on, and return when it is on.

        :raises PowerFailed: with Ironic's reason.
        """
        self._change(instance, states.POWER_ON)

    def off(self, instance: InstanceLike, timeout: int = 0) -> None:
        """Power off, and return when it is off.

        :param timeout: seconds for the operating system to shut down by
            itself before the power is cut; 0 cuts it at once.
        :raises PowerFailed: with Ironic's reason, or because the node can't be powered off.
        """
        if timeout > 0:
            try:
                self._change(instance, states.SOFT_POWER_OFF, timeout)
                return
            except exceptions.PowerOffDisabled:
                raise
            except (exceptions.PowerFailed, exceptions.WaitTimeout) as exc:
                LOG.warning("%s. Cutting the power instead", exc)
        self._change(instance, states.POWER_OFF)

    def reboot(self, instance: InstanceLike, *, soft: bool) -> None:
        """Reboot, and return when the node is on again."""
        if soft:
            try:
                self._change(instance, states.SOFT_REBOOT)
                return
            except (exceptions.PowerFailed, exceptions.WaitTimeout) as exc:
                LOG.warning("%s. Rebooting it hard instead", exc)
        self._change(instance, states.REBOOT)

    def inject_nmi(self, instance: InstanceLike) -> None:
        """Send the node an NMI; what its system makes of that, nobody is told.

        :raises CrashDumpFailed: with Ironic's reason.
        """
        node = self._access.of_instance(instance)
        self._access.guard(node, instance)
        try:
            self._client.management.inject_nmi(
                node.uuid, again=self._access.still_held(instance, node.uuid)
            )
        except exceptions.IronicError as exc:
            raise exceptions.CrashDumpFailed(
                node.uuid,
                instance.uuid,
                f"an NMI could not be injected: {exc.message}",
                request_id=exc.request_id,
            ) from exc
        LOG.info("Instance %s, node %s: an NMI was injected", instance.uuid, node.uuid)

    def look_again(self, instance: InstanceLike) -> None:
        """Read the node after somebody has told that its power state changed by itself.

        What is known of it meanwhile would contradict that until the next refresh.
        """
        try:
            self._access.note(self._access.of_instance(instance))
        except (exceptions.InstanceNotFound, exceptions.IronicError) as exc:
            LOG.warning(
                "Instance %s: its node can't be read after its power state has changed: %s. The "
                "next refresh does it",
                *(instance.uuid, exc),
            )

    def _change(self, instance: InstanceLike, target: str, timeout: int = 0) -> None:
        node = self._access.of_instance(instance)
        self._access.guard(node, instance)
        if node.disable_power_off and _REACHED[target] == states.POWER_OFF:
            done: Node | None = _off_already(node, instance)
        else:
            done = self._under_way(node, instance, target, timeout)
        if done is None:
            self._request(node, instance, target, timeout)
            done = self._wait(node, instance, target, timeout)
        self._access.note_seen(done, node.uuid)
        LOG.info("Instance %s, node %s: %r is done", instance.uuid, node.uuid, target)

    def _under_way(
        self, node: Node, instance: InstanceLike, target: str, timeout: int
    ) -> Node | None:
        """The node after a change that somebody has asked for already.

        :returns: ``None``: there was none, or it has failed.
        """
        if not _is_on_its_way(node, target):
            return None
        try:
            return self._wait(node, instance, target, timeout)
        except exceptions.PowerFailed as exc:
            LOG.warning("%s. Asking for it anew", exc)
            return None

    def _request(self, node: Node, instance: InstanceLike, target: str, timeout: int) -> None:
        def applied(now: Node) -> bool:
            if now.target_power_state is not None:
                return now.target_power_state in (target, _REACHED[target])
            # A reboot that has ended can't be told from one that never began.
            return target not in _REBOOTS and now.power_state == _REACHED[target]

        try:
            self._client.set_power_state(
                node.uuid,
                target,
                applied=applied,
                timeout=timeout or None,
                again=self._access.still_held(instance, node.uuid),
            )
        except (exceptions.BadRequest, exceptions.Conflict) as exc:
            raise exceptions.PowerFailed(
                node.uuid,
                instance.uuid,
                f"Ironic refused {target!r}: {exc.message}",
                request_id=exc.request_id,
            ) from exc

    def _wait(self, node: Node, instance: InstanceLike, target: str, timeout: int) -> Node:
        """The node when it is done.

        :param timeout: seconds that Ironic itself waits for a soft change.
        """
        wanted = _REACHED[target]

        def until(now: Node | None) -> Node | None:
            if now is None or now.instance_uuid != instance.uuid:
                raise exceptions.PowerFailed(
                    node.uuid, instance.uuid, "the instance went off the node meanwhile"
                )
            # Ironic holds the node's lock from taking the request until its end.
            if now.target_power_state is not None or now.reservation is not None:
                return None
            # Only a reboot can leave the state as it was and yet have failed.
            if now.power_state == wanted and not (target in _REBOOTS and now.last_error):
                return now
            raise exceptions.PowerFailed(
                node.uuid,
                instance.uuid,
                f"{target!r} failed, {now.states}: {now.last_error or 'Ironic gives no reason'}",
            )

        limit = self._conf.ironic.power_timeout
        return self._watcher.wait(
            node.uuid,
            until,
            what=f"carry out {target!r} ([ironic] power_timeout)",
            # Ironic holds the lock as long as it waits: cutting the power has to come after.
            timeout=limit + timeout if limit else 0,
            instance=instance.uuid,
            state=node.provision_state,
        )


def _is_on_its_way(node: Node, target: str) -> bool:
    """Whether Ironic is doing just this; it shows what comes of it, and not what was asked."""
    if target in _REBOOTS and node.power_state != states.POWER_ON:
        return node.target_power_state == target
    # What is on and is to be on is rebooted: a node that is on is not switched on again.
    return node.target_power_state in (target, _REACHED[target])


def _off_already(node: Node, instance: InstanceLike) -> Node:
    """A node that Ironic never powers off, if there is no need to.

    :raises PowerOffDisabled: there is.
    """
    if node.power_state == states.POWER_OFF and node.target_power_state is None:
        return node
    raise exceptions.PowerOffDisabled(
        node.uuid,
        instance.uuid,
        "the node can't be powered off, says its disable_power_off in Ironic. Shut the system "
        "down from inside, or reboot the instance",
    )
