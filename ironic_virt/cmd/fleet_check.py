# SPDX-License-Identifier: Apache-2.0

"""``ironic-virt-fleet check``: whether Nova, Placement and Ironic agree."""

from __future__ import annotations

import argparse
import collections
import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ironic_virt import exceptions
from ironic_virt.cmd import output
from ironic_virt.cmd.commands import Cells, flag, one_of, several
from ironic_virt.cmd.fleet import FleetCommand
from ironic_virt.exit_codes import FleetExitCode
from ironic_virt.fleet import checks
from ironic_virt.fleet.deployment import Deployment
from ironic_virt.fleet.findings import Finding

_COLUMNS = output.named(
    "Severity=severity.value", "Code", "Object=about", "Name", "Finding=words", "Fix"
)
_FIX_COLUMNS = output.in_order("Code", "Object", "Finding", "Outcome")


class Check(FleetCommand):
    """Check whether Nova, Placement and Ironic agree about all nodes, and change nothing.

    Give the file of each nova-compute for bare metal: only that says which nodes the service
    serves:

      ironic-virt-fleet check --service-conf compute-a=/etc/nova/compute-a.conf \\
          --service-conf compute-b=/etc/nova/compute-b.conf

    --fix corrects the findings of one code, if that is safe; without --apply it only shows what
    it would do:

      ironic-virt-fleet check --fix allocation-of-nobody --apply

    Exit codes: 0 no findings, 1 the check or a correction failed, 2 there are findings.
    """

    takes = (
        one_of(
            several("--code <code>", "codes", "Look only for findings of this code"),
            several(
                *("--fix <code>", "fix"),
                "Correct findings of this code; without --apply, only show what would be done",
            ),
        ),
        flag("--apply", "With --fix: do it.", needs="fix"),
    )

    def columns_of(self, args: argparse.Namespace) -> Cells:
        return _FIX_COLUMNS if args.fix else _COLUMNS

    def act(self, args: argparse.Namespace) -> Any:
        """Check, and correct what was asked for."""
        codes = list(dict.fromkeys(args.fix or args.codes))
        self.refuse_unknown_codes(codes)
        reader = self.reader(args)
        if args.fix:
            from ironic_virt.fleet import corrections, lock

            if wrong := set(codes) - corrections.CORRECTIONS.keys():
                known = ", ".join(corrections.CORRECTIONS)
                self.refuse(f"argument --fix: {min(wrong)} can't be corrected, only {known}")
        deployment = dataclasses.replace(reader.read(), leases=reader.leases())
        findings = checks.run(deployment, codes)
        if args.fix:
            with lock.held() if args.apply else contextlib.nullcontext() as check:
                rows = list(self._correct(findings, reader.conf, check))
            if findings and not args.apply:
                self.code = FleetExitCode.FOUND
            return rows
        self._sum_findings_up(deployment, findings)
        self.code = FleetExitCode.FOUND if findings else 0
        return findings

    def _correct(
        self, findings: Sequence[Finding], conf: Any, check: Callable[[], None] | None
    ) -> Iterator[tuple[str, ...]]:
        """Correct findings; without the lock's check, only say which."""
        from ironic_virt.baremetal.client import IronicClient
        from ironic_virt.fleet import corrections
        from ironic_virt.fleet.placement import PlacementClient, PlacementSilent

        # One of each for all findings: a new one asks for a token and for Ironic's versions.
        placement, ironic = PlacementClient(), IronicClient.from_conf(conf)
        away, down = (exceptions.IronicUnreachable, PlacementSilent), None
        for finding in findings:
            outcome = "would be corrected (with --apply)"
            if check is not None:
                try:
                    check()
                    if down is not None:
                        raise down  # Each try takes minutes, under the lock.
                    outcome = corrections.CORRECTIONS[finding.code](finding, placement, ironic)
                except corrections.NoLongerSo as exc:
                    outcome = f"left alone: {exc}"
                except exceptions.IronicVirtError as exc:
                    down = exc if isinstance(exc, away) else down
                    self.code, outcome = 1, f"not corrected: {exc}"
            yield finding.code, finding.about, finding.words, outcome

    def _sum_findings_up(self, deployment: Deployment, findings: Sequence[Finding]) -> None:
        if names := ", ".join(sorted(deployment.bare_metal_hosts - deployment.options.keys())):
            words = f"the options and target sets of {names}; give their files with --service-conf"
            self.say(f"Not checked: {words}")
        for host, lease in sorted(deployment.leases.items()):
            if lease.age is not None:
                self.say(f"{host}: {lease}")
        if not deployment.whole:
            self.say("Not checked: cells that were not read, and what only all cells show")
        counts = collections.Counter(finding.severity.value for finding in findings)
        words = ", ".join(f"{count} {name}" for name, count in counts.items()) or "nothing"
        self.say(
            f"{len(deployment.nodes):,} nodes, {len(deployment.records):,} records, "
            f"{len(deployment.live_servers):,} servers, {len(deployment.services):,} services: "
            f"found {words}"
        )
