# SPDX-License-Identifier: Apache-2.0

"""``ironic-virt-fleet pools enter`` and ``leave``: move servers into pools of nodes, and back."""

from __future__ import annotations

import argparse
import contextlib
from typing import TYPE_CHECKING, Any

from ironic_virt.cmd import output
from ironic_virt.cmd.fleet import HOSTS_TO_CHANGE, FleetCommand
from ironic_virt.exit_codes import FleetExitCode
from ironic_virt.fleet.plans.apply import Effect, MoveRefused, Report
from ironic_virt.fleet.pools import conversion
from ironic_virt.fleet.pools.conversion import Conversion, Direction, Move, Target

if TYPE_CHECKING:
    from ironic_virt.fleet.plans.nova_world import NovaWorld
    from ironic_virt.fleet.pools.convert import About


class _Convert(FleetCommand):
    """A command that converts the records of services in one direction."""

    direction: Direction
    then = ""

    columns = output.in_order("Host", "Server", "Outcome", "Node", "From", "To", "Reason")
    takes = HOSTS_TO_CHANGE

    def act(self, args: argparse.Namespace) -> Any:
        """Convert one service after the other."""
        reader = self.reader(args)
        from ironic_virt.fleet import lock
        from ironic_virt.fleet.plans.nova_world import NovaWorld

        dry_run, hosts = args.dry_run, list(dict.fromkeys(args.hosts))
        with contextlib.nullcontext(lambda: None) if dry_run else lock.held() as check:
            deployment = reader.read(placement=False)
            world = NovaWorld.from_conf(reader.conf, deployment.hosts, check)
            world = world.watching(hosts, reader.options, self.progress())
            plans = [
                conversion.plan(deployment, host, self.direction, world.watched) for host in hosts
            ]
            blocked = [plan.blocked for plan in plans if plan.blocked]
            if blocked and not dry_run:
                raise MoveRefused("; ".join(blocked))
            return [row for plan in plans for row in self._convert(plan, world, dry_run)]

    def _convert(self, plan: Conversion, world: NovaWorld, dry_run: bool) -> list[tuple[Any, ...]]:
        from ironic_virt.fleet.pools import convert

        if self.is_stopped:
            return []
        host = plan.service.host
        run = convert.run(plan, world, self.progress(), dry_run=dry_run)
        reports = self.collected(run, _kind_of, f"{host}: ")
        is_done = all(report.outcome is Effect.DONE for report in reports)
        if plan.blocked:
            self.code = self.code or FleetExitCode.FOUND
            self.say(f"{host}: not yet possible: {plan.blocked}")
        elif is_done and not (dry_run or self.is_stopped):
            self.say(
                f"{host}: now {self.then}, start nova-compute, and set it up again: "
                f"openstack compute service set --up {host} nova-compute"
            )
        return [
            _make_row(host, report)
            for report in reports
            if isinstance(report.change, Move) or report.outcome not in (Effect.DONE, Effect.WOULD)
        ]


class Enter(_Convert):
    """Move a service's servers from compute nodes of single nodes to those of pools.

    The service must be stopped and forced down. Each of its pools gets a compute node record
    and a resource provider; its servers and their allocations move there; the records and
    providers of single nodes are deleted. No server and no node in Ironic is touched. After an
    interruption, just run the command again.

      ironic-virt-fleet pools enter compute-a --dry-run
      ironic-virt-fleet pools enter compute-a

    Then start the service with [ironic] node_selection = ironic.
    """

    direction = Direction.ENTER
    then = "set [ironic] node_selection = ironic"


class Leave(_Convert):
    """Move a service's servers from pools back to a compute node for each node.

    The conditions are those of enter. Each node with a server of the service gets a compute
    node record and a resource provider; those of its pools are deleted.

      ironic-virt-fleet pools leave compute-a --dry-run
      ironic-virt-fleet pools leave compute-a

    Then start the service with [ironic] node_selection = scheduler, or with Nova's own driver;
    it creates the records of free nodes.
    """

    direction = Direction.LEAVE
    then = "remove [ironic] node_selection (or set compute_driver = ironic.IronicDriver)"


def _kind_of(about: About) -> str:
    return "servers" if isinstance(about, Move) else "records without a server"


def _make_row(host: str, report: Report[About]) -> tuple[Any, ...]:
    """The row of a server with both its places, or of a record to delete or to create."""
    about, outcome, reason = report.change, report.outcome.value, report.reason
    if isinstance(about, Move):
        server = about.server
        return host, server.uuid, outcome, about.node, server.node, about.target, reason
    places = (None, about.name) if isinstance(about, Target) else (about.name, None)
    return host, None, outcome, None, *places, reason
