# SPDX-License-Identifier: Apache-2.0

"""``ironic-virt server diagnostics show``."""

from __future__ import annotations

import argparse
import datetime
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from ironic_virt.cmd import instance_driver, output
from ironic_virt.cmd.output import Words

if TYPE_CHECKING:
    from ironic_virt import virt

_STATES = {0: "pending", 1: "running", 3: "paused", 4: "shutdown", 6: "crashed", 7: "suspended"}


def _memory(found: virt.InstanceDiagnostics) -> Words:
    words = "unknown" if found.memory_mb is None else f"{found.memory_mb} MiB"
    return Words({"maximum": found.memory_mb}, words)


def _nics(found: virt.InstanceDiagnostics) -> Words:
    return Words([{"mac_address": mac} for mac in found.macs], ", ".join(found.macs))


def _uptime(found: virt.InstanceDiagnostics) -> Words | None:
    if found.uptime is None:
        return None
    return Words(found.uptime, str(datetime.timedelta(seconds=found.uptime)))


COLUMNS: output.Cells = {
    "config_drive": attrgetter("config_drive"),
    "driver": lambda _found: "ironic",
    "hypervisor": attrgetter("hypervisor"),
    "memory_details": _memory,
    "nic_details": _nics,
    "num_cpus": lambda found: found.cpus or None,
    "num_nics": lambda found: len(found.macs),
    "state": lambda found: _STATES.get(int(found.state), str(int(found.state))),
    "uptime": _uptime,
}
"""Named as in Nova's API, of which these are what Ironic knows."""


class Show(instance_driver.AskIronic):
    """Show what Ironic knows of a server that runs: its power, and the hardware under it.

    Ironic doesn't look into a running system, so what that uses is not shown.
    """

    epilog = """\
examples:
  ironic-virt server diagnostics show web
  ironic-virt server diagnostics show web -f value -c uptime

exit codes:
  0 shown; 1 Ironic does not have them, or could not be asked; 2 wrong arguments
"""

    columns = COLUMNS

    def take_action(self, parsed_args: argparse.Namespace) -> Any:
        """Ask for the diagnostics."""
        with self.instance(parsed_args) as (driver, instance):
            return output.one(COLUMNS, driver.get_instance_diagnostics(instance))
