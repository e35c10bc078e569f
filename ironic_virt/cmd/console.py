# SPDX-License-Identifier: Apache-2.0

"""``ironic-virt server console url show``."""

from __future__ import annotations

import argparse
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from ironic_virt.cmd import instance_driver, output
from ironic_virt.cmd.commands import argument, one_of

if TYPE_CHECKING:
    from ironic_virt import virt


def url(address: virt.ConsoleAddress) -> str | None:
    """What to give to a program that opens it."""
    if address.url is not None or address.kind != "serial":
        return address.url
    host = f"[{address.host}]" if ":" in address.host else address.host
    return f"tcp://{host}:{address.port}"


COLUMNS: output.Cells = {
    "type": attrgetter("kind"),
    "url": url,
    "host": attrgetter("host"),
    "port": attrgetter("port"),
    "path": attrgetter("path"),
}


class UrlShow(instance_driver.AskIronic):
    """Switch a server's console on, and show where it is.

    A serial console is a bare TCP stream for one client at a time: this command cuts off the
    client that had it before. Several clients can open a VNC console; its URL is that of
    Ironic's own page for it.
    """

    epilog = """\
examples:
  ironic-virt server console url show web
  ironic-virt server console url show --vnc web -f value -c url

exit codes:
  0 the console is on; 1 there is none, or Ironic could not be asked; 2 wrong arguments
"""

    columns = COLUMNS
    takes = (
        one_of(
            argument(
                "--serial",
                action="store_const",
                const="serial",
                dest="kind",
                default="serial",
                help="The serial console (default).",
            ),
            argument(
                "--vnc",
                action="store_const",
                const="vnc",
                dest="kind",
                help="The graphical console.",
            ),
        ),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> Any:
        """Switch the console on."""
        with self.instance(parsed_args) as (driver, instance):
            get = {"serial": driver.get_serial_console, "vnc": driver.get_vnc_console}
            return output.one(self.columns, get[parsed_args.kind](instance))
