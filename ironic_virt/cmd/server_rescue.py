# SPDX-License-Identifier: Apache-2.0

"""``ironic-virt server rescue``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ironic_virt.cmd import output, password_arguments, server, server_asked, server_view
from ironic_virt.compute import passwords
from ironic_virt.compute.errors import RequestTimeout

if TYPE_CHECKING:
    from ironic_virt.compute.api import Outcome, Request, Requests

PASSWORD_COLUMN = "adminPass"


class Rescue(server_asked.AskOne):
    """Rescue a server: boot its node into a system from which its disk can be mended.

    Which system that is, Ironic decides. Nothing is written onto the disk. While a
    server is in status RESCUE it can be unrescued or deleted, and nothing else. If the
    rescue fails, the server is brought back to its own system; if that fails too, it is
    in status ERROR, and its fault says what to do.
    """

    verb = "rescue"
    _given: str | None = None
    _made_up: str | None = None

    def get_epilog(self) -> str:
        """Return examples."""
        return """\
examples:
  ironic-virt server rescue --wait web -f value -c adminPass
  ironic-virt server rescue --wait web --password-file ~/rescue-password

exit codes:
  0 requested, or with --wait: the rescue system is there; 1 refused or failed; 2 wrong
  arguments
"""

    def columns(self, parsed_args: argparse.Namespace) -> Sequence[str]:
        """See :class:`output.ShowOne`."""
        return (*server_view.SHOW_COLUMNS, PASSWORD_COLUMN)

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser of this command's options."""
        parser = super().get_parser(prog_name)
        password_arguments.add_options(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Any:
        """Rescue a server."""
        self._given = password_arguments.given(parsed_args)
        self._made_up = passwords.generate() if self._given is None else None
        shown = self.asked(parsed_args)
        return output.one({**shown, PASSWORD_COLUMN: None if self.errors else self._made_up})

    def arguments(self, parsed_args: argparse.Namespace) -> dict[str, Any]:
        """The verb's arguments."""
        return {"password": self._given or self._made_up or ""}

    def wait(
        self, requests: Requests, request: Request, parsed_args: argparse.Namespace
    ) -> Outcome:
        """Wait until it has ended."""
        try:
            return super().wait(requests, request, parsed_args)
        except (RequestTimeout, KeyboardInterrupt):
            if self._made_up is not None:
                # It still holds, and nobody else knows it.
                self.app.stderr.write(f"The password is {self._made_up}\n")
            raise


class Unrescue(server.Ask):
    """Unrescue servers: boot their own systems again.

    One whose unrescue has failed is in status ERROR, and can be unrescued again.
    """

    verb = "unrescue"
