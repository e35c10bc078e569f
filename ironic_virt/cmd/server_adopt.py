# SPDX-License-Identifier: Apache-2.0

"""``ironic-virt server adopt``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ironic_virt import exceptions
from ironic_virt.cmd import arguments, output, server_view

if TYPE_CHECKING:
    from ironic_virt.compute.db.records import Instance


class Adopt(output.Lister):
    """Write records of servers that Ironic has and the records lack, as after a restore.

    Each node must be deployed in Ironic, and be in the records of a compute service that has
    no server on it. Nothing is changed in Ironic. What Ironic doesn't know is lost: the
    server's user data, key and properties, so a rebuild has none of them.
    """

    _errors = 0

    def get_epilog(self) -> str:
        """Return examples."""
        return """\
examples:
  ironic-virt server adopt --flavor gold 8c1d6f2e-93b7-4f0a-b1a5-3d9e7f20c468

exit codes:
  0 all are adopted; 1 one is not, and the reason is on standard error; 2 wrong arguments
"""

    def columns(self, parsed_args: argparse.Namespace) -> Sequence[str]:
        """See :class:`output.Lister`."""
        return server_view.LIST_COLUMNS

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser of this command's options."""
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--flavor",
            required=True,
            metavar="<flavor>",
            type=arguments.name,
            help="The flavor that the servers were built with.",
        )
        parser.add_argument(
            "nodes",
            nargs="+",
            metavar="<node>",
            type=arguments.node_uuid,
            help="The UUID of a server's node; or several.",
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Any:
        """Adopt servers."""
        adopted: list[Instance] = []
        with self.configured(parsed_args) as (conf, database):
            from ironic_virt import conf as options
            from ironic_virt.baremetal.client import IronicClient
            from ironic_virt.compute.adoption import adopt

            flavor = database.flavors.get(parsed_args.flavor)
            options.register_opts(conf)
            options.check(conf)
            client = IronicClient.from_conf(conf)
            for node in dict.fromkeys(parsed_args.nodes):
                try:
                    adopted.append(adopt(database, client, node, flavor))
                except exceptions.IronicVirtError as error:
                    self._errors += 1
                    self.app.LOG.error("Node %s: %s", node, " ".join(str(error).split()))
        return output.table(server_view.LIST_COLUMNS, map(server_view.list_row, adopted))

    def run(self, parsed_args: argparse.Namespace) -> int:
        """See :class:`cliff.command.Command`."""
        code = super().run(parsed_args)
        return code or (1 if self._errors else 0)
