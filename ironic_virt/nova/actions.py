# SPDX-License-Identifier: Apache-2.0

"""What nova-compute does with a server that is there: its power, a rescue, its consoles."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from nova import exception, objects
from nova.compute import power_state, task_states, vm_states
from nova.compute import utils as compute_utils
from nova.console import type as console_type
from nova.image import glance
from nova.objects import external_event

from ironic_virt import driver, exceptions
from ironic_virt.nova import values
from ironic_virt.nova.errors import Doing, translated
from ironic_virt.nova.virtapi import NovaVirtAPI

SHELVING = (task_states.SHELVING, task_states.SHELVING_OFFLOADING)


class Actions:
    """The part of the virt driver that is about servers that are there."""

    _driver: driver.IronicDriver
    _records: NovaVirtAPI
    _clock: Callable[[], float]
    _read_at: dict[str, float]

    @contextlib.contextmanager
    def _acting(self, doing: Doing, instance: Any) -> Iterator[None]:
        """An action at whose end the driver has read the node."""
        self._read_at.pop(instance.uuid, None)
        with translated(doing, instance):
            yield
        self._read_at[instance.uuid] = self._clock()

    # -- the rescue system ----------------------------------------------------

    def rescue(
        self,
        context: Any,
        instance: Any,
        network_info: Any,
        image_meta: Any,
        rescue_password: str,
        block_device_info: Any,
        share_info: Any = None,
    ) -> None:
        """Boot the rescue system, which is Ironic's: an image of the user's has no say."""
        with self._acting(Doing.RESCUE, instance):
            self._driver.rescue(instance, rescue_password)

    def unrescue(self, context: Any, instance: Any) -> None:
        """Boot the server's own system again."""
        with self._acting(Doing.UNRESCUE, instance):
            self._driver.unrescue(instance)

    def check_can_live_migrate_destination(
        self,
        context: Any,
        instance: Any,
        src_compute_info: Any,
        dst_compute_info: Any,
        block_migration: bool = False,
        disk_over_commit: bool = False,
    ) -> None:
        """Refuse, by a kind that leaves the server as it is and has Nova ask no other host."""
        raise exception.HypervisorUnavailable("servers on bare metal can't be migrated live")

    # -- consoles -------------------------------------------------------------

    def get_serial_console(self, context: Any, instance: Any) -> Any:
        """Where ``nova-serialproxy`` finds the serial console, which it gets to itself.

        :raises ConsoleTypeUnavailable: there is none.
        """
        with translated(Doing.SERIAL_CONSOLE, instance):
            console = self._driver.get_serial_console(instance)
        return console_type.ConsoleSerial(console.host, console.port, console.path)

    def get_vnc_console(self, context: Any, instance: Any) -> Any:
        """Where ``nova-novncproxy`` finds the VNC server.

        :raises ConsoleTypeUnavailable: there is none.
        """
        with translated(Doing.VNC_CONSOLE, instance):
            console = self._driver.get_vnc_console(instance)
        return console_type.ConsoleVNC(console.host, console.port, console.path)

    # -- power ----------------------------------------------------------------

    def reboot(
        self,
        context: Any,
        instance: Any,
        network_info: Any,
        reboot_type: str,
        block_device_info: Any = None,
        bad_volumes_callback: Any = None,
        accel_info: Any = None,
        share_info: Any = None,
    ) -> None:
        """Reboot; a soft one falls back to a hard one."""
        with self._acting(Doing.REBOOT, instance):
            self._driver.reboot(instance, reboot_type)

    def power_off(self, instance: Any, timeout: int = 0, retry_interval: int = 0) -> None:
        """Power off, softly first if there is a timeout; Ironic itself watches that.

        Before a rescue Ironic itself handles the power: it may end without power off.

        Nothing is done to a server with a disk that is shelved: :meth:`snapshot` refuses it then.
        Nor to one that an attempt to shelve it before has taken off its node.
        """
        if isinstance(timeout, objects.Instance):
            # From 2025.1 on, Nova passes its context first when it powers a deleted server off.
            instance, timeout = timeout, 0
        if instance.task_state == task_states.SHELVING and not (
            compute_utils.is_volume_backed_instance(instance._context, instance)
        ):
            return
        with self._acting(Doing.POWER_OFF, instance):
            if instance.task_state in SHELVING and not self._is_deployed(instance):
                return
            try:
                self._driver.power_off(instance, timeout)
            except exceptions.PowerOffDisabled:
                if instance.task_state != task_states.RESCUING:
                    raise

    def _is_deployed(self, instance: Any) -> bool:
        try:
            return self._driver.get_info(instance, use_cache=False).active
        except exceptions.InstanceNotFound:
            return False

    def snapshot(
        self, context: Any, instance: Any, image_id: str, update_task_state: Callable[..., None]
    ) -> None:
        """Refuse: no image can be made of the node's disk.

        :param image_id: of the empty image, which Nova leaves in Glance if it shelves.
        """
        if instance.task_state == task_states.SHELVING:
            compute_utils.delete_image(context, instance, glance.API(), image_id)
        why = "the server's root is the node's disk, and no image can be made of that disk"
        raise exception.NovaException(f"{why}. The server stays as it is")

    def power_on(
        self,
        context: Any,
        instance: Any,
        network_info: Any,
        block_device_info: Any = None,
        accel_info: Any = None,
        share_info: Any = None,
    ) -> None:
        """Power on."""
        with self._acting(Doing.POWER_ON, instance):
            self._driver.power_on(instance)

    def power_update_event(self, instance: Any, target_power_state: str) -> None:
        """Note in Nova's records that Ironic has found another power state, if it is so still."""
        is_on = target_power_state == external_event.POWER_ON
        reported = power_state.RUNNING if is_on else power_state.SHUTDOWN
        was = task_states.POWERING_ON if is_on else task_states.POWERING_OFF
        became = {power_state.RUNNING: vm_states.ACTIVE, power_state.SHUTDOWN: vm_states.STOPPED}
        # By the last list, or a late event, Nova's power sync would stop the server.
        seen = self._driver.power_update_event(instance)
        state = seen if seen in became else reported
        instance.power_state, instance.vm_state, instance.task_state = state, became[state], None
        instance.save(expected_task_state=was)

    def get_instance_diagnostics(self, instance: Any) -> Any:
        """What Ironic knows of the server and its hardware; it sees no counters of use."""
        with translated(Doing.LOOK, instance):
            return values.diagnostics_of(self._driver.get_instance_diagnostics(instance))

    def trigger_crash_dump(self, instance: Any) -> None:
        """Send the node an NMI."""
        with translated(Doing.CRASH_DUMP, instance):
            self._driver.trigger_crash_dump(instance)
