# SPDX-License-Identifier: Apache-2.0

"""The doctor's checks, a table for each kind of object."""

from __future__ import annotations

from collections.abc import Iterable

from ironic_virt.fleet.checks import nodes, offers, providers, servers, services
from ironic_virt.fleet.deployment import Deployment
from ironic_virt.fleet.findings import Finding, Severity, Table

CHECKS: Table = nodes.CHECKS | offers.CHECKS | providers.CHECKS | servers.CHECKS | services.CHECKS
"""All checks, by their codes."""


def run(deployment: Deployment, codes: Iterable[str] = ()) -> list[Finding]:
    """All findings, or those of some codes; the worst first, else in the order of the checks."""
    findings = [
        Finding(code, severity, fix, *problem)
        for code in list(codes) or CHECKS
        for severity, fix, problems in [CHECKS[code]]
        for problem in problems(deployment)
    ]
    order = list(Severity)
    return sorted(findings, key=lambda finding: order.index(finding.severity))
