# SPDX-License-Identifier: Apache-2.0

"""What the driver has to do for each verb: functions that return the settled state or raise.

An action continues from any state that it finds, since it may be repeated after a crash.  It
writes nothing into the records; :mod:`ironic_virt.compute.engine.tasks` does that, and
handles all errors.  An action may have a second function, which says what the instance is after
an error.
"""

from __future__ import annotations

import dataclasses
import logging
from typing import TYPE_CHECKING, Any, Literal

from ironic_virt import exceptions, virt
from ironic_virt.compute.errors import one_line
from ironic_virt.compute.states import VmState

if TYPE_CHECKING:
    from ironic_virt.compute.build import Build
    from ironic_virt.compute.db.records import Fault, Instance
    from ironic_virt.driver import IronicDriver

LOG = logging.getLogger(__name__)

OUT_OF_REACH = (
    exceptions.IronicUnreachable,
    exceptions.IronicUnavailable,
    exceptions.IronicUnauthorized,
    exceptions.UnexpectedAnswer,
)
"""Errors that say nothing of the instance or its node: Ironic could not be asked."""

VM_STATES = {
    virt.PowerState.RUNNING: VmState.ACTIVE,
    virt.PowerState.SHUTDOWN: VmState.STOPPED,
}
"""What an instance is whose node has this power state; other power states decide nothing."""


class TryLater(Exception):
    """Nothing was decided; the task is carried out again a little later.

    Its text is a sentence without its full stop.
    """


@dataclasses.dataclass(frozen=True, slots=True)
class Settled:
    """What an instance is when its task has ended.

    :param power_state: ``None``: as the record has it.
    :param applied: what was asked for holds, so the record takes it over: a rebuild's
        image, an interface that has come or gone.
    :param fault: why the task failed; ``None``: it has succeeded.
    :param released: nothing of it is on its node or in its pool, which others may get.
    """

    vm_state: VmState
    power_state: virt.PowerState | None = None
    applied: bool = True
    fault: Fault | None = None
    released: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Task:
    """What is wanted of an instance.

    :param instance: its record, read just now.
    :param shutdown_timeout: seconds that its system has to shut down.
    :param build: builds it.
    """

    driver: IronicDriver
    instance: Instance
    shutdown_timeout: int
    build: Build

    @property
    def vm_state(self) -> VmState:
        """What the instance was when the task began."""
        return VmState(self.instance.vm_state)

    def argument(self, name: str) -> Any:
        """An argument of the request; ``None``: it was not given."""
        return self.instance.arguments.get(name)

    def power_state(self) -> virt.PowerState:
        """The node's power state; ``NOSTATE`` if Ironic can't be asked now."""
        try:
            return self.driver.get_info(self.instance).state
        except exceptions.IronicVirtError as error:
            LOG.debug("The power state of instance %s comes later: %s", self.instance.uuid, error)
            return virt.PowerState.NOSTATE


def as_before(task: Task, error: Exception) -> Settled:
    """After an error the instance is what it was."""
    return Settled(task.vm_state, applied=False)


# -- power --------------------------------------------------------------------


def power_on(task: Task) -> Settled:
    """Power the node on."""
    task.driver.power_on(task.instance)
    return _runs(task, virt.PowerState.RUNNING)


def power_off(task: Task) -> Settled:
    """Power the node off, when its system has shut down unless the argument ``hard`` is given."""
    timeout = 0 if task.argument("hard") else task.shutdown_timeout
    task.driver.power_off(task.instance, timeout)
    return _runs(task, virt.PowerState.SHUTDOWN)


def reboot(task: Task, kind: Literal["SOFT", "HARD"] = "SOFT") -> Settled:
    """Ask the system to reboot; ``HARD``: without asking."""
    task.driver.reboot(task.instance, kind)
    return _runs(task, virt.PowerState.RUNNING)


def _runs(task: Task, reached: virt.PowerState) -> Settled:
    in_error = task.vm_state is VmState.ERROR and not _is_deployed(task)
    return Settled(VmState.ERROR if in_error else VM_STATES.get(reached, VmState.ACTIVE), reached)


def _is_deployed(task: Task) -> bool:
    """Whether the node is deployed: power alone makes no deployment whole, or rebuild begun."""
    try:
        info = task.driver.get_info(task.instance, use_cache=False)
        return info.active and not (info.rebuild_pending and task.vm_state is VmState.ERROR)
    except exceptions.IronicVirtError as error:
        LOG.debug("Instance %s stays in error: %s", task.instance.uuid, error)
        return False


# -- what its disk has --------------------------------------------------------


def rebuild(task: Task) -> Settled:
    """Write an image onto the node again; the request's id tells which rebuild it is."""
    image = task.argument("image")
    try:
        task.driver.rebuild(
            virt.DeployRequest(
                task.instance,
                task.instance.image if image is None else virt.ImageMeta(**image),
                task.instance.ports,
                request_id=task.instance.request_id,
                preserve_ephemeral=bool(task.argument("preserve_ephemeral")),
            )
        )
    except exceptions.RebuildFailed as error:
        # While its node can't be found, nobody knows whether a process before has begun.
        unseen = error.node is None and isinstance(error.__cause__, exceptions.IronicError)
        if unseen or isinstance(error.__cause__, OUT_OF_REACH):
            raise TryLater(one_line(error)) from error
        raise
    stopped = task.vm_state is VmState.STOPPED
    if stopped:
        # Ironic has powered it on, and its system may be at its first boot.
        task.driver.power_off(task.instance, task.shutdown_timeout)
    return Settled(VmState.STOPPED if stopped else VmState.ACTIVE, task.power_state())


def rebuild_failed(task: Task, error: Exception) -> Settled:
    """Until Ironic has begun, an instance is as it was, its image too; later it is in error."""
    untouched = isinstance(error, exceptions.OperationNotSupported) or (
        isinstance(error, exceptions.RebuildFailed) and error.disk is exceptions.Disk.UNTOUCHED
    )
    return as_before(task, error) if untouched else Settled(VmState.ERROR)


def rescue(task: Task) -> Settled:
    """Boot the node into the rescue system."""
    task.driver.rescue(task.instance, task.argument("password") or "")
    return Settled(VmState.RESCUED, task.power_state())


def unrescue(task: Task) -> Settled:
    """Boot the node into the instance's own system again."""
    task.driver.unrescue(task.instance)
    return _runs(task, task.power_state())


def rescue_failed(task: Task, error: Exception) -> Settled:
    """An instance that runs its own system again is as it was; an unknown one is in error."""
    before = task.vm_state
    system = exceptions.System.UNTOUCHED
    if isinstance(error, exceptions.RescueFailed):
        system = error.system
    elif isinstance(error, exceptions.WaitTimeout) or not isinstance(
        error, exceptions.IronicVirtError
    ):
        system = exceptions.System.UNKNOWN
    if system is exceptions.System.UNKNOWN or before is VmState.ERROR:
        return Settled(VmState.ERROR)
    if system is exceptions.System.UNTOUCHED:
        # A process before this one may have done what the record does not show yet.
        runs_its_own = _is_deployed(task)
        if runs_its_own is (before is not VmState.RESCUED):
            return Settled(before)
        if not runs_its_own:
            return Settled(VmState.ERROR)
    # One that was off may have been powered on to get out of the rescue system.
    return Settled(VM_STATES.get(task.power_state(), before))


# -- the rest -----------------------------------------------------------------


def attach_interface(task: Task) -> Settled:
    """Attach a VIF, unless it is attached already."""
    task.driver.attach_interface(task.instance, virt.Vif(task.argument("vif")))
    return Settled(task.vm_state)


def attach_failed(task: Task, error: Exception) -> Settled:
    """A VIF that the node may have all the same stays its instance's: nobody else gets it."""
    return Settled(task.vm_state, applied=getattr(error, "left", False) is not False)


def detach_interface(task: Task) -> Settled:
    """Detach a VIF, unless it is gone already."""
    task.driver.detach_interface(task.instance, virt.Vif(task.argument("vif")))
    return Settled(task.vm_state)


def trigger_crash_dump(task: Task) -> Settled:
    """Send an NMI, with which a system that is set up for it writes a crash dump.

    :raises CrashDumpFailed: the node is powered off, so no system runs there.
    """
    state = task.driver.get_info(task.instance, use_cache=False).state
    if state is virt.PowerState.SHUTDOWN:
        raise exceptions.CrashDumpFailed(
            str(task.instance.node),
            task.instance.uuid,
            "the node is powered off, so no system runs there that could write a crash dump; "
            "no NMI was sent",
        )
    task.driver.trigger_crash_dump(task.instance)
    return Settled(task.vm_state)


def delete(task: Task) -> Settled:
    """Give the node back in Ironic."""
    task.driver.destroy(task.instance)
    return Settled(VmState.DELETED)
