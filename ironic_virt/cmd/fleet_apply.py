# SPDX-License-Identifier: Apache-2.0

"""``ironic-virt-fleet apply`` and ``undo``: carry a plan out, and take it back."""

from __future__ import annotations

import argparse
import pathlib
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from ironic_virt.cmd import arguments, output
from ironic_virt.cmd.commands import Row, argument, flag
from ironic_virt.cmd.fleet import DRY_RUN, FleetCommand
from ironic_virt.exit_codes import FleetExitCode
from ironic_virt.fleet.plans import apply, conditions, preflight
from ironic_virt.fleet.plans import journal as journals
from ironic_virt.fleet.plans import plan as plans
from ironic_virt.fleet.plans.apply import Effect, Report
from ironic_virt.fleet.plans.journal import Journal
from ironic_virt.fleet.plans.plan import Change, Plan, PlanRefused

if TYPE_CHECKING:
    from ironic_virt.fleet.reading import Reader


class _Carried(FleetCommand):
    """The common part of ``apply`` and ``undo``."""

    is_undo = False

    columns = output.in_order("Node", "Name", "Outcome", "Shard", "From", "To", "Server", "Reason")
    takes: Sequence[Row] = (
        argument("plan <plan>", "The plan's file.", type=pathlib.Path),
        DRY_RUN,
        argument("--limit <number>", "Change at most this many nodes."),
        flag("--all", "Also show nodes that are already as planned.", dest="shows_all"),
        argument(
            "--max-age <hours>",
            "Don't begin with an older plan (default: 24).",
            type=arguments.seconds,
            default=24.0,
        ),
        flag("--edited", "The plan was edited on purpose: accept another count and digest."),
        flag("--yes", "The databases were dumped: don't ask."),
    )

    def act(self, args: argparse.Namespace) -> Any:
        """Check everything, carry the plan out, and check again."""
        plan = plans.read(args.plan, edited=args.edited)
        if args.dry_run:
            reports = self._run(plan, Journal(args.plan), args, lambda: None)
        else:
            # Reading it initializes Nova, which the lock needs.
            assert self.conf
            from ironic_virt.fleet import lock

            with lock.held() as check, journals.opened(args.plan) as journal:
                reports = self._run(plan, journal, args, check)
        return [
            (
                *(change.node, self._names.get(change.node), outcome.value, change.shard[1]),
                *(*change.host, change.server, reason),
            )
            for change, outcome, reason in reports
            if args.shows_all or outcome is not Effect.ALREADY
        ]

    def _run(
        self, plan: Plan, journal: Journal, args: argparse.Namespace, check: Callable[[], None]
    ) -> list[Report[Change]]:
        chosen = self.chosen(plan, journal, args)
        reader = self.reader(args, assumed=plan)
        from ironic_virt.fleet.plans.nova_world import NovaWorld

        deployment, dry_run = reader.read(), args.dry_run
        self._names = {node.uuid: node.name for node in deployment.nodes.values()}
        world = NovaWorld.from_conf(self.conf, deployment.hosts, check)
        sources = {change.host[0] or "" for change in chosen.moved}
        world = world.watching(sources, reader.options, self.progress())
        items = list(
            preflight.items(
                chosen,
                deployment,
                world.watched,
                oldest=args.max_age,
                begun=journal.touched(),
                undo=self.is_undo,
            )
        )
        for item in items:
            self.say(str(item))
        is_wrong = any(item.is_well is False for item in items)
        if is_wrong and not dry_run:
            raise apply.MoveRefused("Nothing was changed: see the lines with a ✗")
        if not dry_run and not args.yes:
            self._ask_for_dumps()
        run = apply.run(
            chosen,
            world,
            None if dry_run else journal,
            limit=args.limit,
            undo=self.is_undo,
            progress=self.progress(),
        )
        self.code = FleetExitCode.FOUND if is_wrong else self.code
        reports = self.collected(run, lambda change: "nodes")
        if not (dry_run or self.is_stopped):
            self._check_afterwards(chosen, reports, reader)
        return reports

    def chosen(self, plan: Plan, journal: Journal, args: argparse.Namespace) -> Plan:
        """The changes of the plan that this run makes."""
        raise NotImplementedError

    def _ask_for_dumps(self) -> None:
        if not sys.stdin.isatty():
            self.refuse("dump the databases of Nova and Placement first; then use --yes")
        self.app.stderr.write("Have you dumped the databases of Nova and Placement? [y/N] ")
        self.app.stderr.flush()
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            self.refuse("nothing was changed; dump the databases first, or use --yes")

    def _check_afterwards(
        self, plan: Plan, reports: Sequence[Report[Change]], reader: Reader
    ) -> None:
        """Check the nodes that were to be changed, with any outcome."""
        touched = [report.change for report in reports if report.outcome is not Effect.WAITS]
        if not touched:
            return
        part = msgspec.structs.replace(plan, changes=touched, services={})
        with self.failing("the nodes could not be checked after the run: "):
            findings = conditions.findings(reader.read(), part)
            for finding in findings:
                self.say(str(finding))
                self.code = self.code or FleetExitCode.FOUND
            self.say(f"Checked the nodes that were changed: {len(findings)} findings")


class Apply(_Carried):
    """Carry a plan out: set shards in Ironic, and move records with their servers.

    First everything is checked, which takes as long as a service needs to report twice. Records
    move only from services that are stopped and forced down; the others wait for the next run.
    Completed steps are recorded in <plan>.journal and not done again: after an interruption,
    just run the command again. At the end the nodes are checked.

      ironic-virt-fleet apply plan.yaml --dry-run
      ironic-virt-fleet apply plan.yaml --canary 5
      ironic-virt-fleet apply plan.yaml

    Exit codes: 0 the plan is carried out, 1 something failed, 2 some nodes wait or were refused,
    or check finds something on a node that was changed.
    """

    takes = (
        argument(
            "--canary <number>", "Take only this many nodes, as if they were the whole plan."
        ),
    )

    def chosen(self, plan: Plan, journal: Journal, args: argparse.Namespace) -> Plan:
        """All of it, or the first nodes."""
        return msgspec.structs.replace(plan, changes=apply.in_order(plan)[: args.canary])


class Undo(_Carried):
    """Undo the changes that the journal of a plan has.

    Records go back only from services that are stopped and forced down, as with apply.

      ironic-virt-fleet undo plan.yaml --dry-run

    Exit codes: 0 all is as it was before; others as with apply.
    """

    is_undo = True

    def chosen(self, plan: Plan, journal: Journal, args: argparse.Namespace) -> Plan:
        """The changes that the journal has, the other way round.

        :raises PlanRefused: there is no journal here.
        """
        if not journal.is_begun:
            raise PlanRefused(
                f"{journals.path_of(args.plan)} is missing, and only it says what was done; "
                "look for it where the plan was carried out"
            )
        return plan.undone(journal.touched())
