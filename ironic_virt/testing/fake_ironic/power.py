# SPDX-License-Identifier: Apache-2.0

"""Power actions: what changes at once and what when the action is over."""

from ironic_virt.testing.fake_ironic import errors, states
from ironic_virt.testing.fake_ironic.baremetal import Baremetal
from ironic_virt.testing.fake_ironic.records import Node

#: Ironic's default ``[conductor] soft_power_off_timeout``, in seconds.
SOFT_TIMEOUT = 600


def change_power(bm: Baremetal, node: Node, target: str, timeout: int | None = None) -> None:
    """Start a power action.

    :param target: one of :data:`states.POWER_TARGETS`.
    :param timeout: seconds after which a soft action that the instance does
        not follow is given up.
    :raises ApiError: 409 if the node is locked.
    """
    bm.acquire(node)
    soft = target in (states.SOFT_REBOOT, states.SOFT_POWER_OFF)
    on = target in (states.POWER_ON, states.REBOOT, states.SOFT_REBOOT)
    end = states.POWER_ON if on else states.POWER_OFF
    already = node.power_state == end and target not in (states.REBOOT, states.SOFT_REBOOT)
    noted = node.driver_internal_info
    if not already:
        noted = {**noted, "last_power_state_change": bm.store.timestamp()[:19]}
    bm.update(node, target_power_state=end, last_error=None, driver_internal_info=noted)
    bm.lock(node)
    failure = bm.take_failure("power", node)
    delay = 0.0 if already else bm.seconds(bm.settings.durations.power)
    if soft and node.uuid in bm.deaf and not already:
        delay = float(timeout or SOFT_TIMEOUT)
        failure = f"Failed to set node power state to {end}."

    def finish() -> None:
        if bm.store.nodes.get(node.uuid) is not node:
            return
        bm.update(node, target_power_state=None, reservation=None)
        if failure is not None and not already:
            bm.record_error(
                node,
                f"Failed to change power state to '{end}' by '{target}': {failure}",
                "UNKNOWN",
            )
        else:
            bm.update(node, power_state=end)

    bm.timeline.after(delay, finish)


def check_power_target(node: Node, ident: str, target: str, timeout: int | None) -> None:
    """Refuse what no power action can be.

    :raises ApiError: 400 or 409.
    """
    if timeout is not None and timeout < 1:
        raise errors.invalid("timeout has to be positive integer")
    if target not in states.POWER_TARGETS:
        raise errors.state_not_allowed(target, ident, node.power_state)
    if node.provision_state in (states.CLEANING, states.CLEANWAIT):
        raise errors.state_not_allowed(target, ident, node.provision_state)
    if target in (states.POWER_OFF, states.SOFT_POWER_OFF) and node.disable_power_off:
        raise errors.conflict(f"Failed to set node power state to {target}.")
