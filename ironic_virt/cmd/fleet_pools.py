# SPDX-License-Identifier: Apache-2.0

"""``ironic-virt-fleet pools enter`` and ``leave``: servers into pools of nodes, and back."""

from __future__ import annotations

import argparse
import contextlib
from typing import TYPE_CHECKING, Any

from ironic_virt.cmd import output
from ironic_virt.cmd.fleet import HOSTS_TO_CHANGE, FleetCommand
from ironic_virt.exit_codes import FleetExitCode
from ironic_virt.fleet.plans.apply import Outcome, Report
from ironic_virt.fleet.pools import conversion
from ironic_virt.fleet.pools.conversion import Conversion, Direction, Move, Target

if TYPE_CHECKING:
    from ironic_virt.fleet.plans.moving import NovaWorld
    from ironic_virt.fleet.pools.convert import About

_COLUMNS = output.in_order("Host", "Server", "Outcome", "Node", "From", "To", "Reason")


class _Converted(FleetCommand):
    """A command that converts the records of services in one direction."""

    direction: Direction
    then = ""

    columns = _COLUMNS
    takes = HOSTS_TO_CHANGE

    def take_action(self, parsed_args: argparse.Namespace) -> Any:
        """Convert one service after the other."""
        reader = self.reader(parsed_args)
        from ironic_virt.fleet import lock
        from ironic_virt.fleet.plans.moving import NovaWorld

        dry_run, hosts = parsed_args.dry_run, list(dict.fromkeys(parsed_args.hosts))
        with contextlib.nullcontext(lambda: None) if dry_run else lock.held() as check:
            deployment = reader.read(placement=False)
            world = NovaWorld.from_conf(reader.conf, deployment.hosts, check)
            world = world.watching(hosts, reader.options, self.progress())
            plans = [
                conversion.plan(deployment, host, self.direction, world.watched) for host in hosts
            ]
            rows = [row for plan in plans for row in self._converted(plan, world, dry_run)]
        return output.table(_COLUMNS, rows)

    def _converted(
        self, plan: Conversion, world: NovaWorld, dry_run: bool
    ) -> list[tuple[Any, ...]]:
        from ironic_virt.fleet.pools import convert

        host = plan.service.host
        run = convert.run(plan, world, self.progress(), dry_run=dry_run)
        reports = self.collected(run, _kind, f"{host}: ")
        outcomes = {one.outcome for one in reports}
        if plan.blocked:
            self.code = self.code or FleetExitCode.FOUND
            self.say(f"{host}: it can't be done yet: {plan.blocked}")
        elif not dry_run and outcomes <= {Outcome.DONE}:
            self.say(
                f"{host}: now {self.then}, start nova-compute, and set it up again: "
                f"openstack compute service set --up {host} nova-compute"
            )
        return [
            _row(host, one)
            for one in reports
            if isinstance(one.change, Move) or one.outcome not in (Outcome.DONE, Outcome.WOULD)
        ]


class Enter(_Converted):
    """Bring a service's servers from compute nodes of single nodes into pools.

    The service must be stopped and forced down. Its pools get a compute node record and a
    resource provider each; its servers and their allocations go there; the records and the
    providers of its single nodes go. No server and no node in Ironic is touched. A run that
    was cut off is just started again.

      ironic-virt-fleet pools enter compute-a --dry-run
      ironic-virt-fleet pools enter compute-a

    Then the service starts with [ironic] node_selection = ironic.
    """

    direction = Direction.ENTER
    then = "set [ironic] node_selection = ironic"


class Leave(_Converted):
    """Bring a service's servers from pools back to a compute node for each node.

    Under the same conditions as enter, and as safely. Each node with a server of the service
    gets a compute node record and a resource provider; those of its pools go.

      ironic-virt-fleet pools leave compute-a --dry-run
      ironic-virt-fleet pools leave compute-a

    Then the service starts with [ironic] node_selection = scheduler, or with Nova's own driver;
    free nodes get their records from it.
    """

    direction = Direction.LEAVE
    then = "remove [ironic] node_selection (or set compute_driver = ironic.IronicDriver)"


def _kind(about: About) -> str:
    return "servers" if isinstance(about, Move) else "records without a server"


def _row(host: str, report: Report[About]) -> tuple[Any, ...]:
    """A server with both its places, a record that was to go, or one that was to be made."""
    about, outcome, reason = report.change, report.outcome.value, report.reason
    if isinstance(about, Move):
        server = about.server
        return host, server.uuid, outcome, about.node, server.node, about.target, reason
    places = (None, about.name) if isinstance(about, Target) else (about.name, None)
    return host, None, outcome, None, *places, reason
