# SPDX-License-Identifier: Apache-2.0

"""``ironic-virt node list|show``: nodes as the compute services' records have them.

They are as of the last refresh of the service that has them; Ironic itself is
not asked.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ironic_virt.cmd import arguments, output

POOLS = "ironic-pools"
"""A hypervisor type; to import the records only to know it would take too long."""

if TYPE_CHECKING:
    from ironic_virt.compute.db.records import ComputeNode, NodePool

STATES = ("available", "claimed", "in use", "pools", "unavailable")
_COLUMNS = ("UUID", "State", "Instance UUID", "Resource Class", "Host")
_LONG_COLUMNS = (
    *(*_COLUMNS, "VCPUs", "Memory MB", "Local GB", "CPU Arch"),
    *("Traits", "Capabilities", "Updated At"),
)
_POOL_COLUMNS = ("Name", "Resource Class", "Total", "Used", "Reserved", "Free", "Host")
_LONG_POOL_COLUMNS = (
    *(*_POOL_COLUMNS, "VCPUs", "Memory MB", "Local GB", "CPU Arch"),
    *("Traits", "Capabilities", "Updated At"),
)
_SHOW_COLUMNS = (
    *("available", "capabilities", "cpu_arch", "created_at", "host", "hypervisor_type"),
    *("in_use", "instance_uuid", "local_gb", "memory_mb", "resource_class", "state"),
    *("traits", "updated_at", "uuid", "vcpus"),
)


def state(node: ComputeNode) -> str:
    """Whether a node can be had, in one of :data:`STATES`.

    ``pools``: it is the record of a service for which Ironic picks the nodes.
    """
    if node.hypervisor_type == POOLS:
        return "pools"
    if node.in_use:
        return "in use"
    if node.instance_uuid is not None:
        return "claimed"
    return "available" if node.available else "unavailable"


class List(output.Lister):
    """List nodes, or with --pools, pools of them.

    A compute service for which Ironic picks the nodes has no node here but one in state
    'pools', and those that still have a server from before.
    """

    def columns(self, parsed_args: argparse.Namespace) -> Sequence[str]:
        """See :class:`output.Lister`."""
        if parsed_args.pools:
            return _LONG_POOL_COLUMNS if parsed_args.long else _POOL_COLUMNS
        return _LONG_COLUMNS if parsed_args.long else _COLUMNS

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser of this command's options."""
        parser = super().get_parser(prog_name)
        parser.add_argument("--host", metavar="<host>", help="Only those of this compute service.")
        parser.add_argument(
            "--resource-class", metavar="<class>", help="Only those of this resource class."
        )
        parser.add_argument(
            "--state", choices=STATES, metavar="<state>", help=f"Only these: {', '.join(STATES)}."
        )
        parser.add_argument(
            "--limit", type=arguments.positive, metavar="<count>", help="So many at most."
        )
        parser.add_argument(
            "--marker", metavar="<uuid>", help="Those behind this one; with --limit, a page."
        )
        parser.add_argument("--long", action="store_true", help="Show more of each.")
        parser.add_argument(
            "--pools",
            action="store_true",
            help="List the pools instead: the kinds of nodes of which Ironic picks one.",
        )
        return parser

    def run(self, parsed_args: argparse.Namespace) -> int:
        """See :class:`cliff.command.Command`."""
        if parsed_args.pools and parsed_args.state is not None:
            self.refuse("argument --state: it is of nodes, and pools have numbers")
        return super().run(parsed_args)

    def take_action(self, parsed_args: argparse.Namespace) -> Any:
        """List nodes."""
        if parsed_args.pools:
            return self._pools(parsed_args)
        filtered = parsed_args.resource_class is not None or parsed_args.state is not None
        with self.records(parsed_args) as database:
            found = database.compute_nodes.list(
                parsed_args.host,
                limit=None if filtered else parsed_args.limit,
                marker=parsed_args.marker,
            )
        wanted = [
            node
            for node in found
            if parsed_args.resource_class in (None, node.resource_class)
            and parsed_args.state in (None, state(node))
        ]
        columns = self.columns(parsed_args)
        rows = (_row(node)[: len(columns)] for node in wanted[: parsed_args.limit])
        return output.table(columns, rows)

    def _pools(self, parsed_args: argparse.Namespace) -> Any:
        with self.records(parsed_args) as database:
            found = database.pools.list(parsed_args.host)
        wanted = [
            pool
            for pool in found
            if parsed_args.resource_class in (None, pool.resource_class)
            and (parsed_args.marker is None or pool.name > parsed_args.marker)
        ]
        columns = self.columns(parsed_args)
        rows = (_pool_row(pool)[: len(columns)] for pool in wanted[: parsed_args.limit])
        return output.table(columns, rows)


class Show(output.ShowOne):
    """Show a node."""

    def columns(self, parsed_args: argparse.Namespace) -> Sequence[str]:
        """See :class:`output.ShowOne`."""
        return _SHOW_COLUMNS

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser of this command's options."""
        parser = super().get_parser(prog_name)
        parser.add_argument("node", metavar="<uuid>", help="Its UUID in Ironic.")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Any:
        """Show a node."""
        with self.records(parsed_args) as database:
            node = database.compute_nodes.get(parsed_args.node)
        values = (
            *(node.available, output.Json(_capabilities(node)), node.cpu_arch),
            *(output.when(node.created_at), node.host, node.hypervisor_type),
            *(node.in_use, node.instance_uuid, node.local_gb, node.memory_mb),
            *(node.resource_class, state(node), output.Json(sorted(node.traits))),
            *(output.when(node.updated_at), node.uuid, node.vcpus),
        )
        return output.one(dict(zip(_SHOW_COLUMNS, values, strict=True)))


def _row(node: ComputeNode) -> tuple[Any, ...]:
    return (
        *(node.uuid, state(node), node.instance_uuid, node.resource_class, node.host),
        *(node.vcpus, node.memory_mb, node.local_gb, node.cpu_arch),
        output.Json(sorted(node.traits)),
        output.Json(_capabilities(node)),
        output.when(node.updated_at),
    )


def _pool_row(pool: NodePool) -> tuple[Any, ...]:
    return (
        *(pool.name, pool.resource_class, pool.total, pool.used, pool.reserved),
        *(pool.free, pool.host, pool.vcpus, pool.memory_mb, pool.local_gb, pool.cpu_arch),
        output.Json(sorted(pool.traits)),
        output.Json(_capabilities(pool)),
        output.when(pool.updated_at),
    )


def _capabilities(node: ComputeNode | NodePool) -> dict[str, str]:
    # The architecture is among them for schedulers; here it has a place of its own.
    return {name: value for name, value in node.stats.items() if name != "cpu_arch"}
