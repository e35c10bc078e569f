# SPDX-License-Identifier: Apache-2.0

"""``ironic-virt server diagnostics show``."""

from __future__ import annotations

import argparse
import datetime
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ironic_virt.cmd import instance_driver, output

if TYPE_CHECKING:
    from ironic_virt import virt

COLUMNS = (
    "config_drive",
    "driver",
    "hypervisor",
    "memory_details",
    "nic_details",
    "num_cpus",
    "num_nics",
    "state",
    "uptime",
)
"""Named as in Nova's API, of which these are what Ironic knows."""

_DRIVER = "ironic"
_STATES = {0: "pending", 1: "running", 3: "paused", 4: "shutdown", 6: "crashed", 7: "suspended"}


class Show(instance_driver.AskIronic):
    """Show what Ironic knows of a server that runs: its power, and the hardware under it.

    Ironic doesn't look into a running system, so what that uses is not shown.
    """

    def get_epilog(self) -> str:
        """Return examples."""
        return """\
examples:
  ironic-virt server diagnostics show web
  ironic-virt server diagnostics show web -f value -c uptime

exit codes:
  0 shown; 1 Ironic does not have them, or could not be asked; 2 wrong arguments
"""

    def columns(self, parsed_args: argparse.Namespace) -> Sequence[str]:
        """See :class:`output.ShowOne`."""
        return COLUMNS

    def take_action(self, parsed_args: argparse.Namespace) -> Any:
        """Ask for the diagnostics."""
        with self.instance(parsed_args) as (driver, instance):
            return output.one(fields(driver.get_instance_diagnostics(instance)))


def fields(found: virt.InstanceDiagnostics) -> dict[str, Any]:
    """What is shown of them, by :data:`COLUMNS`."""
    memory, macs = {"maximum": found.memory_mb}, [{"mac_address": mac} for mac in found.macs]
    values = (
        found.config_drive,
        _DRIVER,
        found.hypervisor,
        output.Words(memory, "unknown" if found.memory_mb is None else f"{found.memory_mb} MiB"),
        output.Words(macs, ", ".join(found.macs)),
        found.cpus or None,
        len(found.macs),
        _STATES.get(int(found.state), str(int(found.state))),
        _uptime(found.uptime),
    )
    return dict(zip(COLUMNS, values, strict=True))


def _uptime(seconds: int | None) -> output.Words | None:
    if seconds is None:
        return None
    return output.Words(seconds, str(datetime.timedelta(seconds=seconds)))
