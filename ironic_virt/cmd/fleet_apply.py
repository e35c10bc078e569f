# SPDX-License-Identifier: Apache-2.0

"""``ironic-virt-fleet apply`` and ``undo``: carry a plan out, and take it back."""

from __future__ import annotations

import argparse
import collections
import pathlib
from collections.abc import Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from ironic_virt.cmd import arguments, output
from ironic_virt.cmd.commands import Row, argument
from ironic_virt.cmd.fleet import FleetCommand
from ironic_virt.exit_codes import FleetExitCode

if TYPE_CHECKING:
    from ironic_virt.fleet.plans.apply import Report
    from ironic_virt.fleet.plans.journal import Journal
    from ironic_virt.fleet.plans.plan import Plan

_COLUMNS: output.Cells = {
    "Node": attrgetter("change.node"),
    "Outcome": attrgetter("outcome.value"),
    "Shard": lambda report: report.change.shard[1],
    "From": lambda report: report.change.host[0],
    "To": lambda report: report.change.host[1],
    "Server": attrgetter("change.server"),
    "Reason": attrgetter("reason"),
}


class _Carried(FleetCommand):
    """A command that carries a plan out in one direction."""

    is_undo = False

    columns = _COLUMNS
    takes: Sequence[Row] = (
        argument("plan", metavar="<plan>", type=pathlib.Path, help="The plan's file."),
        argument(
            "--dry-run",
            action="store_true",
            help="Look at everything, say what would be done, and change nothing.",
        ),
        argument(
            "--limit",
            metavar="<number>",
            type=arguments.positive,
            help="Change at most so many nodes.",
        ),
        argument(
            "--all",
            action="store_true",
            dest="shows_all",
            help="Show the nodes, too, that are as they should be.",
        ),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> Any:
        """Carry it out."""
        from ironic_virt.fleet.plans import journal as journals
        from ironic_virt.fleet.plans import plan as plans

        plan = plans.read(parsed_args.plan)
        conf = self.conf
        from ironic_virt.fleet.plans import apply
        from ironic_virt.fleet.plans.moving import NovaWorld

        with journals.opened(parsed_args.plan) as journal:
            run = apply.run(
                self.chosen(plan, journal, parsed_args),
                NovaWorld.from_conf(conf),
                None if parsed_args.dry_run else journal,
                limit=parsed_args.limit,
                undo=self.is_undo,
                progress=self.progress(),
            )
            reports = self.collected(run, self._sum_up)
        self.after(reports, parsed_args)
        return output.table(
            _COLUMNS, (one for one in reports if parsed_args.shows_all or _is_news(one))
        )

    def chosen(self, plan: Plan, journal: Journal, parsed_args: argparse.Namespace) -> Plan:
        """The part of the plan that this run is about."""
        raise NotImplementedError

    def after(self, reports: Sequence[Report], parsed_args: argparse.Namespace) -> None:
        """Do what comes after."""

    def _sum_up(self, reports: Sequence[Report]) -> None:
        from ironic_virt.fleet.plans.apply import Outcome

        counts = collections.Counter(one.outcome for one in reports)
        said = ", ".join(f"{count:,} {outcome.value}" for outcome, count in counts.items())
        self.say(f"{len(reports):,} nodes: {said or 'nothing to do'}")
        for reason, count in collections.Counter(
            one.reason for one in reports if one.outcome is Outcome.WAITS
        ).most_common():
            self.say(f"{count:,} wait: {reason}")
        if counts[Outcome.FAILED]:
            self.code = 1
        elif counts[Outcome.WAITS] or counts[Outcome.REFUSED]:
            self.code = FleetExitCode.FOUND


class Apply(_Carried):
    """Carry a plan out: set shards in Ironic, and move records with their servers.

    Records move only from services that are stopped and forced down; the others wait for the
    next run. What is done already is left, so a run that was cut off is just started again;
    beside the plan, in <plan>.journal, stands what was done.

      ironic-virt-fleet apply plan.yaml --dry-run
      ironic-virt-fleet apply plan.yaml --canary 5
      ironic-virt-fleet apply plan.yaml

    Exit codes: 0 the plan is carried out, 1 something failed, 2 some nodes wait or were refused.
    """

    takes = (
        argument(
            "--canary",
            metavar="<number>",
            type=arguments.positive,
            help="Change so many nodes of one service only, and check them afterwards.",
        ),
    )

    def chosen(self, plan: Plan, journal: Journal, parsed_args: argparse.Namespace) -> Plan:
        """All of it, or the canary's nodes."""
        import dataclasses

        if parsed_args.canary is None:
            return plan
        steps = plan.steps()
        first = steps[0].host if steps else min((c.host[1] for c in plan.changes), default="")
        of_it = [change for change in plan.changes if first in (change.host[0], change.host[1])]
        order = sorted(of_it, key=lambda change: (not change.moves_record, change.node))
        return dataclasses.replace(plan, changes=order[: parsed_args.canary])

    def after(self, reports: Sequence[Report], parsed_args: argparse.Namespace) -> None:
        """Check the canary's nodes."""
        if parsed_args.canary is None or parsed_args.dry_run:
            return
        from ironic_virt.fleet import checks
        from ironic_virt.fleet.plans.apply import Outcome

        about: set[str] = set()
        for report in reports:
            if report.outcome in (Outcome.DONE, Outcome.ALREADY):
                about |= {report.change.node, report.change.server or report.change.node}
        found = [
            one
            for one in checks.run(self.reader(parsed_args).read())
            if about & {one.about, *one.facts.values()}
        ]
        for one in found:
            self.say(f"{one.kind.code}: {one.about}: {one.words}")
        if found:
            self.code = FleetExitCode.FOUND
        self.say(f"Checked the nodes that were changed: {len(found)} findings")


class Undo(_Carried):
    """Take back what was done of a plan, by its journal.

    Records go back only from services that are stopped and forced down, as with apply.

      ironic-virt-fleet undo plan.yaml --dry-run

    Exit codes: 0 all is as it was, 1 something failed, 2 some nodes wait or were refused.
    """

    is_undo = True

    def chosen(self, plan: Plan, journal: Journal, parsed_args: argparse.Namespace) -> Plan:
        """What the journal says was begun, the other way round."""
        return plan.undone(journal.touched())


def _is_news(report: Report) -> bool:
    from ironic_virt.fleet.plans.apply import Outcome

    return report.outcome is not Outcome.ALREADY
