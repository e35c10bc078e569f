# SPDX-License-Identifier: Apache-2.0

"""``ironic-virt-manage ironic-compute-node-move``: nodes to another compute service."""

from __future__ import annotations

import argparse
import collections
from collections.abc import Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from ironic_virt import exceptions
from ironic_virt.cmd import arguments, output
from ironic_virt.cmd.commands import argument
from ironic_virt.cmd.instance_driver import ironic

if TYPE_CHECKING:
    from ironic_virt.compute.db import moves
    from ironic_virt.compute.moving import Mover

_COLUMNS: output.Cells = {
    "Node": attrgetter("node"),
    "Outcome": attrgetter("outcome.value"),
    "From": attrgetter("source"),
    "To": attrgetter("destination"),
    "Server": attrgetter("instance"),
    "Guard": attrgetter("guard"),
    "Reason": attrgetter("reason"),
}


class Move(output.Lister):
    """Move nodes, each with its server, from services that are out of use to another one.

    A service is out of use when it is forced down, or down and disabled. Each node
    is checked against the records and against Ironic; what is moved already stays as
    it is, so a run that was cut off is just started again. Nothing is changed in Ironic.

    Exit codes: 0 each node is the service's now, 1 at least one is not, 2 the
    command line is wrong.
    """

    columns = _COLUMNS
    takes = (
        argument(
            "nodes",
            metavar="<node-uuid>",
            nargs="*",
            type=arguments.node_uuid,
            help="The UUID of a node in Ironic; or several.",
        ),
        argument(
            "--shard",
            metavar="<key>",
            type=arguments.name,
            help="All nodes that Ironic has in this shard.",
        ),
        argument(
            "--from-service",
            metavar="<host>",
            type=arguments.name,
            help="All nodes that this compute service has in the records.",
        ),
        argument(
            "--service",
            metavar="<host>",
            required=True,
            type=arguments.name,
            help="The compute service that gets them; it must be up.",
        ),
        argument(
            "--dry-run",
            action="store_true",
            help="Check everything, say what would be done, and change nothing.",
        ),
        argument(
            "--force",
            action="store_true",
            help="Also from a service that is forced down and has reported just now: its host is "
            "fenced.",
        ),
        argument(
            "--without-ironic",
            action="store_true",
            help="Don't ask Ironic whether the records are right: for when it can't be reached.",
        ),
    )

    def run(self, parsed_args: argparse.Namespace) -> int:
        """See :class:`cliff.command.Command`."""
        chosen = (parsed_args.nodes or None, parsed_args.shard, parsed_args.from_service)
        if sum(one is not None for one in chosen) != 1:
            self.refuse("which nodes? name their UUIDs, or --shard, or --from-service")
        if parsed_args.shard is not None and parsed_args.without_ironic:
            self.refuse("argument --without-ironic: only Ironic knows the nodes of a --shard")
        return super().run(parsed_args)

    def take_action(self, parsed_args: argparse.Namespace) -> Any:
        """Move nodes."""
        with self.configured(parsed_args) as (conf, database):
            from ironic_virt.compute.moving import Mover

            client = None if parsed_args.without_ironic else ironic(conf)
            mover = Mover(
                *(database, client, parsed_args.service),
                dry_run=parsed_args.dry_run,
                force=parsed_args.force,
            )
            mover.check(parsed_args.shard)
            nodes = list(dict.fromkeys(parsed_args.nodes))
            if parsed_args.shard is not None:
                nodes = mover.nodes_of_shard(parsed_args.shard)
                if not nodes:
                    self.fail(f"Ironic has no nodes in shard {parsed_args.shard!r}")
            if parsed_args.from_service is not None:
                nodes = list(mover.nodes_of_service(parsed_args.from_service))
            reports = self._move_all(mover, nodes)
        unmoved = [
            report
            for report in reports
            if not report.is_good and not (parsed_args.shard is not None and report.needs_no_move)
        ]
        if unmoved:
            self.code = 1
        self._sum_up(reports)
        return output.table(_COLUMNS, reports)

    def _move_all(self, mover: Mover, nodes: Sequence[str]) -> list[moves.Move]:
        reports: list[moves.Move] = []
        try:
            for batch in mover.move(nodes):
                reports += batch
        except exceptions.IronicVirtError as error:
            self.fail(
                f"Stopped, {len(reports)} of {len(nodes)} were done: {error}. Start the command "
                "again to go on"
            )
        except KeyboardInterrupt:
            self._sum_up(reports)
            self.app.LOG.warning(
                "Interrupted, %d of %d were done. Start the command again to go on",
                *(len(reports), len(nodes)),
            )
            raise
        return reports

    def _sum_up(self, reports: Sequence[moves.Move]) -> None:
        """One line for people."""
        if self.app.options.verbose_level == 0 or not reports:
            return
        counts = collections.Counter(report.outcome.value for report in reports)
        said = ", ".join(f"{count} {outcome}" for outcome, count in counts.items())
        self.app.stderr.write(f"{len(reports)} nodes: {said}\n")
