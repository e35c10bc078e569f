# SPDX-License-Identifier: Apache-2.0

"""``ironic-virt-fleet plan``: which node is to be in which shard, as a file."""

from __future__ import annotations

import argparse
import pathlib
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ironic_virt.cmd import arguments, output
from ironic_virt.cmd.commands import Row, argument, one_of
from ironic_virt.cmd.fleet import FleetCommand

if TYPE_CHECKING:
    from ironic_virt.baremetal.node import Node
    from ironic_virt.fleet.deployment import Deployment
    from ironic_virt.fleet.plans.plan import Plan

_COLUMNS = output.in_order(
    *("Service", "Shard", "Resource Class", "Conductor Group", "Before", "After"),
    *("Moving In", "Moving Out", "With Servers"),
)


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
    )

    def plan(self, deployment: Deployment, parsed_args: argparse.Namespace) -> Plan:
        """Make the plan."""
        raise NotImplementedError

    def take_action(self, parsed_args: argparse.Namespace) -> Any:
        """Read what is, make the plan, write it and sum it up."""
        path = parsed_args.output
        if path.exists():
            self.refuse(f"argument --output: {path} exists")
        deployment = self.reader(parsed_args).read(placement=False)
        from ironic_virt.fleet.plans import plan as plans
        from ironic_virt.fleet.plans import summary

        plan = self.plan(deployment, parsed_args)
        plans.write(plan, path)
        self.say(f"The plan is in {path}.")
        for line in summary.instructions(plan, deployment, str(path)):
            self.say(line)
        return output.table(_COLUMNS, summary.rows(deployment, plan))


class Shards(_PlanCommand):
    """Plan a shard for each service, and change nothing.

    By --strategy keep each node gets the shard of the service that has its record now, so no
    record moves: the safe first step from a hash ring. By --strategy balance each service gets
    as many nodes as the others, within 5 %, by the fewest moves.

      ironic-virt-fleet plan shards --strategy keep
      ironic-virt-fleet plan shards --strategy balance --service compute-a --service compute-b

    Exit codes: 0 the plan is written, 1 it could not be made.
    """

    takes = (
        argument("--strategy", choices=["keep", "balance"], default="keep"),
        one_of(
            argument(
                "--service",
                action="append",
                dest="services",
                default=[],
                metavar="<host>",
                type=arguments.name,
                help="For balance: a service that is to have nodes; as often as wanted (default: "
                "those that have some).",
            ),
            argument(
                "--services",
                dest="number",
                metavar="<number>",
                type=arguments.positive,
                help="For balance: so many services, those that have most nodes first.",
            ),
        ),
        argument(
            "--weight",
            action=arguments.KeyValue,
            default={},
            dest="weights",
            metavar="<class>=<number>",
            help="For balance: how much a node of a resource class counts (default: 1).",
        ),
        argument(
            "--keep-groups",
            action="store_true",
            help="For balance: leave all nodes of a conductor group with one service.",
        ),
    )

    def plan(self, deployment: Deployment, parsed_args: argparse.Namespace) -> Plan:
        """Make the plan."""
        from ironic_virt.fleet.plans import strategies

        if parsed_args.strategy == "keep":
            if parsed_args.services or parsed_args.number or parsed_args.weights:
                self.refuse("argument --strategy keep: it takes no services and no weights")
            return strategies.keep(deployment)
        weights = self._weights(parsed_args)

        def weigh(node: Node) -> int:
            return weights.get(node.resource_class or "", 1)

        hosts = parsed_args.services or self._most(deployment, parsed_args.number)
        return strategies.balance(
            deployment, hosts, weigh=weigh, keep_groups=parsed_args.keep_groups
        )

    def _weights(self, parsed_args: argparse.Namespace) -> dict[str, int]:
        try:
            return {name: arguments.positive(text) for name, text in parsed_args.weights.items()}
        except argparse.ArgumentTypeError as error:
            self.refuse(f"argument --weight: {error}")

    def _most(self, deployment: Deployment, number: int | None) -> list[str]:
        counts = Counter(record.host for record in deployment.node_records.values())
        ranked = sorted(counts, key=lambda host: (-counts[host], host))
        idle = sorted(deployment.bare_metal_hosts - counts.keys())
        known = [*ranked, *idle]
        if number is not None and number > len(known):
            self.refuse(
                f"argument --services: {len(known)} services for bare metal are known; start the "
                "new ones, and name each with --service"
            )
        return ranked if number is None else known[:number]


class _OfService(_PlanCommand):
    """A plan for one service.

    :cvar strategy: a function of :mod:`ironic_virt.fleet.plans.strategies`.
    """

    strategy: str
    takes = (argument("service", metavar="<host>", type=arguments.name),)

    def plan(self, deployment: Deployment, parsed_args: argparse.Namespace) -> Plan:
        """Make the plan."""
        from ironic_virt.fleet.plans import strategies

        made: Plan = getattr(strategies, self.strategy)(deployment, parsed_args.service)
        return made


class Drain(_OfService):
    """Plan to give all nodes of a service to the others, and change nothing.

      ironic-virt-fleet plan drain compute-a

    Exit codes: 0 the plan is written, 1 it could not be made.
    """

    strategy = "drain"


class Add(_OfService):
    """Plan to give a new service its part of the nodes, and change nothing.

    Start it first, with a shard of its own that has no nodes yet.

      ironic-virt-fleet plan add compute-d --service-conf compute-d=compute-d.conf

    Exit codes: 0 the plan is written, 1 it could not be made.
    """

    strategy = "add"
