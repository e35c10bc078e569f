# SPDX-License-Identifier: Apache-2.0

"""A plan as data, and as a YAML file that people can review.

The file names its deployment, what it takes each service to serve, the number of its changes
and their digest, so that an incomplete or edited file is refused.  What a plan says of the
present is as old as the plan; ``apply`` looks again.
"""

from __future__ import annotations

import datetime
import hashlib
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec
import yaml

from ironic_virt import exceptions
from ironic_virt.fleet.options import ServiceOptions, without_file
from ironic_virt.sharding.selector import same_shard

VERSION = 2


class PlanRefused(exceptions.IronicVirtError):
    """A plan can't be made, or a file is not a plan."""


_Text = Annotated[str, msgspec.Meta(min_length=1)]


class Change(msgspec.Struct, frozen=True, order=True, omit_defaults=True):
    """What becomes of one node: its shard and the host of its record, before and after."""

    node: _Text
    shard: tuple[str | None, str | None]
    host: tuple[str | None, _Text]
    server: str | None = None

    @property
    def moves_record(self) -> bool:
        """Whether its compute node record goes to another service."""
        return self.host[0] is not None and self.host[0] != self.host[1]

    @property
    def is_needed(self) -> bool:
        """Whether there is anything to do."""
        return not same_shard(*self.shard) or self.moves_record


class Assumed(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a service is taken to serve; its file must say the same.  0: unknown."""

    shard: _Text
    conductor_group: str | None = None
    report_interval: int = 0


class Cloud(msgspec.Struct, frozen=True):
    """Which deployment a plan is for: uuids of cells, and Ironic's URL by Nova's file."""

    cells: list[str] = []
    ironic: str = ""
    region: str = ""


class Step(NamedTuple):
    """One service to stop, the number of records that leave it, and of those with a server."""

    host: str
    nodes: int
    servers: int


class Plan(msgspec.Struct, frozen=True):
    """Planned changes; ``accepted`` are findings, and zones and aggregates that may differ."""

    strategy: str
    made_at: Annotated[datetime.datetime, msgspec.Meta(tz=True)]
    services: dict[str, Assumed]
    changes: list[Change]
    cloud: Cloud = Cloud()
    accepted: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """Of all that it says."""
        content = (self.made_at, self.cloud, self.services, self.accepted, self.changes)
        return hashlib.sha256(msgspec.json.encode(content, order="sorted")).hexdigest()

    @property
    def options(self) -> dict[str, ServiceOptions]:
        """What the services serve once the plan is carried out, as their files will say."""
        return {
            host: without_file(host, each.shard, each.conductor_group, each.report_interval)
            for host, each in self.services.items()
        }

    @property
    def moved(self) -> list[Change]:
        """The changes that move a record."""
        return [change for change in self.changes if change.moves_record]

    def steps(self) -> list[Step]:
        """The services to stop, those with most records to move first."""
        leaving = Counter(change.host[0] or "" for change in self.moved)
        servers = Counter(change.host[0] or "" for change in self.moved if change.server)
        return [Step(host, count, servers[host]) for host, count in leaving.most_common()]

    def undone(self, before: Mapping[str, tuple[str | None, str | None]]) -> Plan:
        """The plan that takes this one back; a record that was new stays where it is."""
        changes = []
        for change in self.changes:
            if change.node in before:
                (shard, host), here = before[change.node], change.host[1]
                there = (change.shard[1], shard), (here, here if host is None else host)
                changes.append(Change(change.node, *there, change.server))
        return msgspec.structs.replace(self, strategy=f"undo {self.strategy}", changes=changes)


def write(plan: Plan, path: Path) -> None:
    """Write a plan to a new file; an existing one is refused."""
    document = {
        "version": VERSION,
        **msgspec.to_builtins(plan),
        "count": len(plan.changes),
        "digest": plan.digest,
        "steps": [step._asdict() for step in plan.steps()],
    }
    # Last, since it is long.
    document["changes"] = document.pop("changes")
    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write("# A plan of ironic-virt-fleet.  [before, after] of each node.\n")
            yaml.dump(
                document, file, Dumper=dumper, sort_keys=False, width=200, default_flow_style=None
            )
    except OSError as exc:
        raise PlanRefused(f"{path}: {exc.strerror}") from exc


def read(path: Path, *, edited: bool = False) -> Plan:
    """Read a plan that nobody has changed, unless it may be ``edited``; raise otherwise."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        with path.open(encoding="utf-8") as file:
            document = yaml.load(file, Loader=loader)
    except OSError as exc:
        raise PlanRefused(f"{path}: {exc.strerror}") from exc
    except (yaml.YAMLError, ValueError, RecursionError) as exc:
        raise PlanRefused(f"{path} is not YAML: {exc}") from exc
    if not isinstance(document, dict) or "version" not in document:
        raise PlanRefused(f"{path} is not a plan")
    if document["version"] != VERSION:
        raise PlanRefused(
            f"{path} is a plan of version {document['version']}; this program reads {VERSION}"
        )
    try:
        plan = msgspec.convert(document, Plan)
    except msgspec.ValidationError as exc:
        raise PlanRefused(f"{path} is not a plan: {exc}") from exc
    count, digest = document.get("count"), document.get("digest")
    if not edited and (len(plan.changes), plan.digest) != (count, digest):
        raise PlanRefused(
            f"{path} is incomplete or was edited: it has {len(plan.changes)} of {count} changes; "
            "make a new plan, or use --edited if you edited it on purpose"
        )
    twice = [node for node, count in Counter(c.node for c in plan.changes).items() if count > 1]
    if twice:
        raise PlanRefused(f"{path} names a node twice: {', '.join(twice)}")
    for change in plan.changes:
        service = plan.services.get(change.host[1])
        if service is None or service.shard != change.shard[1]:
            raise PlanRefused(
                f"{path}: node {change.node} goes to {change.host[1]}, whose shard is not "
                f"{change.shard[1]!r}"
            )
    return plan
