# SPDX-License-Identifier: Apache-2.0

"""Pools: what a service offers when Ironic picks the node, counted by kind of hardware.

All nodes of one resource class and one set of traits are a pool.  Its name says which,
and whose it is, and is the same after a restart.

Three numbers are reported of it: *total*, what is *used* by this service's instances,
and what is *reserved*, because others use it or nobody can.  Used is what the records
say, since a compute service subtracts that by itself.  The numbers are such that what
it then takes for free is what is free: see :attr:`Pool.free`.

Pure functions of the nodes and of what the records said when they were listed.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import hashlib
import re
import urllib.parse
import uuid
from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from ironic_virt.baremetal.inventory.snapshot import may_be_free
from ironic_virt.baremetal.node import Node
from ironic_virt.request.spec import placement_class

_NAMESPACE = uuid.UUID("3b0a5cf7-2b6e-4f0c-9a57-6f2f0e1d8c11")
_PART = r"(?:[\w.-]|~~[0-9A-F]{2})+"
_DIGEST = r"(?P<digest>[0-9a-f]{10})"
_NAME = re.compile(rf"(?P<class>{_PART})(~{_DIGEST})?~(?P<host>{_PART})", re.ASCII)
_FORMER_KIND = re.compile(rf"(?P<class>.+?)(\+{_DIGEST})?", re.DOTALL)
_LONGEST_CLASS = 100
"""Characters of a class in a name, which fits in Placement's column of 200 with the host."""

Kind = tuple[str, frozenset[str]]
"""A resource class and a set of traits."""


class Capacity(enum.Enum):
    """What a service reports as its pools' capacity (``[ironic] capacity``).

    The values are those of the option.
    """

    OWN = "own"
    TOTAL = "total"
    SHARE = "share"


@dataclasses.dataclass(frozen=True, slots=True)
class Hardware:
    """What all nodes of a pool have in common; 0 or ``None`` where they differ.

    :ivar memory_mb: MiB.
    :ivar local_gb: GiB.
    """

    vcpus: int = 0
    memory_mb: int = 0
    local_gb: int = 0
    cpu_arch: str | None = None
    capabilities: tuple[tuple[str, str], ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Pool:
    """A kind of nodes, and how many there are for this service.

    :ivar name: see :func:`pool_name`.
    :ivar total: how many nodes it has; never less than are used.
    :ivar used: how many instances the records give this service in this pool.
    :ivar reserved: how many of the others are not to be had.
    """

    name: str
    resource_class: str
    traits: frozenset[str]
    total: int
    used: int
    reserved: int
    hardware: Hardware = Hardware()

    @property
    def free(self) -> int:
        """How many more instances the compute service may put here."""
        return max(0, self.total - self.used - self.reserved)


@dataclasses.dataclass(frozen=True, slots=True)
class Recorded:
    """What the records say of instances.

    :ivar host: this compute service.
    :ivar places: this host's instances: uuid to the name of the compute node that the
        record names; ``""`` where it names none.
    :ivar live: the hosts that are up; only looked at for shares.
    :ivar hosts: instances on any node, uuid to host; only looked at for shares.
    """

    host: str
    places: Mapping[str, str]
    live: Collection[str] = ()
    hosts: Mapping[str, str] = dataclasses.field(default_factory=dict)


# -- names --------------------------------------------------------------------


def pool_name(host: str, kind: Kind) -> str:
    """The name of a pool, ``gold~compute1``, or ``gold~3f2a9c10de~compute1`` with traits.

    Ironic takes it for the name of a node that it doesn't have, and not for a bad request, so
    Nova's own driver can tell that a record that it finds is of no node.  (Letters, digits and
    ``-._~``: ``is_valid_logical_name`` in ``ironic/common/utils.py``.)  Any other character is
    there in hexadecimal: ``gold+8`` is ``gold~~2B8``.

    :param host: one of up to 87 characters gives a name that fits in Placement's and Nova's
        columns.
    """
    resource_class, traits = kind
    if not traits and _former_kind(resource_class)[1] is None:
        return _name(resource_class, None, host)
    # Also of a class that looks like another one and its digest: it has that one's uuid else.
    return _name(resource_class, _digest(*sorted(traits))[:10], host)


def pool_uuid(name: str) -> str:
    """The uuid of a pool's record: the same for the same name, always.

    Made from the former name, so that records with such a name keep their uuid.
    """
    return str(uuid.uuid5(_NAMESPACE, _former(name)))


def class_of(name: str, host: str) -> str | None:
    """The resource class of a pool of a host by its name; ``None``: it is no such name.

    Of a class that is too long for a name it is Placement's class.
    """
    match = _NAME.fullmatch(name) if "~" in name else None
    if match is None or _unquoted(match["host"]) != host:
        return None
    return _unquoted(match["class"])


def renamed(former: str, host: str) -> str | None:
    """The name of a pool of a host by its former one, ``gold+3f2a9c10de@compute1``.

    :returns: ``None``: it is no such name.
    """
    kind = former.removesuffix(f"@{host}")
    return _name(*_former_kind(kind), host) if kind and kind != former else None


def _name(resource_class: str, digest: str | None, host: str) -> str:
    quoted = _quoted(resource_class)
    if len(quoted) > _LONGEST_CLASS:
        # Of other alphabets, in which nobody can ask for it but by Placement's class.
        digest = _digest(resource_class, digest or "")[:10]
        quoted = placement_class(resource_class)
    return "~".join((quoted, *((digest,) if digest else ()), _quoted(host)))


def _former(name: str) -> str:
    match = _NAME.fullmatch(name)
    if match is None or "@" in (host := _unquoted(match["host"])):
        # Such a host had no pools then.
        return name
    digest = f"+{match['digest']}" if match["digest"] else ""
    return f"{_unquoted(match['class'])}{digest}@{host}"


def _former_kind(text: str) -> tuple[str, str | None]:
    match = _FORMER_KIND.fullmatch(text)
    return (match["class"], match["digest"]) if match is not None else (text, None)


def _quoted(text: str) -> str:
    return urllib.parse.quote(text, safe="").replace("~", "%7E").replace("%", "~~")


def _unquoted(text: str) -> str:
    return urllib.parse.unquote(text.replace("~~", "%"))


@functools.lru_cache(maxsize=4096)
def _digest(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


# -- counts -------------------------------------------------------------------


def pools_of(
    nodes: Iterable[Node],
    recorded: Recorded,
    capacity: Capacity,
    on_nodes: Collection[str],
) -> dict[str, Pool]:
    """The pools of a service, by name.

    :param nodes: those that the service may reserve; ones without a resource class are
        left out, since nothing can ask for them.
    :param on_nodes: the instances that are on any node that is known.
    :returns: also pools that have no node any more, as long as the records have an
        instance in them.
    """
    tally = _Tally(nodes)
    placed, coming = _records_by_pool(tally, recorded, on_nodes)
    found: dict[str, Pool] = {}
    for kind, number in tally.nodes.items():
        name = pool_name(recorded.host, kind)
        free = tally.free[kind]
        if capacity is Capacity.SHARE:
            used = _used_by_host(tally.instances[kind], recorded)
            free = share_of(free, used, recorded.host, pool_name("", kind))
            number = free + used[recorded.host]
        found[name] = _pool(name, kind, number, free, placed[name], coming[name])
        found[name] = dataclasses.replace(found[name], hardware=tally.hardware(kind))
    for name in (placed.keys() | coming.keys()) - found.keys():
        kind = (class_of(name, recorded.host) or "", frozenset())
        found[name] = _pool(name, kind, 0, 0, placed[name], coming[name])
    return found


def _pool(name: str, kind: Kind, number: int, free: int, placed: int, coming: int) -> Pool:
    """Numbers that say that ``free`` less ``coming`` are free.

    :param placed: instances that the records put here, each on some node.  It need not
        be one of this pool: the pool was chosen before the node was.
    :param coming: instances that the records put here, and no node carries yet.
    """
    total = max(number, placed + free, placed + coming)
    return Pool(
        name=name,
        resource_class=kind[0],
        traits=kind[1],
        total=total,
        used=placed + coming,
        reserved=total - placed - max(free, coming),
    )


def share_of(free: int, used: Mapping[str, int], host: str, salt: str = "") -> int:
    """How many of the free nodes are a host's, when all hosts are to have equally many.

    Free nodes go to those that have least, until all have the same.  What then is left
    over goes to one each, in an order that ``salt`` decides, so that one host doesn't
    get the odd node of every pool.  Summed up over the hosts it is ``free``.

    :param used: how many nodes each host's instances have; every host is in it.
    """
    least = sorted(used, key=lambda name: (used[name], name))
    water = free
    for number, name in enumerate(least, start=1):
        water += used[name]
        above = used[least[number]] if number < len(least) else None
        if above is None or water <= above * number:
            level, odd = divmod(water, number)
            served = sorted(least[:number], key=lambda name: _digest(salt, name))
            if host not in served:
                return 0
            return level + (served.index(host) < odd) - used[host]
    raise ValueError("there are no hosts")


def _used_by_host(instances: Iterable[str], recorded: Recorded) -> Counter[str]:
    used = Counter(dict.fromkeys((*recorded.live, recorded.host), 0))
    for instance in instances:
        # An instance of this host counts as such, whatever another question answered.
        host = recorded.host if instance in recorded.places else recorded.hosts.get(instance, "")
        if host in used:
            used[host] += 1
    return used


def _records_by_pool(
    tally: _Tally, recorded: Recorded, on_nodes: Collection[str]
) -> tuple[Counter[str], Counter[str]]:
    """How many instances the records have in each pool, on a node and not yet on one."""
    where = {
        instance: kind for kind, instances in tally.instances.items() for instance in instances
    }
    on_any = set(on_nodes)
    placed: Counter[str] = Counter()
    coming: Counter[str] = Counter()
    for instance, place in recorded.places.items():
        if class_of(place, recorded.host) is not None:
            (placed if instance in on_any else coming)[place] += 1
        elif not place and instance in where:
            placed[pool_name(recorded.host, where[instance])] += 1
        # Else the record names the node itself, which has a record of its own.
    return placed, coming


class _Tally:
    """Nodes by kind."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self.nodes: Counter[Kind] = Counter()
        self.free: Counter[Kind] = Counter()
        self.instances: dict[Kind, list[str]] = {}
        self._properties: dict[Kind, dict[int, Node]] = {}
        for node in nodes:
            if not node.resource_class:
                continue
            kind = (node.resource_class, node.traits)
            self.nodes[kind] += 1
            # Nodes that are alike share one value.
            self._properties.setdefault(kind, {}).setdefault(id(node.properties), node)
            if may_be_free(node):
                self.free[kind] += 1
            found = self.instances.setdefault(kind, [])
            if node.instance_uuid:
                found.append(node.instance_uuid)

    def hardware(self, kind: Kind) -> Hardware:
        """What the nodes of a kind have in common."""
        several = [node.properties for node in self._properties[kind].values()]
        first = several[0]
        same = functools.partial(_same, several)
        capabilities = frozenset(first.capabilities).intersection(
            *(each.capabilities for each in several)
        )
        return Hardware(
            vcpus=first.cpus if same("cpus") else 0,
            memory_mb=first.memory_mb if same("memory_mb") else 0,
            local_gb=first.local_gb if same("local_gb") else 0,
            cpu_arch=first.cpu_arch if same("cpu_arch") else None,
            capabilities=tuple(sorted(capabilities)),
        )


def _same(several: Iterable[object], name: str) -> bool:
    return len({getattr(each, name) for each in several}) == 1
