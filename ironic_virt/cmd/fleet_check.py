# SPDX-License-Identifier: Apache-2.0

"""``ironic-virt-fleet check``: whether Nova, Placement and Ironic agree."""

from __future__ import annotations

import argparse
import collections
import contextlib
import dataclasses
from collections.abc import Sequence
from operator import attrgetter
from typing import Any

from ironic_virt import exceptions
from ironic_virt.cmd import output
from ironic_virt.cmd.commands import argument
from ironic_virt.cmd.fleet import FleetCommand, flag, several
from ironic_virt.exit_codes import FleetExitCode
from ironic_virt.fleet import checks
from ironic_virt.fleet.deployment import Deployment
from ironic_virt.fleet.findings import Finding

_COLUMNS: output.Cells = {
    "Severity": attrgetter("severity.value"),
    "Code": attrgetter("code"),
    "Object": attrgetter("about"),
    "Finding": attrgetter("words"),
    "Mend": attrgetter("mend"),
}
_FIX_COLUMNS = output.in_order("Code", "Object", "Finding", "Outcome")


class Check(FleetCommand):
    """Check whether Nova, Placement and Ironic agree about all nodes, and change nothing.

    Give the file of each nova-compute for bare metal, since only that says which nodes the
    service is for:

      ironic-virt-fleet check --service-conf compute-a=/etc/nova/compute-a.conf \\
          --service-conf compute-b=/etc/nova/compute-b.conf

    --fix mends findings of one code that can be mended safely, and only says what it would do
    unless --apply is given, too:

      ironic-virt-fleet check --fix allocation-of-nobody --apply

    Exit codes: 0 nothing was found, 1 it could not be checked or mended, 2 something was found.
    """

    takes = (
        several("--code", "codes", "<code>", "Look for this kind of finding only"),
        argument(
            "--fix",
            metavar="<code>",
            help="Mend findings of this kind; without --apply, only say what would be done.",
        ),
        flag("--apply", "With --fix: do it."),
    )

    def columns_of(self, parsed_args: argparse.Namespace) -> output.Cells:
        """See :class:`output.Columns`."""
        return _FIX_COLUMNS if parsed_args.fix else _COLUMNS

    def take_action(self, parsed_args: argparse.Namespace) -> Any:
        """Check, and mend what was asked for."""
        codes = [parsed_args.fix] if parsed_args.fix else parsed_args.codes
        if unknown := set(codes) - checks.CHECKS.keys():
            known = ", ".join(checks.CHECKS)
            self.refuse(f"there is no finding {', '.join(unknown)}; there are {known}")
        if parsed_args.apply and not parsed_args.fix:
            self.refuse("argument --apply: it goes with --fix")
        reader = self.reader(parsed_args)
        if parsed_args.fix:
            from ironic_virt.fleet import corrections

            if parsed_args.fix not in corrections.CORRECTIONS:
                can = f"mended by itself; {', '.join(corrections.CORRECTIONS)} are"
                self.refuse(f"argument --fix: {parsed_args.fix} is not {can}")
        deployment = dataclasses.replace(reader.read(), leases=reader.leases())
        found = checks.run(deployment, codes)
        if parsed_args.fix:
            from ironic_virt.fleet import lock

            with lock.held() if parsed_args.apply else contextlib.nullcontext():
                rows = [self._mended(one, reader.conf, apply=parsed_args.apply) for one in found]
            if found and not parsed_args.apply:
                self.code = FleetExitCode.FOUND
            return output.table(_FIX_COLUMNS, rows)
        self._say_what_was_found(deployment, found)
        self.code = FleetExitCode.FOUND if found else 0
        return output.table(_COLUMNS, found)

    def _mended(self, finding: Finding, conf: Any, *, apply: bool) -> tuple[str, str, str, str]:
        row = (finding.code, finding.about, finding.words)
        if not apply:
            return (*row, "would be mended (--apply does it)")
        from ironic_virt.baremetal.client import IronicClient
        from ironic_virt.fleet import corrections
        from ironic_virt.fleet.placement import PlacementClient

        try:
            done = corrections.CORRECTIONS[finding.code](
                finding, PlacementClient(), IronicClient.from_conf(conf)
            )
        except corrections.NoLongerSo as exc:
            return (*row, f"left alone: {exc}")
        except exceptions.IronicVirtError as exc:
            self.code = 1
            return (*row, f"not mended: {exc}")
        return (*row, done)

    def _say_what_was_found(self, deployment: Deployment, found: Sequence[Finding]) -> None:
        if untold := sorted(deployment.hosts_not_told):
            self.say(
                f"Not checked: which nodes are in the target sets of {', '.join(untold)}, and "
                "their options; give their files with --service-conf"
            )
        for host, lease in sorted(deployment.leases.items()):
            if lease.age is not None:
                renewed = f"it renewed its lease {lease.age:.0f} s ago"
                self.say(f"{host}: a process is active; {renewed}")
        if not deployment.whole:
            self.say("Not checked: what may be in the cells that were not read")
        counts = collections.Counter(one.severity.value for one in found)
        said = ", ".join(f"{count} {name}" for name, count in counts.items()) or "nothing"
        self.say(
            f"{len(deployment.nodes):,} nodes, {len(deployment.records):,} records, "
            f"{len(deployment.live_servers):,} servers, {len(deployment.services):,} services: "
            f"found {said}"
        )
