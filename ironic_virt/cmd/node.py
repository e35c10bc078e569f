# SPDX-License-Identifier: Apache-2.0

"""``ironic-virt node list|show``: nodes as the compute services' records have them.

They are as of the service's last refresh; Ironic itself is not asked.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from ironic_virt.cmd import output
from ironic_virt.cmd.commands import LIMIT, Cells, argument, flag, row

if TYPE_CHECKING:
    from ironic_virt.compute.db.records import ComputeNode

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


_COLUMNS = {
    **output.named("UUID", "Name", "State", "Instance UUID", "Resource Class", "Host"),
    "State": state,
}
_POOL_COLUMNS = output.named("Name", "Resource Class", "Total", "Used", "Reserved", "Free", "Host")
_MORE_COLUMNS = output.named(
    "VCPUs", "Memory MB", "Local GB", "CPU Arch", "Traits", "Capabilities=stats"
)
_LONG_COLUMNS = {**_COLUMNS, **_MORE_COLUMNS}
_SHOW_COLUMNS = {
    **output.named(
        *("available", "capabilities=stats", "cpu_arch", "host", "in_use", "instance_uuid"),
        *("local_gb", "memory_mb", "name", "resource_class", "state", "traits", "uuid", "vcpus"),
    ),
    "state": state,
}


class List(output.Lister):
    """List nodes, or with --pools, pools of nodes.

    If Ironic picks the nodes of a compute service, only those are listed that still have a
    server from before.
    """

    columns = _COLUMNS
    long_columns = _LONG_COLUMNS
    takes = (
        argument("--host <host>", "Only nodes of this compute service."),
        argument("--resource-class <class>", "Only nodes of this resource class."),
        argument(
            "--state <state>", f"Only nodes in this state: {', '.join(STATES)}.", choices=STATES
        ),
        LIMIT,
        flag("--pools", "List pools instead: kinds of nodes from which Ironic picks."),
    )

    def columns_of(self, args: argparse.Namespace) -> Cells:
        if args.pools:
            return {**_POOL_COLUMNS, **(_MORE_COLUMNS if args.long else {})}
        return super().columns_of(args)

    def check(self, args: argparse.Namespace) -> None:
        if args.pools and args.state is not None:
            self.refuse("argument --state: not with --pools, which have no state")

    def act(self, args: argparse.Namespace) -> Any:
        if not self.db.services.up():
            self.app.LOG.warning("No compute service is up: nodes are as last reported")
        records: Any = self.db.pools if args.pools else self.db.compute_nodes
        return [
            record
            for record in records.list(args.host)
            if args.resource_class in (None, record.resource_class)
            and (args.state is None or args.state == state(record))
        ][: args.limit]


Show = row(
    *(output.ShowOne, "Show a node.", argument("node <uuid>", "UUID of the node in Ironic.")),
    columns=_SHOW_COLUMNS,
    act=lambda command, args: command.db.compute_nodes.get(args.node),
)
