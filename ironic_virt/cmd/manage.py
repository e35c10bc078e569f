# SPDX-License-Identifier: Apache-2.0

"""``ironic-virt-manage``: changes of the records themselves, for an operator.

:mod:`ironic_virt.cmd.shell` starts and ends it; commands are found in the entry point namespace
``ironic_virt.manage_cli``.
"""

from __future__ import annotations

import argparse
import collections
import sys
from collections.abc import Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from ironic_virt import exceptions
from ironic_virt.cmd import output, shell
from ironic_virt.cmd.commands import Cells, argument, flag

if TYPE_CHECKING:
    from ironic_virt.compute import moving


_COLUMNS: Cells = {
    **output.named("Node", "Outcome=outcome.value", "From=source", "To=destination", "Server"),
    **output.named("Guard", "Reason"),
    "Server": attrgetter("instance"),
}


class Move(output.Lister):
    """Move nodes, with their servers, from services that are out of use to another one.

    A service is out of use when it is forced down, or down and disabled. Each node is checked
    against the records and against Ironic. Nodes that have moved already stay as they are:
    after an interruption, just run the command again. Nothing is changed in Ironic.

    Exit codes: 0 each node now belongs to the service, 1 at least one does not, 2 the command
    line is wrong.
    """

    columns = _COLUMNS
    takes = (
        argument("nodes <node-uuid>", "UUID of a node in Ironic; may be repeated.", nargs="*"),
        argument("--shard <key>", "All nodes in this shard, by Ironic."),
        argument("--from-service <host>", "All nodes of this compute service, by the records."),
        argument(
            "--service <host>",
            "The compute service that gets the nodes; it must be up.",
            required=True,
        ),
        flag("--dry-run", "Check everything and show what would be done; change nothing."),
        flag(
            "--force",
            "Accept a service that is forced down but has just reported: its host is fenced.",
        ),
        flag(
            "--without-ironic",
            "Don't compare with Ironic, for when it can't be reached.",
        ),
    )

    def check(self, args: argparse.Namespace) -> None:
        sources = (args.nodes or None, args.shard, args.from_service)
        if sources.count(None) != 2:
            self.refuse("which nodes? give their UUIDs, or --shard, or --from-service")
        if args.shard is not None and args.without_ironic:
            self.refuse("argument --without-ironic: not with --shard, which only Ironic knows")

    def act(self, args: argparse.Namespace) -> Any:
        from ironic_virt.compute.moving import MoveOutcome, Mover

        client = None if args.without_ironic else self.ironic()
        mover = Mover(self.db, client, args.service, dry_run=args.dry_run, force=args.force)
        nodes: Sequence[str] = list(dict.fromkeys(args.nodes))
        if args.shard is not None:
            nodes = mover.nodes_of_shard(args.shard)
            if not nodes:
                self.fail(f"Ironic has no nodes in shard {args.shard!r}")
        if args.from_service is not None:
            nodes = mover.nodes_of_service(args.from_service)
        reports: list[moving.Move] = []
        try:
            # Those that came before an error are kept.
            reports.extend(mover.move(nodes))
        except exceptions.IronicVirtError as error:
            self.fail(
                f"Stopped after {len(reports)} of {len(nodes)} nodes: {error}. Run the command "
                "again to continue"
            )
        finally:
            counts = collections.Counter(report.outcome.value for report in reports)
            words = ", ".join(f"{count} {outcome}" for outcome, count in counts.items())
            if reports:
                self.say(f"{len(reports)} nodes: {words}")
        for report in reports:
            # The service of a shard takes a node that no service has by itself.
            is_free = args.shard is not None and report.outcome is MoveOutcome.NO_RECORD
            if not (report.is_good or is_free):
                self.code = 1
        return reports


class Manage(shell.Shell):
    """The application of an operator."""

    NAME = "ironic-virt-manage"
    DESCRIPTION = "Manage the records of the reference compute service."
    COMMAND_NAMESPACE = "ironic_virt.manage_cli"


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``ironic-virt-manage`` with ``argv``, the process's own by default."""
    return shell.run(Manage, argv)


if __name__ == "__main__":
    sys.exit(main())
