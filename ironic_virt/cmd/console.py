# SPDX-License-Identifier: Apache-2.0

"""``ironic-virt server console url show``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ironic_virt.cmd import instance_driver, output

if TYPE_CHECKING:
    from ironic_virt import virt

COLUMNS = ("type", "url", "host", "port", "path")


class UrlShow(instance_driver.AskIronic):
    """Switch a server's console on, and show where it is.

    A serial console is a bare TCP stream for one client at a time: this command cuts off the
    client that had it before. Several clients can open a VNC console; its URL is that of
    Ironic's own page for it.
    """

    def get_epilog(self) -> str:
        """Return examples."""
        return """\
examples:
  ironic-virt server console url show web
  ironic-virt server console url show --vnc web -f value -c url

exit codes:
  0 the console is on; 1 there is none, or Ironic could not be asked; 2 wrong arguments
"""

    def columns(self, parsed_args: argparse.Namespace) -> Sequence[str]:
        """See :class:`output.ShowOne`."""
        return COLUMNS

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser of this command's options."""
        parser = super().get_parser(prog_name)
        kind = parser.add_mutually_exclusive_group()
        kind.add_argument(
            "--serial",
            action="store_const",
            const="serial",
            dest="kind",
            default="serial",
            help="The serial console (default).",
        )
        kind.add_argument(
            "--vnc",
            action="store_const",
            const="vnc",
            dest="kind",
            help="The graphical console.",
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Any:
        """Switch the console on."""
        with self.instance(parsed_args) as (driver, instance):
            get = {"serial": driver.get_serial_console, "vnc": driver.get_vnc_console}
            address = get[parsed_args.kind](instance)
        shown = (address.kind, url(address), address.host, address.port, address.path)
        return output.one(dict(zip(COLUMNS, shown, strict=True)))


def url(address: virt.ConsoleAddress) -> str | None:
    """What to give to a program that opens it."""
    if address.url is not None or address.kind != "serial":
        return address.url
    host = f"[{address.host}]" if ":" in address.host else address.host
    return f"tcp://{host}:{address.port}"
