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

if TYPE_CHECKING:
    from ironic_virt.compute.db.records import ComputeNode

STATES = ("available", "claimed", "in use", "unavailable")
_COLUMNS = ("UUID", "State", "Instance UUID", "Resource Class", "Host")
_LONG_COLUMNS = (
    *(*_COLUMNS, "VCPUs", "Memory MB", "Local GB", "CPU Arch"),
    *("Traits", "Capabilities", "Updated At"),
)
_SHOW_COLUMNS = (
    *("available", "capabilities", "cpu_arch", "created_at", "host", "hypervisor_type"),
    *("in_use", "instance_uuid", "local_gb", "memory_mb", "resource_class", "state"),
    *("traits", "updated_at", "uuid", "vcpus"),
)


def state(node: ComputeNode) -> str:
    """Whether a node can be had, in one of :data:`STATES`."""
    if node.in_use:
        return "in use"
    if node.instance_uuid is not None:
        return "claimed"
    return "available" if node.available else "unavailable"


class List(output.Lister):
    """List nodes."""

    def columns(self, parsed_args: argparse.Namespace) -> Sequence[str]:
        """See :class:`output.Lister`."""
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
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Any:
        """List nodes."""
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


def _capabilities(node: ComputeNode) -> dict[str, str]:
    # The architecture is among them for schedulers; here it has a place of its own.
    return {name: value for name, value in node.stats.items() if name != "cpu_arch"}
