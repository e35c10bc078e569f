# SPDX-License-Identifier: Apache-2.0

"""``ironic-virt volume connector show``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from ironic_virt.cmd import answered, arguments, output

COLUMNS = ("host", "initiator", "ip", "multipath", "os_type", "platform", "wwnns", "wwpns")
_LISTS = ("wwnns", "wwpns")


class ConnectorShow(output.ShowOne):
    """Show what a storage must know of a node to let it have volumes.

    Of a node that was chosen beforehand: the storage lets it in, and then 'server create
    --node' builds a server there. Or of the node that a server has.
    """

    def get_epilog(self) -> str:
        """Return examples."""
        return """\
examples:
  ironic-virt volume connector show --node 8c1d6f2e-93b7-4f0a-b1a5-3d9e7f20c468 -f json
  ironic-virt volume connector show db

exit codes:
  0 here it is; 1 there is none to be had, or no answer; 2 asked for wrongly
"""

    def columns(self, parsed_args: argparse.Namespace) -> Sequence[str]:
        """See :class:`output.ShowOne`."""
        return COLUMNS

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser of this command's options."""
        parser = super().get_parser(prog_name)
        whose = parser.add_mutually_exclusive_group(required=True)
        whose.add_argument("server", metavar="<server>", nargs="?", help="A server's name or ID.")
        whose.add_argument(
            "--node", metavar="<uuid>", type=arguments.node_uuid, help="A node's UUID in Ironic."
        )
        answered.add_timeout(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Any:
        """Ask for a connector."""
        with self.records(parsed_args) as database:
            from ironic_virt.compute import questions

            seconds = parsed_args.timeout
            if parsed_args.node is not None:
                found = questions.ask_of_node(
                    database, parsed_args.node, questions.NODE_CONNECTOR, timeout=seconds
                )
            else:
                found = questions.ask(
                    database, parsed_args.server, questions.CONNECTOR, timeout=seconds
                )
        shown = {name: found.get(name) for name in COLUMNS}
        lists = {name: output.Json(shown[name] or []) for name in _LISTS}
        return output.one({**shown, **lists})
