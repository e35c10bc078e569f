# SPDX-License-Identifier: Apache-2.0

"""``ironic-virt-fleet plan``: which node is to be in which shard, as a file."""

from __future__ import annotations

import argparse
import pathlib
import sys
from collections.abc import Sequence
from typing import Any

from ironic_virt.cmd import arguments, files, output
from ironic_virt.cmd.commands import Row, argument, one_of
from ironic_virt.cmd.fleet import FleetCommand, flag, several
from ironic_virt.fleet import checks
from ironic_virt.fleet.deployment import Deployment
from ironic_virt.fleet.plans import plan as plans
from ironic_virt.fleet.plans import strategies, summary
from ironic_virt.fleet.plans.plan import Plan
from ironic_virt.sharding.selector import same_shard

_COLUMNS = output.in_order(
    "Service", "Shard", "Before", "After", "Moving In", "Moving Out", "With Servers"
)
_TO = "A service that gets nodes, each node the one that has fewest"


class _PlanCommand(FleetCommand):
    """A command that makes a plan, and changes nothing."""

    columns = _COLUMNS
    takes: Sequence[Row] = (
        argument(
            "--output",
            metavar="<file>",
            type=pathlib.Path,
            default=pathlib.Path("plan.yaml"),
            help="Write the plan to this file, which must not exist (default: plan.yaml).",
        ),
        several("--accept", "accepted", "<code>", "Plan although check finds this"),
        several(
            *("--accept-zone", "zones", "<name>"),
            "Let nodes go to this availability zone from others, or into or out of this host "
            "aggregate (their providers follow in Placement)",
        ),
        flag(
            "--include-new",
            "Include free nodes that no service has reported and that have no shard.",
            dest="new",
        ),
    )

    def plan(self, deployment: Deployment, args: argparse.Namespace, **rules: Any) -> Plan:
        """Make the plan."""
        raise NotImplementedError

    def take_action(self, parsed_args: argparse.Namespace) -> Any:
        """Read what is, make the plan, write it and sum it up."""
        path = parsed_args.output
        if path.exists():
            self.refuse(f"argument --output: {path} exists")
        if parsed_args.new and parsed_args.cells:
            self.refuse("argument --include-new: it takes all cells to know that a node is new")
        if not (parsed_args.service_files or parsed_args.served):
            self.refuse(
                "give the file of each service that is to have or to give nodes: --service-conf "
                "<host>=<file>, or --serves <host>=<shard>"
            )
        if unknown := set(parsed_args.accepted) - checks.CHECKS.keys():
            self.refuse(f"argument --accept: there is no finding {', '.join(sorted(unknown))}")
        deployment = self.reader(parsed_args).read()
        accepted = (*parsed_args.accepted, *parsed_args.zones)
        plan = self.plan(deployment, parsed_args, accepted=accepted, new=parsed_args.new)
        plans.write(plan, path)
        self.say(f"The plan is in {path}.")
        for line in summary.instructions(plan, deployment, str(path)):
            self.say(line)
        return output.table(_COLUMNS, summary.rows(deployment, plan))


class Shards(_PlanCommand):
    """Plan a shard for each service that is named, and change nothing.

    Each node gets the shard of the service that has its record now, so no record moves: the
    safe first step from a hash ring.

      ironic-virt-fleet plan shards --service-conf compute-a=compute-a.conf \\
          --service-conf compute-b=compute-b.conf
    """

    takes = (
        argument(
            "--strategy",
            choices=["keep"],
            default="keep",
            help="Each node stays with its service (the default).",
        ),
    )

    def plan(self, deployment: Deployment, args: argparse.Namespace, **rules: Any) -> Plan:
        """Make the plan."""
        return strategies.keep(deployment, **rules)


class Drain(_PlanCommand):
    """Plan to give all nodes of a service to others, and change nothing.

    The others are those that --to names, or all whose file is given.

      ironic-virt-fleet plan drain compute-a --to compute-b \\
          --service-conf compute-a=compute-a.conf --service-conf compute-b=compute-b.conf
    """

    takes = (
        argument("service", metavar="<host>", type=arguments.name),
        several("--to", "targets", "<host>", _TO),
    )

    def plan(self, deployment: Deployment, args: argparse.Namespace, **rules: Any) -> Plan:
        """Make the plan."""
        named = sorted(deployment.options.keys() - {args.service})
        return strategies.drain(deployment, args.service, args.targets or named, **rules)


class Move(_PlanCommand):
    """Plan to give nodes to a service, and change nothing.

    A new service gets its part of the nodes so, too; start it first, with a shard of its own.

      ironic-virt-fleet plan move --to compute-d --from compute-a --number 20 \\
          --service-conf compute-a=compute-a.conf --service-conf compute-d=compute-d.conf
    """

    takes = (
        several("--to", "targets", "<host>", _TO, required=True),
        argument("nodes", metavar="<node>", nargs="*", help="The UUID of a node."),
        one_of(
            argument("--from", dest="source", metavar="<host>", help="The nodes of this service."),
            argument("--shard", metavar="<shard>", help="The nodes of this shard."),
            argument(
                "--nodes-from",
                dest="file",
                metavar="<file>",
                help="A file with the UUID of a node in each line; - is standard input.",
            ),
        ),
        argument(
            "--number",
            metavar="<number>",
            type=arguments.positive,
            help="Move so many nodes at most, those without a server first.",
        ),
    )

    def plan(self, deployment: Deployment, args: argparse.Namespace, **rules: Any) -> Plan:
        """Make the plan."""
        chosen = set(args.nodes)
        if args.file:
            with files.opened(args.file, "--nodes-from", sys.stdin) as stream:
                chosen |= set(stream.read().split())
        if args.source:
            chosen |= set(strategies.nodes_of(deployment, args.source))
        if args.shard:
            nodes = deployment.nodes.values()
            chosen |= {node.uuid for node in nodes if same_shard(node.shard, args.shard)}
        return strategies.move(deployment, chosen, args.targets, number=args.number, **rules)
