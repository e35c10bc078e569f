# SPDX-License-Identifier: Apache-2.0

"""``ironic-virt-fleet pools enter`` and ``leave``: servers into pools of nodes, and back."""

from __future__ import annotations

import argparse
import collections
import contextlib
import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ironic_virt.cmd import output
from ironic_virt.cmd.commands import Row
from ironic_virt.cmd.fleet import HOSTS_TO_CHANGE, FleetCommand
from ironic_virt.exit_codes import FleetExitCode

if TYPE_CHECKING:
    from ironic_virt.fleet.plans.apply import Report
    from ironic_virt.fleet.plans.moving import NovaWorld
    from ironic_virt.fleet.pools.conversion import Conversion
    from ironic_virt.fleet.pools.convert import About

_COLUMNS = output.in_order("Host", "Server", "Outcome", "Node", "From", "To", "Reason")


class _Converted(FleetCommand):
    """A command that converts the records of services in one direction."""

    direction = ""
    then = ""

    columns = _COLUMNS
    takes: Sequence[Row] = HOSTS_TO_CHANGE

    def take_action(self, parsed_args: argparse.Namespace) -> Any:
        """Convert one service after the other."""
        reader = self.reader(parsed_args)
        from ironic_virt.fleet import lock
        from ironic_virt.fleet.plans.moving import NovaWorld
        from ironic_virt.fleet.pools import conversion
        from ironic_virt.fleet.pools.conversion import Direction

        direction, dry_run = Direction(self.direction), parsed_args.dry_run
        hosts = list(dict.fromkeys(parsed_args.hosts))
        rows: list[tuple[Any, ...]] = []
        held = contextlib.nullcontext(lambda: None) if dry_run else lock.held()
        with held as check:
            deployment = reader.read(placement=False)
            world = NovaWorld.from_conf(reader.conf, deployment.hosts, check)
            world = world.watching(hosts, reader.options, self.progress())
            plans = [conversion.plan(deployment, host, direction, world.watched) for host in hosts]
            for plan in plans:
                rows += self._converted(plan, world, dry_run=dry_run)
        return output.table(_COLUMNS, rows)

    def _converted(
        self, plan: Conversion, world: NovaWorld, *, dry_run: bool
    ) -> list[tuple[Any, ...]]:
        from ironic_virt.fleet.plans.apply import Outcome
        from ironic_virt.fleet.pools import convert

        host = plan.service.host
        run = convert.run(plan, world, self.progress(), dry_run=dry_run)
        reports = self.collected(run, functools.partial(self._sum_up, host))
        outcomes = {one.outcome for one in reports}
        if Outcome.FAILED in outcomes:
            self.code = 1
        elif plan.blocked or outcomes & {Outcome.WAITS, Outcome.REFUSED}:
            self.code = self.code or FleetExitCode.FOUND
        if plan.blocked:
            self.say(f"{host}: it can't be done yet: {plan.blocked}")
        elif not dry_run and outcomes <= {Outcome.DONE}:
            self.say(
                f"{host}: now {self.then}, start nova-compute, and set it up again: "
                f"openstack compute service set --up {host} nova-compute"
            )
        return [
            _row(host, one)
            for one in reports
            if _is_server(one) or one.outcome not in (Outcome.DONE, Outcome.WOULD)
        ]

    def _sum_up(self, host: str, reports: Sequence[Report[About]]) -> None:
        for is_server, what in ((True, "servers"), (False, "records without a server")):
            counts = collections.Counter(
                one.outcome for one in reports if _is_server(one) is is_server
            )
            said = ", ".join(f"{count:,} {outcome.value}" for outcome, count in counts.items())
            self.say(f"{host}: {counts.total():,} {what}: {said or 'nothing to do'}")


class Enter(_Converted):
    """Bring a service's servers from compute nodes of single nodes into pools.

    The service must be stopped and forced down. Its pools get a compute node record and a
    resource provider each; its servers and their allocations go there; the records and the
    providers of its single nodes go. No server and no node in Ironic is touched. A run that
    was cut off is just started again.

      ironic-virt-fleet pools enter compute-a --dry-run
      ironic-virt-fleet pools enter compute-a

    Then the service starts with [ironic] node_selection = ironic.

    Exit codes: 0 it is done, 1 it could not be done, 2 some servers or records stayed.
    """

    direction = "enter"
    then = "set [ironic] node_selection = ironic"


class Leave(_Converted):
    """Bring a service's servers from pools back to a compute node for each node.

    The service must be stopped and forced down. Each node with a server of its gets a compute
    node record and a resource provider; the servers and their allocations go there; the records
    and the providers of its pools go. No server and no node in Ironic is touched. A run that
    was cut off is just started again.

      ironic-virt-fleet pools leave compute-a --dry-run
      ironic-virt-fleet pools leave compute-a

    Then the service starts with [ironic] node_selection = scheduler, or with Nova's own driver;
    free nodes get their records from it.

    Exit codes: 0 it is done, 1 it could not be done, 2 some servers or records stayed.
    """

    direction = "leave"
    then = "remove [ironic] node_selection (or set compute_driver = ironic.IronicDriver)"


def _is_server(report: Report[About]) -> bool:
    from ironic_virt.fleet.pools.conversion import Move

    return isinstance(report.change, Move)


def _row(host: str, report: Report[About]) -> tuple[Any, ...]:
    about = report.change
    server = getattr(about, "server", None)
    is_target = not server and hasattr(about, "formers")
    return (
        *(host, server and server.uuid, report.outcome.value, getattr(about, "node", None)),
        server.node if server else None if is_target else about.name,  # type: ignore[union-attr]
        about.target if server else about.name if is_target else None,  # type: ignore[union-attr]
        report.reason,
    )
