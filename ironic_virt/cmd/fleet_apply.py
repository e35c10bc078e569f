# SPDX-License-Identifier: Apache-2.0

"""``ironic-virt-fleet apply`` and ``undo``: carry a plan out, and take it back."""

from __future__ import annotations

import argparse
import pathlib
import sys
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import msgspec

from ironic_virt.cmd import arguments, output
from ironic_virt.cmd.commands import Row, argument
from ironic_virt.cmd.fleet import DRY_RUN, FleetCommand, flag
from ironic_virt.exit_codes import FleetExitCode
from ironic_virt.fleet.plans import apply, conditions, preflight
from ironic_virt.fleet.plans import journal as journals
from ironic_virt.fleet.plans import plan as plans
from ironic_virt.fleet.plans.apply import Outcome, Report
from ironic_virt.fleet.plans.journal import Journal
from ironic_virt.fleet.plans.plan import Change, Plan, PlanRefused

if TYPE_CHECKING:
    from ironic_virt.fleet.reading import Reader

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
        DRY_RUN,
        argument(
            "--limit",
            metavar="<number>",
            type=arguments.positive,
            help="Change at most so many nodes.",
        ),
        flag("--all", "Show the nodes, too, that are as they should be.", dest="shows_all"),
        argument(
            "--max-age",
            metavar="<hours>",
            type=arguments.seconds,
            default=24.0,
            help="Don't begin with a plan that is older (default: 24).",
        ),
        flag("--edited", "The plan was edited on purpose: don't compare its count and digest."),
        flag("--yes", "Don't ask whether the databases were dumped: they were."),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> Any:
        """Look at everything, carry it out, and look again."""
        plan = plans.read(parsed_args.plan, edited=parsed_args.edited)
        if parsed_args.dry_run:
            journal = Journal(parsed_args.plan)
            reports = self._run(plan, journal, parsed_args, lambda: None)
        else:
            # Nova has to be opened before its databases can be.
            assert self.conf
            from ironic_virt.fleet import lock

            with lock.held() as check, journals.opened(parsed_args.plan) as journal:
                reports = self._run(plan, journal, parsed_args, check)
        shown = parsed_args.shows_all
        news = [one for one in reports if shown or one.outcome is not Outcome.ALREADY]
        return output.table(_COLUMNS, news)

    def _run(
        self,
        plan: Plan,
        journal: Journal,
        parsed_args: argparse.Namespace,
        check: Callable[[], None],
    ) -> list[Report[Change]]:
        chosen = self.chosen(plan, journal, parsed_args)
        reader = self.reader(parsed_args, assumed=plan)
        from ironic_virt.fleet.plans.moving import NovaWorld

        deployment, dry_run = reader.read(), parsed_args.dry_run
        world = NovaWorld.from_conf(self.conf, deployment.hosts, check)
        sources = {change.host[0] or "" for change in chosen.moved}
        world = world.watching(sources, reader.options, self.progress())
        items = list(
            preflight.items(
                chosen,
                deployment,
                world.watched,
                oldest=parsed_args.max_age,
                begun=journal.touched(),
                undo=self.is_undo,
            )
        )
        for item in items:
            self.say(str(item))
        if not dry_run:
            if any(item.is_well is False for item in items):
                raise apply.MoveRefused("see what has a ✗; nothing was changed")
            if not parsed_args.yes:
                self._ask_for_dumps()
        run = apply.run(
            chosen,
            world,
            None if dry_run else journal,
            limit=parsed_args.limit,
            undo=self.is_undo,
            progress=self.progress(),
        )
        reports = self.collected(run, lambda change: "nodes")
        if not dry_run:
            self._check_afterwards(chosen, reports, reader)
        return reports

    def chosen(self, plan: Plan, journal: Journal, parsed_args: argparse.Namespace) -> Plan:
        """The part of the plan that this run is about."""
        raise NotImplementedError

    def _ask_for_dumps(self) -> None:
        if not sys.stdin.isatty():
            self.refuse("have you dumped Nova's databases and Placement's? Then say --yes")
        self.app.stderr.write("Have you dumped Nova's databases and Placement's? [y/N] ")
        self.app.stderr.flush()
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            self.refuse("dump them first, or say --yes")

    def _check_afterwards(
        self, plan: Plan, reports: Sequence[Report[Change]], reader: Reader
    ) -> None:
        """Check the nodes that were to be changed, whatever became of them."""
        touched = [one.change for one in reports if one.outcome is not Outcome.WAITS]
        if not touched:
            return
        part = msgspec.structs.replace(plan, changes=touched, services={})
        found = conditions.findings(reader.read(), part)
        for one in found:
            self.say(str(one))
            self.code = self.code or FleetExitCode.FOUND
        self.say(f"Checked the nodes that were changed: {len(found)} findings")


class Apply(_Carried):
    """Carry a plan out: set shards in Ironic, and move records with their servers.

    First everything is looked at, which takes as long as a service that is forced down needs to
    report twice. Records move only from services that are stopped and forced down; the others
    wait for the next run. What is done already is left, so a run that was cut off is just
    started again; beside the plan, in <plan>.journal, stands what was done. At the end the
    nodes are checked.

      ironic-virt-fleet apply plan.yaml --dry-run
      ironic-virt-fleet apply plan.yaml --canary 5
      ironic-virt-fleet apply plan.yaml

    Exit codes: 0 the plan is carried out, 1 something failed, 2 some nodes wait or were refused,
    or check finds something on one that was changed.
    """

    takes = (
        argument(
            "--canary",
            metavar="<number>",
            type=arguments.positive,
            help="Take so many nodes of the plan only, as if they were all of it.",
        ),
    )

    def chosen(self, plan: Plan, journal: Journal, parsed_args: argparse.Namespace) -> Plan:
        """All of it, or the first nodes."""
        return msgspec.structs.replace(plan, changes=apply.in_order(plan)[: parsed_args.canary])


class Undo(_Carried):
    """Take back what was done of a plan, by its journal.

    Records go back only from services that are stopped and forced down, as with apply.

      ironic-virt-fleet undo plan.yaml --dry-run

    Exit codes: 0 all is as it was; others as with apply.
    """

    is_undo = True

    def chosen(self, plan: Plan, journal: Journal, parsed_args: argparse.Namespace) -> Plan:
        """What the journal says was begun, the other way round.

        :raises PlanRefused: there is no journal here.
        """
        if not journal.is_begun:
            raise PlanRefused(
                f"{journals.path_of(parsed_args.plan)} is not here, and only it says what was "
                "done; it is beside the plan where that was carried out"
            )
        return plan.undone(journal.touched())
