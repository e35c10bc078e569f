# SPDX-License-Identifier: Apache-2.0

"""``ironic-virt node list|show``: nodes as the compute services' records have them.

They are as of the last refresh of the service that has them; Ironic itself is
not asked.
"""

from __future__ import annotations

import argparse
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from ironic_virt.cmd import output
from ironic_virt.cmd.commands import LIMIT, argument
from ironic_virt.cmd.output import Cells, time_of

if TYPE_CHECKING:
    from ironic_virt.compute.db.records import ComputeNode, NodePool

STATES = ("available", "claimed", "in use", "cleaning", "unavailable")


def state(node: ComputeNode) -> str:
    """Return the state of a node, one of :data:`STATES`."""
    if node.in_use:
        return "in use"
    if node.instance_uuid is not None:
        return "claimed"
    if node.available:
        return "available"
    return "cleaning" if node.cleaning else "unavailable"


def _traits(node: ComputeNode | NodePool) -> output.Json:
    return output.Json(sorted(node.traits))


def _capabilities(node: ComputeNode | NodePool) -> output.Json:
    # The architecture is among them for schedulers; here it has a place of its own.
    return output.Json({name: value for name, value in node.stats.items() if name != "cpu_arch"})


_COLUMNS: Cells = {
    "UUID": attrgetter("uuid"),
    "Name": attrgetter("name"),
    "State": state,
    "Instance UUID": attrgetter("instance_uuid"),
    "Resource Class": attrgetter("resource_class"),
    "Host": attrgetter("host"),
}
_POOL_COLUMNS: Cells = {
    "Name": attrgetter("name"),
    "Resource Class": attrgetter("resource_class"),
    "Total": attrgetter("total"),
    "Used": attrgetter("used"),
    "Reserved": attrgetter("reserved"),
    "Free": attrgetter("free"),
    "Host": attrgetter("host"),
}
_MORE_COLUMNS: Cells = {
    "VCPUs": attrgetter("vcpus"),
    "Memory MB": attrgetter("memory_mb"),
    "Local GB": attrgetter("local_gb"),
    "CPU Arch": attrgetter("cpu_arch"),
    "Traits": _traits,
    "Capabilities": _capabilities,
}
_LONG_COLUMNS: Cells = {**_COLUMNS, **_MORE_COLUMNS, "Updated At": time_of("updated_at")}
_SHOW_COLUMNS: Cells = {
    "available": attrgetter("available"),
    "capabilities": _capabilities,
    "cpu_arch": attrgetter("cpu_arch"),
    "created_at": time_of("created_at"),
    "host": attrgetter("host"),
    "in_use": attrgetter("in_use"),
    "instance_uuid": attrgetter("instance_uuid"),
    "local_gb": attrgetter("local_gb"),
    "memory_mb": attrgetter("memory_mb"),
    "name": attrgetter("name"),
    "resource_class": attrgetter("resource_class"),
    "state": state,
    "traits": _traits,
    "updated_at": time_of("updated_at"),
    "uuid": attrgetter("uuid"),
    "vcpus": attrgetter("vcpus"),
}


class List(output.Lister):
    """List nodes, or with --pools, pools of them.

    A compute service for which Ironic picks the nodes has no nodes here but those that
    still have a server from before.
    """

    columns = _COLUMNS
    long_columns = _LONG_COLUMNS
    takes = (
        argument("--host", metavar="<host>", help="Only those of this compute service."),
        argument("--resource-class", metavar="<class>", help="Only those of this resource class."),
        argument(
            "--state", choices=STATES, metavar="<state>", help=f"Only these: {', '.join(STATES)}."
        ),
        LIMIT,
        argument(
            "--pools",
            action="store_true",
            help="List the pools instead: the kinds of nodes of which Ironic picks one.",
        ),
    )

    def columns_of(self, parsed_args: argparse.Namespace) -> Cells:
        """See :class:`output.Columns`."""
        if parsed_args.pools:
            return {**_POOL_COLUMNS, **(_MORE_COLUMNS if parsed_args.long else {})}
        return super().columns_of(parsed_args)

    def run(self, parsed_args: argparse.Namespace) -> int:
        """See :class:`cliff.command.Command`."""
        if parsed_args.pools and parsed_args.state is not None:
            self.refuse("argument --state: it is of nodes, and pools have numbers")
        return super().run(parsed_args)

    def take_action(self, parsed_args: argparse.Namespace) -> Any:
        """List nodes."""
        if parsed_args.pools:
            return self._pools(parsed_args)
        with self.records(parsed_args) as database:
            found = database.compute_nodes.list(parsed_args.host)
        wanted = [
            node
            for node in found
            if parsed_args.resource_class in (None, node.resource_class)
            and parsed_args.state in (None, state(node))
        ]
        return output.table(self.columns_of(parsed_args), wanted[: parsed_args.limit])

    def _pools(self, parsed_args: argparse.Namespace) -> Any:
        with self.records(parsed_args) as database:
            found = database.pools.list(parsed_args.host)
        wanted = [
            pool for pool in found if parsed_args.resource_class in (None, pool.resource_class)
        ]
        return output.table(self.columns_of(parsed_args), wanted[: parsed_args.limit])


class Show(output.ShowOne):
    """Show a node."""

    columns = _SHOW_COLUMNS
    takes = (argument("node", metavar="<uuid>", help="Its UUID in Ironic."),)

    def take_action(self, parsed_args: argparse.Namespace) -> Any:
        """Show a node."""
        with self.records(parsed_args) as database:
            return output.one(_SHOW_COLUMNS, database.compute_nodes.get(parsed_args.node))
