# SPDX-License-Identifier: Apache-2.0

"""``ironic-virt server rescue``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ironic_virt.cmd import output, password_arguments, server, server_view
from ironic_virt.compute import passwords
from ironic_virt.compute.errors import RequestTimeout

if TYPE_CHECKING:
    from ironic_virt.compute.api import Request, Requests
    from ironic_virt.compute.db.records import Instance

PASSWORD_COLUMN = "adminPass"


class Rescue(server.AskOne):
    """Rescue a server: boot its node into a system from which its disk can be mended.

    Which system that is, Ironic decides. Nothing is written onto the disk. While a
    server is in status RESCUE it can be unrescued or deleted, and nothing else. If the
    rescue fails, the server is brought back to its own system; if that fails too, it is
    in status ERROR, and its fault says what to do.
    """

    verb = "rescue"
    _made_up: str | None = None

    epilog = """\
examples:
  ironic-virt server rescue --wait web -f value -c adminPass
  ironic-virt server rescue --wait web --password-file ~/rescue-password
"""

    columns = output.in_order(*server_view.SHOW_COLUMNS, PASSWORD_COLUMN)
    takes = (password_arguments.OPTIONS,)

    def arguments(self, parsed_args: argparse.Namespace) -> dict[str, Any]:
        """The verb's arguments."""
        given = password_arguments.given(parsed_args)
        self._made_up = passwords.generate() if given is None else None
        return {"password": given or self._made_up or ""}

    def more(self) -> dict[str, Any]:
        """The password, if it was made up and holds."""
        return {PASSWORD_COLUMN: None if self.code else self._made_up}

    def follow(
        self, requests: Requests, asked: Sequence[Request], parsed_args: argparse.Namespace
    ) -> list[Instance]:
        """Wait until it has ended."""
        try:
            return super().follow(requests, asked, parsed_args)
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
