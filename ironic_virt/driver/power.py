# SPDX-License-Identifier: Apache-2.0

"""Power and reboot, soft with a fall back to hard.

A change that Ironic is making already, asked for before a crash, is waited
for and not asked for again.
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
        """
        if timeout > 0:
            try:
                self._change(instance, states.SOFT_POWER_OFF, timeout)
                return
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

    def _change(self, instance: InstanceLike, target: str, timeout: int | None = None) -> None:
        node = self._access.of_instance(instance)
        self._access.guard(node, instance)
        if node.target_power_state != target:
            self._request(node, instance, target, timeout)
        done = self._wait(node, instance, target)
        self._access.note_seen(done, node.uuid)
        LOG.info("Instance %s, node %s: %r is done", instance.uuid, node.uuid, target)

    def _request(
        self, node: Node, instance: InstanceLike, target: str, timeout: int | None
    ) -> None:
        def applied(now: Node) -> bool:
            if now.target_power_state is not None:
                return now.target_power_state == target
            # A reboot that has ended can't be told from one that never began.
            return target in (states.POWER_ON, states.POWER_OFF) and now.power_state == target

        try:
            self._client.set_power_state(node.uuid, target, applied=applied, timeout=timeout)
        except (exceptions.BadRequest, exceptions.Conflict) as exc:
            raise exceptions.PowerFailed(
                node.uuid,
                instance.uuid,
                f"Ironic refused {target!r}: {exc.message}",
                request_id=exc.request_id,
            ) from exc

    def _wait(self, node: Node, instance: InstanceLike, target: str) -> Node:
        """The node when it is done."""
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
            rebooting = target in (states.REBOOT, states.SOFT_REBOOT)
            if now.power_state == wanted and not (rebooting and now.last_error):
                return now
            raise exceptions.PowerFailed(
                node.uuid,
                instance.uuid,
                f"{target!r} failed, {now.states}: {now.last_error or 'Ironic gives no reason'}",
            )

        return self._watcher.wait(
            node.uuid,
            until,
            what=f"carry out {target!r} ([ironic] power_timeout)",
            timeout=self._conf.ironic.power_timeout,
            instance=instance.uuid,
            state=node.provision_state,
        )
