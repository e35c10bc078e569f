# SPDX-License-Identifier: Apache-2.0

"""What two drivers say of the same nodes, side by side, and why they differ.

Pure functions: :mod:`ironic_virt.fleet.drivers` asks the drivers.  A difference is explained
if it is one that the table of differences in the documentation has; the explanations name
its rows.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ironic_virt.baremetal.node import Node
from ironic_virt.fleet.providers import CAPABILITY_TRAITS


@dataclasses.dataclass(frozen=True, slots=True)
class Offered:
    """What a driver reports of a node.

    :ivar inventory: by resource class, the numbers.
    :ivar resource: what it says for the compute node record.
    :ivar error: why it says nothing; ``""``: it does.
    """

    inventory: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)
    traits: frozenset[str] = frozenset()
    resource: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    error: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Cost:
    """What it took to ask a driver everything.

    :ivar received: bytes of the answers' bodies.
    :ivar cpu: seconds of this process.
    """

    requests: int = 0
    received: int = 0
    cpu: float = 0.0
    seconds: float = 0.0


@dataclasses.dataclass(frozen=True, slots=True)
class Side:
    """All that a driver says.

    :ivar nodes: by uuid.
    :ivar servers: the host's servers that are on its nodes.
    :ivar power: by server, Nova's number of the power state.
    :ivar error: why the driver does not start; ``""``: it does.
    """

    nodes: Mapping[str, Offered] = dataclasses.field(default_factory=dict)
    servers: frozenset[str] = frozenset()
    power: Mapping[str, int] = dataclasses.field(default_factory=dict)
    cost: Cost = Cost()
    error: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Known:
    """What the differences are explained by.

    :ivar host: the service that both drivers are asked for.
    :ivar nodes: as Ironic has them.
    :ivar owners: the hosts of compute node records, by node.
    :ivar servers: the host's servers by Nova's records.
    :ivar has_shard: whether the service has a shard.
    """

    host: str
    nodes: Mapping[str, Node] = dataclasses.field(default_factory=dict)
    owners: Mapping[str, str] = dataclasses.field(default_factory=dict)
    servers: frozenset[str] = frozenset()
    has_shard: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Difference:
    """Something that the two drivers say in different ways.

    :ivar what: of which kind.
    :ivar about: the node or the server.
    :ivar row: the row of the table that explains it; ``None``: none does.
    """

    what: str
    about: str
    in_tree: str
    ours: str
    row: str | None = None


SEVERAL_SERVICES = "Several services, no ``peer_list``"
ANOTHERS_INSTANCE = "A node carries an instance that is not this host's"
UNREADABLE = "A node of which a field can't be read"
SIZES = "Sizes of a node"
NO_PEER_LIST = "``conductor_group`` without ``peer_list``"
NO_SHARDS = "Ironic can't filter by shard"

_Why = Callable[[Difference, Known], bool]


def _of_the_ring(found: Difference, known: Known) -> bool:
    """The ring gives the node to one host, and the records to another."""
    if found.what != "node" or known.has_shard:
        return False
    owner = known.owners.get(found.about, known.host)
    return (found.ours == _OFFERED) is (owner.lower() == known.host.lower())


def _of_anothers_instance(found: Difference, known: Known) -> bool:
    node = known.nodes.get(found.about)
    if node is None or node.instance_uuid is None or node.instance_uuid in known.servers:
        return False
    return found.what == "node" and found.ours == _OFFERED


def _of_unreadable_fields(found: Difference, known: Known) -> bool:
    node = known.nodes.get(found.about)
    return node is not None and bool(node.malformed or node.properties.malformed)


EXPLANATIONS: Sequence[tuple[str, _Why]] = (
    (ANOTHERS_INSTANCE, _of_anothers_instance),
    (SEVERAL_SERVICES, _of_the_ring),
    (SIZES, lambda found, known: found.what == "sizes in stats"),
    (UNREADABLE, _of_unreadable_fields),
    (
        NO_PEER_LIST,
        lambda found, known: found.what == "start" and "peer_list" in found.in_tree,
    ),
    (NO_SHARDS, lambda found, known: found.what == "start" and "1.82" in found.ours),
)
"""Rows of the table of differences, by their first cells, and when one explains."""

_OFFERED, _NOT_OFFERED = "offered", "not offered"
_OUR_STATS = "ironic_virt."


def compare(in_tree: Side, ours: Side, known: Known) -> list[Difference]:
    """All differences, each with the row that explains it."""
    return [dataclasses.replace(found, row=_row(found, known)) for found in _found(in_tree, ours)]


def _row(found: Difference, known: Known) -> str | None:
    return next((row for row, explains in EXPLANATIONS if explains(found, known)), None)


def _found(in_tree: Side, ours: Side) -> Iterator[Difference]:
    if in_tree.error or ours.error:
        if bool(in_tree.error) != bool(ours.error):
            yield Difference("start", "", in_tree.error or "starts", ours.error or "starts")
        return
    for uuid in sorted(in_tree.nodes.keys() ^ ours.nodes.keys()):
        both = [_OFFERED if uuid in side.nodes else _NOT_OFFERED for side in (in_tree, ours)]
        yield Difference("node", uuid, *both)
    for uuid in sorted(in_tree.nodes.keys() & ours.nodes.keys()):
        yield from _of_node(uuid, in_tree.nodes[uuid], ours.nodes[uuid])
    for uuid in sorted(in_tree.servers ^ ours.servers):
        both = ["there" if uuid in side.servers else "not there" for side in (in_tree, ours)]
        yield Difference("server", uuid, *both)
    for uuid in sorted(in_tree.power.keys() & ours.power.keys()):
        if in_tree.power[uuid] != ours.power[uuid]:
            yield Difference("power state", uuid, str(in_tree.power[uuid]), str(ours.power[uuid]))


def _of_node(uuid: str, theirs: Offered, ours: Offered) -> Iterator[Difference]:
    if theirs.error or ours.error:
        if theirs.error != ours.error:
            yield Difference("error", uuid, theirs.error or "none", ours.error or "none")
        return
    said, ours_said = _facts(theirs), _facts(ours)
    for what in dict.fromkeys((*said, *ours_said)):
        one, other = said.get(what), ours_said.get(what)
        # Of another inventory it goes without saying.
        implied = what == "reserved" and said["inventory"] != ours_said["inventory"]
        if one != other and not implied:
            yield Difference(what, uuid, str(one), str(other))


def _facts(offered: Offered) -> dict[str, Any]:
    """What a driver says of a node, in the parts that are compared."""
    inventory = {name: dict(one) for name, one in offered.inventory.items()}
    stats = dict(offered.resource.get("stats") or {})
    sizes = sorted(name for name in stats if name.startswith(_OUR_STATS))
    return {
        "reserved": {name: one.pop("reserved", None) for name, one in inventory.items()},
        "inventory": inventory,
        "traits": sorted(one for one in offered.traits if not one.startswith(CAPABILITY_TRAITS)),
        "sizes in stats": ", ".join(sizes) or "none",
        **{name: _plain(value) for name, value in sorted(offered.resource.items())},
        "stats": {name: value for name, value in stats.items() if name not in sizes},
    }


def _plain(value: Any) -> Any:
    """A value whose kinds of sequence make no difference."""
    return [_plain(one) for one in value] if isinstance(value, list | tuple) else value
