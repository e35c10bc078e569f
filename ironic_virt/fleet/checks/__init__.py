# SPDX-License-Identifier: Apache-2.0

"""The doctor's checks, a table for each kind of object."""

from __future__ import annotations

from collections.abc import Iterable

from ironic_virt.fleet.checks import domains, nodes, offers, providers, servers, services
from ironic_virt.fleet.deployment import Deployment
from ironic_virt.fleet.findings import Finding, Severity, Table

CHECKS: Table = {
    code: check
    for table in (nodes, offers, providers, servers, services, domains)
    for code, check in table.CHECKS.items()
}
"""All checks, by their codes."""


def run(deployment: Deployment, codes: Iterable[str] = ()) -> list[Finding]:
    """All findings, or those of some codes; the worst first, else in the order of the checks."""
    findings = []
    for code in list(codes) or CHECKS:
        severity, fix, find = CHECKS[code]
        for about, words, *more in find(deployment):
            facts: dict[str, str] = dict(*more)
            name = deployment.nodes[about].name if about in deployment.nodes else None
            filled = fix.format(about=about, **facts)
            findings.append(Finding(code, severity, filled, about, words, facts, name))
    order = list(Severity)
    return sorted(findings, key=lambda finding: order.index(finding.severity))
