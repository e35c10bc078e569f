# SPDX-License-Identifier: Apache-2.0

"""``ironic-virt-fleet unprotect``: let other drivers delete what this one protects."""

from __future__ import annotations

import argparse
import collections
from collections.abc import Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from ironic_virt.cmd import output
from ironic_virt.cmd.fleet import HOSTS_TO_CHANGE, FleetCommand
from ironic_virt.exit_codes import FleetExitCode

if TYPE_CHECKING:
    from ironic_virt.fleet.unprotection import Report

_COLUMNS: output.Cells = {
    "Host": attrgetter("host"),
    "Node": attrgetter("node"),
    "Server": attrgetter("server"),
    "Outcome": attrgetter("outcome.value"),
    "Reason": attrgetter("reason"),
}


class Unprotect(FleetCommand):
    """Take off the protection of nodes that [ironic] protect_instances has put on.

    It is for a service that goes back to Nova's own driver, or to a former release of this
    one: neither can delete or rebuild a server whose node is protected. Unset the option first,
    or stop the service; it protects what it builds and rebuilds. What somebody else protects is
    left alone. A run that was cut off is just started again.

      ironic-virt-fleet unprotect compute-a --dry-run
      ironic-virt-fleet unprotect compute-a compute-b

    Exit codes: 0 it is done, 1 it could not be done, 2 some nodes are protected by others.
    """

    columns = _COLUMNS
    takes = HOSTS_TO_CHANGE

    def take_action(self, parsed_args: argparse.Namespace) -> Any:
        """Take it off the nodes of each service."""
        reader = self.reader(parsed_args)
        from ironic_virt.baremetal.client import IronicClient
        from ironic_virt.fleet import unprotection

        deployment = reader.read(placement=False)
        for host in parsed_args.hosts:
            if host not in deployment.service_of:
                self.refuse(f"there is no nova-compute service of host {host}")
        run = unprotection.unprotect_nodes(
            deployment,
            parsed_args.hosts,
            IronicClient.from_conf(reader.conf),
            dry_run=parsed_args.dry_run,
        )
        return output.table(_COLUMNS, self.collected(run, self._sum_up))

    def _sum_up(self, reports: Sequence[Report]) -> None:
        from ironic_virt.fleet.plans.apply import Outcome

        counts = collections.Counter(one.outcome for one in reports)
        said = ", ".join(f"{count:,} {outcome.value}" for outcome, count in counts.items())
        self.say(f"{len(reports):,} protected nodes: {said or 'nothing to do'}")
        if counts[Outcome.FAILED]:
            self.code = FleetExitCode.FAILED
        elif counts[Outcome.REFUSED]:
            self.code = FleetExitCode.FOUND
