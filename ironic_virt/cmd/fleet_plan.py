# SPDX-License-Identifier: Apache-2.0

"""``ironic-virt-fleet plan``: writes a file with each node's future shard and service."""

from __future__ import annotations

import argparse
import os
import pathlib
import shlex
import sys
from collections.abc import Sequence
from typing import Any

from ironic_virt.cmd import arguments, output
from ironic_virt.cmd.commands import Row, argument, flag, one_of, several
from ironic_virt.cmd.fleet import FleetCommand
from ironic_virt.fleet.deployment import Deployment
from ironic_virt.fleet.plans import conditions, strategies, summary
from ironic_virt.fleet.plans import journal as journals
from ironic_virt.fleet.plans import plan as plans
from ironic_virt.fleet.plans.plan import Plan
from ironic_virt.sharding.selector import same_shard

_TO = "A service that gets nodes; each node goes to the one with the fewest nodes"


class _PlanCommand(FleetCommand):
    """A command that makes a plan, and changes nothing."""

    columns = output.in_order(
        "Service", "Shard", "Before", "After", "Moving In", "Moving Out", "With Servers"
    )
    takes: Sequence[Row] = (
        argument(
            "--output <file>",
            "Write the plan to this file, which must not exist (default: plan.yaml).",
            type=pathlib.Path,
            default=pathlib.Path("plan.yaml"),
        ),
        several("--accept <code>", "accepted", "Plan although check has findings of this code"),
        several(
            *("--accept-zone <name>", "zones"),
            "Let nodes enter this availability zone, or enter or leave this host aggregate; "
            "their resource providers change aggregates, too",
        ),
        flag(
            "--include-new",
            "Include free nodes without a record whose shard is unset or a named service's.",
            dest="new",
        ),
    )

    def plan(self, deployment: Deployment, args: argparse.Namespace, **rules: Any) -> Plan:
        """Make the plan."""
        raise NotImplementedError

    def act(self, args: argparse.Namespace) -> Any:
        """Read the deployment, make the plan, write it and sum it up."""
        path = args.output
        for taken in (path, journals.path_of(path)):
            if taken.exists():
                self.refuse(f"{taken} already exists; give another name with --output")
        if not os.access(path.parent, os.W_OK):
            self.refuse(f"argument --output: can't write to the directory {path.parent}")
        if args.new and args.cells:
            self.refuse("argument --include-new: not with --cell; only all cells show new nodes")
        if not (args.service_files or args.served):
            self.refuse(
                "give the file of each service that gets or loses nodes: --service-conf "
                "<host>=<file>, or --serves <host>=<shard>"
            )
        self.refuse_unknown_codes(args.accepted)
        deployment = self.reader(args).read()
        accepted = (*args.accepted, *args.zones)
        plan = self.plan(deployment, args, accepted=accepted, new=args.new)
        plans.write(plan, path)
        self.say(f"Wrote the plan to {path}.")
        for line in summary.instructions(plan, deployment, shlex.quote(str(path))):
            self.say(line)
        return summary.rows(deployment, plan)


class Shards(_PlanCommand):
    """Plan a shard for each service that is named; change nothing.

    Each node gets the shard of the service that has its record now, so no record moves: the
    safe first step from a hash ring.

      ironic-virt-fleet plan shards --service-conf compute-a=compute-a.conf \\
          --service-conf compute-b=compute-b.conf
    """

    def plan(self, deployment: Deployment, args: argparse.Namespace, **rules: Any) -> Plan:
        return strategies.keep(deployment, **rules)


class Drain(_PlanCommand):
    """Plan to give all nodes of a service to others; change nothing.

    The others are those that --to names, or else all whose file is given.

      ironic-virt-fleet plan drain compute-a --to compute-b \\
          --service-conf compute-a=compute-a.conf --service-conf compute-b=compute-b.conf
    """

    takes = (
        argument("service <host>", "The host of the service."),
        several("--to <host>", "targets", _TO),
    )

    def plan(self, deployment: Deployment, args: argparse.Namespace, **rules: Any) -> Plan:
        named = sorted(deployment.options.keys() - {args.service})
        return strategies.drain(deployment, args.service, args.targets or named, **rules)


class Move(_PlanCommand):
    """Plan to give nodes to a service; change nothing.

    To give a new service its share of the nodes, start it first, with its own shard.

      ironic-virt-fleet plan move --to compute-d --from compute-a --number 20 \\
          --service-conf compute-a=compute-a.conf --service-conf compute-d=compute-d.conf
    """

    takes = (
        several("--to <host>", "targets", _TO, required=True),
        argument("nodes <node>", "The UUID of a node.", type=str, nargs="*"),
        one_of(
            several("--from <host>", "sources", "The nodes of this service"),
            several("--shard <shard>", "shards", "The nodes of this shard"),
            several(
                *("--nodes-from <file>", "files"),
                "A file with a node's UUID on each line; - is standard input",
            ),
        ),
        argument(
            "--number <number>", "Move at most this many nodes, those without a server first."
        ),
    )

    def check(self, args: argparse.Namespace) -> None:
        args.listed = {}
        for file in args.files:
            with arguments.opened(file, "--nodes-from", sys.stdin) as stream:
                args.listed[file] = stream.read().split()

    def plan(self, deployment: Deployment, args: argparse.Namespace, **rules: Any) -> Plan:
        nodes, chosen = deployment.nodes.values(), dict(args.listed)
        for host in args.sources:
            chosen[host] = strategies.nodes_of(deployment, host)
        for shard in args.shards:
            chosen[shard] = [node.uuid for node in nodes if same_shard(node.shard, shard)]
        if args.nodes or not chosen:
            chosen["the command line"] = args.nodes
        for origin in (origin for origin, uuids in chosen.items() if not uuids):
            self.refuse(f"no node is chosen: {origin} has none")
        uuids = {uuid for uuids in chosen.values() for uuid in uuids}
        plan = strategies.move(deployment, uuids, args.targets, number=args.number, **rules)
        named = {*args.nodes}.union(*args.listed.values())
        for uuid in sorted(named - {each.node for each in plan.changes}):
            is_strange = conditions.is_strange(deployment, deployment.nodes[uuid])
            if is_strange or uuid not in deployment.owner_of:
                self.say(f"Left out, with no record or a server unknown to Nova: node {uuid}")
        return plan
