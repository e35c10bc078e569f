# SPDX-License-Identifier: Apache-2.0

"""``ironic-virt server add interface``, ``ironic-virt server remove interface``."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ironic_virt.cmd import arguments, server_asked

if TYPE_CHECKING:
    from ironic_virt.compute.api import Request, Requests


class _Interface(server_asked.AskOne):
    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser of this command's options."""
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "vif",
            metavar="<vif-id>",
            type=arguments.name,
            help="The id of a VIF, as of a port in Neutron.",
        )
        return parser


class Add(_Interface):
    """Attach an interface to a server that is there.

    Its node needs a port, or a port group, that is free. If the VIF can't be attached, the
    server stays as it is.
    """

    doing = "Attaching an interface to"
    until = "it is attached"

    def get_epilog(self) -> str:
        """Return examples."""
        return """\
examples:
  ironic-virt server add interface --wait web 5e4f2c7a-6a4f-4a60-9a38-0a4d6a5d2f11

exit codes:
  0 asked for, or with --wait: attached; 1 it can't be asked for, or has failed; 2 asked
  for wrongly
"""

    def ask(self, requests: Requests, parsed_args: argparse.Namespace) -> Request:
        """Ask for it."""
        return requests.attach_interface(parsed_args.server, parsed_args.vif)


class Remove(_Interface):
    """Detach an interface from a server.

    If the VIF can't be detached, the server stays as it is.
    """

    doing = "Detaching an interface from"
    until = "it is detached"

    def get_epilog(self) -> str:
        """Return examples."""
        return """\
examples:
  ironic-virt server remove interface --wait web 5e4f2c7a-6a4f-4a60-9a38-0a4d6a5d2f11

exit codes:
  0 asked for, or with --wait: detached; 1 it can't be asked for, or has failed; 2 asked
  for wrongly
"""

    def ask(self, requests: Requests, parsed_args: argparse.Namespace) -> Request:
        """Ask for it."""
        return requests.detach_interface(parsed_args.server, parsed_args.vif)
