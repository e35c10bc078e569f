# SPDX-License-Identifier: Apache-2.0

"""The checks before a plan is carried out: a list with ✓ and ✗.

The nodes of a service that is not stopped yet just wait.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator

from ironic_virt.fleet.checks.services import CLOCKS_MAY_DIFFER
from ironic_virt.fleet.deployment import Deployment
from ironic_virt.fleet.plans import conditions
from ironic_virt.fleet.plans.plan import Cloud, Plan
from ironic_virt.fleet.stopped import Watched
from ironic_virt.sharding.selector import same_shard

_MARKS = {True: "✓", False: "✗", None: "·"}


@dataclasses.dataclass(frozen=True, slots=True)
class Item:
    """One check; ``None``: neither well nor wrong, but some nodes wait for it."""

    is_well: bool | None
    words: str

    def __str__(self) -> str:
        return f"{_MARKS[self.is_well]} {self.words}"


def items(
    plan: Plan,
    deployment: Deployment,
    watched: Watched,
    *,
    oldest: float,
    begun: Collection[str],
    undo: bool = False,
) -> Iterator[Item]:
    """Check everything; a plan that was not begun may be ``oldest`` hours old."""
    here = Cloud(sorted(deployment.cells), *deployment.cloud)
    is_part = set(plan.cloud.cells) <= set(here.cells)
    is_here = is_part and (here.ironic, here.region) == (plan.cloud.ironic, plan.cloud.region)
    other = f"the plan is for another deployment: {plan.cloud}; this is {here}"
    yield Item(is_here, "the plan is for this deployment" if is_here else other)
    seconds = (deployment.read_at - plan.made_at).total_seconds()
    if not begun and not undo:
        is_young = -CLOCKS_MAY_DIFFER <= seconds < oldest * 3600
        age = f"{seconds / 3600:.1f} h" if seconds > 0 else f"{seconds:.0f} s"
        yield Item(is_young, f"the plan is {age} old; at most {oldest:g} h is allowed")
    apart = [
        f"{name} by {ahead:.0f} s"
        for name, ahead in deployment.clocks.items()
        if abs(ahead) > CLOCKS_MAY_DIFFER
    ]
    yield Item(not apart, f"clocks differ: {', '.join(apart)}" if apart else "clocks agree")
    count = len(deployment.placement.providers)
    yield Item(True, f"Placement answers; it has {count:,} providers")
    for host in sorted({change.host[1] for change in plan.moved}):
        why = conditions.why_unfit(deployment, host)
        yield Item(why is None, why or f"{host} is up, enabled and mapped")
    for host, assumed in sorted(plan.options.items()):
        written, planned = deployment.options[host].target, assumed.target
        is_same = same_shard(written.shard_key or planned.shard_key, planned.shard_key)
        if not undo and not (is_same and written.conductor_group == planned.conductor_group):
            yield Item(False, f"the file of {host} says {written}; the plan assumes {planned}")
    pairs = {(change.host[0] or "", change.host[1]) for change in plan.moved if not undo}
    for source, target in sorted(pairs):
        why = deployment.hosts.why_apart(source, target, plan.accepted)
        yield Item(why is None, why or f"{source} and {target} are in the same aggregates")
    for host in sorted({change.host[0] or "" for change in plan.moved}):
        why = watched.why_running(host, deployment.service_of.get(host))
        unasked = " (it could not be asked over RPC)" if host in watched.unasked else ""
        yield Item(None if why else True, why or f"{host} is stopped{unasked}")
    findings = () if undo else conditions.findings(deployment, plan, half_way=True)
    problems = f"{len(findings)} problems" if findings else "nothing"
    yield Item(not findings, f"check finds {problems} on what the plan touches")
    for finding in findings:
        yield Item(False, str(finding))
