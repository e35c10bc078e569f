# SPDX-License-Identifier: Apache-2.0

"""``ironic-virt server dump create``."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ironic_virt.cmd import server_asked

if TYPE_CHECKING:
    from ironic_virt.compute.api import Request, Requests


class Create(server_asked.AskOne):
    """Crash a server's system on purpose, by an NMI, so that it writes a crash dump.

    Where the dump goes, and whether there is one, is up to the system: kdump in Linux.
    If the reply to the NMI is lost, none is sent again, and the server's events say so.
    """

    doing = "Sending an NMI to"
    until = "the NMI is sent"

    def get_epilog(self) -> str:
        """Return examples."""
        return """\
examples:
  ironic-virt server dump create --wait web

exit codes:
  0 requested, or with --wait: sent; 1 refused or failed, or its reply was lost; 2 wrong
  arguments
"""

    def ask(self, requests: Requests, parsed_args: argparse.Namespace) -> Request:
        """Ask for it."""
        return requests.trigger_crash_dump(parsed_args.server)
