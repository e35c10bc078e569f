# SPDX-License-Identifier: Apache-2.0

"""``ironic-virt server console url show``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ironic_virt.cmd import answered, output

if TYPE_CHECKING:
    from ironic_virt import virt

COLUMNS = ("type", "url", "host", "port", "path")


class UrlShow(answered.Answered):
    """Switch a server's console on, and show where it is.

    A serial console is a bare TCP stream, for one at a time: who asks for it has it from
    then on, and whoever had it before is cut off. A VNC console can be opened by several;
    what is shown leads to Ironic's own page for it.
    """

    def get_epilog(self) -> str:
        """Return examples."""
        return """\
examples:
  ironic-virt server console url show web
  ironic-virt server console url show --vnc web -f value -c url

exit codes:
  0 here it is; 1 there is none to be had, or no answer; 2 asked for wrongly
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
        """Ask for a console."""
        from ironic_virt.compute import questions

        kinds = {"serial": questions.SERIAL_CONSOLE, "vnc": questions.VNC_CONSOLE}
        address = self.answer(parsed_args, kinds[parsed_args.kind])
        shown = (address.kind, url(address), address.host, address.port, address.path)
        return output.one(dict(zip(COLUMNS, shown, strict=True)))


def url(address: virt.ConsoleAddress) -> str | None:
    """What to give to a program that opens it."""
    if address.url is not None or address.kind != "serial":
        return address.url
    host = f"[{address.host}]" if ":" in address.host else address.host
    return f"tcp://{host}:{address.port}"
