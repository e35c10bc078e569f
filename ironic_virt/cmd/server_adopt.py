# SPDX-License-Identifier: Apache-2.0

"""``ironic-virt server adopt``."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from ironic_virt.cmd import arguments, output, server_view
from ironic_virt.cmd.commands import argument
from ironic_virt.cmd.instance_driver import ironic

if TYPE_CHECKING:
    from ironic_virt.compute.db.records import Instance


class Adopt(output.Lister):
    """Write records of servers that Ironic has and the records lack, as after a restore.

    Each node must be deployed in Ironic, and be in the records of a compute service that has
    no server on it. Nothing is changed in Ironic. What Ironic doesn't know is lost: the
    server's user data, key and properties, so a rebuild has none of them.
    """

    epilog = """\
examples:
  ironic-virt server adopt --flavor gold 8c1d6f2e-93b7-4f0a-b1a5-3d9e7f20c468

exit codes:
  0 all are adopted; 1 one is not, and the reason is on standard error; 2 wrong arguments
"""

    columns = server_view.LIST_COLUMNS
    takes = (
        argument(
            "--flavor",
            required=True,
            metavar="<flavor>",
            type=arguments.name,
            help="The flavor that the servers were built with.",
        ),
        argument(
            "nodes",
            nargs="+",
            metavar="<node>",
            type=arguments.node_uuid,
            help="The UUID of a server's node; or several.",
        ),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> Any:
        """Adopt servers."""
        adopted: list[Instance] = []
        with self.configured(parsed_args) as (conf, database):
            from ironic_virt.compute.adoption import adopt

            flavor = database.flavors.get(parsed_args.flavor)
            client = ironic(conf)
            for node in dict.fromkeys(parsed_args.nodes):
                with self.failing(f"Node {node}: "):
                    adopted.append(adopt(database, client, node, flavor))
        return output.table(self.columns, adopted)
