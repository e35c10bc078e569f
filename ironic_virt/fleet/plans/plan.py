# SPDX-License-Identifier: Apache-2.0

"""A plan as data, and as a file of YAML that people can review.

The file says which deployment it is for, what it takes the services to serve, how many changes
it has and their digest, so that one that was cut off or changed by hand is refused.  What a
plan says of the present is as old as the plan; what carries it out looks again.
"""

from __future__ import annotations

import dataclasses
import datetime
import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import msgspec
import yaml

from ironic_virt import exceptions
from ironic_virt.fleet.options import ServiceOptions

VERSION = 2

_SECONDS_FOR_A_SHARD = 0.05
_SECONDS_FOR_A_RECORD = 0.03
_SECONDS_FOR_A_RESTART = 30.0


class PlanRefused(exceptions.IronicVirtError):
    """A plan can't be made, or a file is no plan."""


_Text = Annotated[str, msgspec.Meta(min_length=1)]


class Change(msgspec.Struct, frozen=True, order=True, omit_defaults=True):
    """What becomes of one node.

    :ivar shard: before and after.
    :ivar host: the service that has its record, before and after; ``None``: it has none.
    :ivar server: the server on it.
    """

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
        """Whether anything is to be done."""
        return self.shard[0] != self.shard[1] or self.moves_record

    def undone(self) -> Change:
        """The change that takes it back; the record stays where there was none before."""
        before = self.host[0] if self.host[0] is not None else self.host[1]
        return Change(
            self.node, (self.shard[1], self.shard[0]), (self.host[1], before), self.server
        )


class Assumed(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a service is taken to serve; its file must say the same.

    :ivar conductor_group: ``None``: any.
    :ivar report_interval: of its file, in seconds; 0: not told.
    """

    shard: _Text
    conductor_group: str | None = None
    report_interval: int = 0


class Cloud(msgspec.Struct, frozen=True):
    """Which deployment a plan is for.

    :ivar cells: uuids.
    :ivar ironic: its URL, by Nova's file.
    """

    cells: list[str] = []
    ironic: str = ""
    region: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
    """One service to stop, once.

    :ivar nodes: how many records leave it, of which so many servers.
    :ivar seconds: how long it is down, as an estimate.
    """

    host: str
    nodes: int
    servers: int
    seconds: float


@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
    """What is to be.

    :ivar strategy: how it was made.
    :ivar made_at: when, in UTC.
    :ivar services: what each service of which it speaks is taken to serve.
    :ivar changes: of the nodes for which something changes.
    :ivar accepted: findings that don't matter, and zones and aggregates that may differ.
    """

    strategy: str
    made_at: datetime.datetime
    services: Mapping[str, Assumed]
    changes: Sequence[Change]
    cloud: Cloud = dataclasses.field(default_factory=Cloud)
    accepted: Sequence[str] = ()

    @property
    def digest(self) -> str:
        """Of all that it says."""
        said = (self.made_at, self.cloud, self.services, self.accepted, self.changes)
        return hashlib.sha256(msgspec.json.encode(said, order="sorted")).hexdigest()

    @property
    def options(self) -> dict[str, ServiceOptions]:
        """What the services serve when it is carried out, as their files will say."""
        return {
            host: ServiceOptions(
                host,
                {"shard": one.shard}
                | (
                    {} if one.conductor_group is None else {"conductor_group": one.conductor_group}
                ),
                {"report_interval": str(one.report_interval)} if one.report_interval else {},
            )
            for host, one in self.services.items()
        }

    @property
    def moved(self) -> list[Change]:
        """The changes that move a record."""
        return [change for change in self.changes if change.moves_record]

    def steps(self) -> list[Step]:
        """The services that have to be stopped, each once, those with most to move first."""
        leaving = Counter(change.host[0] or "" for change in self.moved)
        servers = Counter(change.host[0] or "" for change in self.moved if change.server)
        return [
            Step(host, count, servers[host], estimate(count, count))
            for host, count in leaving.most_common()
        ]

    def undone(self, before: Mapping[str, tuple[str | None, str | None]]) -> Plan:
        """The plan that takes this one back.

        :param before: shards and hosts of nodes as they were; of these nodes only.
        """
        changes = []
        for one in self.changes:
            if one.node in before:
                shard, host = before[one.node]
                then = (shard, one.shard[1]), (host, one.host[1])
                changes.append(Change(one.node, *then, one.server).undone())
        return dataclasses.replace(self, strategy=f"undo {self.strategy}", changes=changes)


def estimate(shards: int, records: int) -> float:
    """Seconds that so many changes take, with a restart of the service."""
    changes = shards * _SECONDS_FOR_A_SHARD + records * _SECONDS_FOR_A_RECORD
    return round(changes + (_SECONDS_FOR_A_RESTART if records else 0.0), 1)


# -- the file -----------------------------------------------------------------


class _Document(msgspec.Struct):
    strategy: str
    made_at: datetime.datetime
    cloud: Cloud
    services: dict[str, Assumed]
    accepted: list[str]
    count: int
    digest: str
    changes: list[Change]


def write(plan: Plan, path: Path) -> None:
    """Write a plan to a file that is not there yet.

    :raises PlanRefused: there is one, or it can't be written.
    """
    steps = [
        {"stop": step.host, "nodes": step.nodes, "servers": step.servers, "seconds": step.seconds}
        for step in plan.steps()
    ]
    document = {
        "version": VERSION,
        "strategy": plan.strategy,
        "made_at": plan.made_at.isoformat(),
        "cloud": msgspec.to_builtins(plan.cloud),
        "services": msgspec.to_builtins(plan.services),
        "accepted": list(plan.accepted),
        "count": len(plan.changes),
        "digest": plan.digest,
        "steps": steps,
        "changes": msgspec.to_builtins(plan.changes),
    }
    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write("# A plan of ironic-virt-fleet.  [before, after] of each node.\n")
            yaml.dump(
                document, file, Dumper=dumper, sort_keys=False, width=200, default_flow_style=None
            )
    except FileExistsError as exc:
        raise PlanRefused(f"{path} exists; name another file, or remove it") from exc
    except OSError as exc:
        raise PlanRefused(f"{path}: {exc.strerror}") from exc


def read(path: Path, *, edited: bool = False) -> Plan:
    """Read a plan.

    :param edited: whether it may have been changed by hand.
    :raises PlanRefused: the file is no plan, one of another version, or not as it was written.
    """
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        with path.open(encoding="utf-8") as file:
            document = yaml.load(file, Loader=loader)
    except OSError as exc:
        raise PlanRefused(f"{path}: {exc.strerror}") from exc
    except (yaml.YAMLError, ValueError, RecursionError) as exc:
        raise PlanRefused(f"{path} is no YAML: {exc}") from exc
    if not isinstance(document, dict) or "version" not in document:
        raise PlanRefused(f"{path} is no plan")
    if document["version"] != VERSION:
        raise PlanRefused(
            f"{path} is a plan of version {document['version']}; this program reads {VERSION}"
        )
    try:
        found = msgspec.convert(document, _Document)
    except msgspec.ValidationError as exc:
        raise PlanRefused(f"{path} is no plan: {exc}") from exc
    plan = Plan(
        found.strategy,
        found.made_at,
        found.services,
        found.changes,
        found.cloud,
        tuple(found.accepted),
    )
    if not edited and (len(plan.changes), plan.digest) != (found.count, found.digest):
        raise PlanRefused(
            f"{path} has {len(plan.changes)} changes and not the {found.count} that were written, "
            "or they were edited; make a new plan, or say --edited if you did that on purpose"
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
