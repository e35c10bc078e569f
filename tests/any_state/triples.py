# SPDX-License-Identifier: Apache-2.0

"""The states that a node may be found in: of Ironic, of Nova and of Placement.

A triple is one value of each axis.  Which combinations can't be is said by :data:`IMPOSSIBLE`,
each rule with its reason; all others that differ may be drawn.  Nothing here touches anything.
"""

import dataclasses
import itertools
import random
from collections.abc import Callable, Iterator

from nova.compute import task_states, vm_states
from nova.objects import fields

from ironic_virt.testing.fake_ironic import states

NONE, OURS, OTHER = "none", "ours", "other"
DELETED, FOREIGN = "deleted", "foreign"
"""A server that Nova has deleted; a consumer or an instance that Nova has never known."""
USUAL, UNUSUAL = "usual", "unusual"
EARLY, LATE, NEVER = "early", "late", "never"
RIGHT, WRONG, FULL = "right", "wrong", "reserved"

MOVING = states.UNSTABLE - {states.SERVICEWAIT}
"""States that Ironic leaves by itself; a step decides when servicing goes on."""
HELD = (states.CLEANHOLD, states.DEPLOYHOLD, states.SERVICEHOLD)
"""States that a person has ordered, who may end them, late, by an abort."""
_TO_MANAGEABLE = (states.CLEANING, states.CLEANWAIT, states.CLEANHOLD, states.CLEANFAIL)


@dataclasses.dataclass(frozen=True, slots=True)
class Triple:
    """What Ironic, Nova and Placement say of a node.

    :ivar provision: Ironic's provision state.
    :ivar moves: when that state ends, by Ironic itself or by the person who has ordered it:
        while the service starts, after the periods, or never.
    :ivar fails: whether it then ends in failure.
    :ivar instance: whose ``instance_uuid`` the node carries.
    :ivar marked: the node has what this driver writes to it with a server.
    :ivar allocation: the instance is there by an allocation of Ironic's.
    :ivar target: the target provision state is the usual one of its state.
    :ivar power: Ironic's power state.
    :ivar error: it has a ``last_error``.
    :ivar record: the host of Nova's compute node record.
    :ivar vm, task: the server's states; ``vm`` is empty: there is none.
    :ivar provider: Placement's inventory of the node; ``none``: it has no provider.
    :ivar held: whose allocation Placement has.
    """

    provision: str
    moves: str
    fails: bool
    maintenance: bool
    retired: bool
    instance: str
    marked: bool
    allocation: bool
    target: str
    power: str | None
    error: bool
    record: str
    vm: str
    task: str | None
    provider: str
    held: str

    @property
    def is_others(self) -> bool:
        """Whether the node belongs to another host, or its instance is unknown to Nova."""
        return self.record == OTHER or self.instance == FOREIGN

    @property
    def has_server(self) -> bool:
        """Whether Nova has a server that is not deleted."""
        return self.vm not in ("", DELETED)

    @property
    def is_homeless(self) -> bool:
        """Whether the server has no host and no node by its record."""
        return self.vm == vm_states.SHELVED_OFFLOADED


_BOTH = (False, True)
_AFTER_RESIZE = (
    task_states.RESIZE_MIGRATED,
    task_states.RESIZE_FINISH,
    task_states.RESIZE_REVERTING,
    task_states.RESIZE_CONFIRMING,
)
"""No bare metal has been resized, so nothing can follow."""
_VM_STATES = set(fields.InstanceState.ALL) - {vm_states.DELETED, vm_states.RESIZED}
_TASK_STATES = set(fields.InstanceTaskState.ALL) - set(_AFTER_RESIZE)
AXES: dict[str, tuple[object, ...]] = {
    "provision": tuple(sorted(states.ALL_STATES)),
    "moves": (EARLY, LATE, NEVER),
    "fails": _BOTH,
    "maintenance": _BOTH,
    "retired": _BOTH,
    "instance": (NONE, OURS, DELETED, FOREIGN),
    "marked": _BOTH,
    "allocation": _BOTH,
    "target": (USUAL, UNUSUAL),
    "power": (states.POWER_ON, states.POWER_OFF, "error", None),
    "error": _BOTH,
    "record": (NONE, OURS, OTHER),
    "vm": ("", *sorted(_VM_STATES), DELETED),
    "task": (None, *sorted(_TASK_STATES)),
    "provider": (NONE, "empty", RIGHT, FULL, WRONG),
    "held": (NONE, OURS, FOREIGN),
}
"""All values of each axis, in the order in which they are drawn."""

Rule = Callable[[Triple], bool]
IMPOSSIBLE: dict[str, Rule] = {
    "Ironic refuses to retire a node that is available": lambda one: (
        one.retired and one.provision == states.AVAILABLE
    ),
    "what Ironic does ends, if in failure when its conductor starts again": lambda one: (
        one.moves not in _ends(one.provision)
    ),
    "what Ironic does not end does not fail": lambda one: (
        one.fails and one.provision not in MOVING
    ),
    "an allocation sets the node's instance_uuid": lambda one: (
        one.allocation and one.instance == NONE
    ),
    "this driver marks nodes of servers of Nova's only": lambda one: (
        one.marked and one.instance not in (OURS, DELETED)
    ),
    "only cleaning may have been ordered from manageable": lambda one: (
        one.target == UNUSUAL and one.provision not in _TO_MANAGEABLE
    ),
    "only a server that is there can be on a node as ours": lambda one: (
        one.instance == OURS and not one.has_server
    ),
    "only a deleted server can be on a node as deleted": lambda one: (
        one.instance == DELETED and one.vm != DELETED
    ),
    "a server that is not there does nothing": lambda one: (
        one.task is not None and not one.has_server
    ),
    "without an inventory nothing is allocated": lambda one: (
        one.held != NONE and one.provider in (NONE, "empty")
    ),
    "no server, no allocation of it": lambda one: one.held == OURS and not one.vm,
    "Nova makes a provider after its record": lambda one: (
        one.record != NONE and one.provider == NONE and one.held != NONE
    ),
    "a server has begun to come back when it has no host": lambda one: (
        one.is_homeless and one.task not in _OF_SHELVED
    ),
}
"""Combinations that can't be, by the reason."""
_OF_SHELVED = (None, task_states.UNSHELVING, task_states.DELETING)


def _ends(provision: str) -> tuple[str, ...]:
    """When a state may end."""
    if provision in MOVING:
        return EARLY, LATE
    return (LATE, NEVER) if provision in HELD else (NEVER,)


def why_impossible(triple: Triple) -> str | None:
    """The rule that makes a triple impossible; ``None``: it is possible."""
    return next((why for why, rule in IMPOSSIBLE.items() if rule(triple)), None)


def draw(count: int, seed: int) -> Iterator[Triple]:
    """Return possible triples, no two alike, in which each axis has each of its values."""
    chance = random.Random(seed)
    drawn: set[Triple] = set()
    servers = [
        (vm, task)
        for vm in AXES["vm"]
        for task in AXES["task"]
        if vm not in ("", DELETED) and (vm != vm_states.SHELVED_OFFLOADED or task in _OF_SHELVED)
    ]
    chance.shuffle(servers)
    each = itertools.cycle(servers)
    for provision in itertools.islice(itertools.cycle(AXES["provision"]), count):
        triple = None
        while triple is None or triple in drawn:
            values = {name: chance.choice(of) for name, of in AXES.items()}
            values["provision"] = provision
            values["moves"] = chance.choice(_ends(provision))
            # One in three has no server, which the product of all states would seldom give.
            if chance.randrange(3):
                values["vm"], values["task"] = next(each)
            else:
                values["vm"], values["task"] = chance.choice(("", DELETED)), None
            triple = _made_possible(values, chance)
        drawn.add(triple)
        yield triple


def _made_possible(values: dict[str, object], chance: random.Random) -> Triple | None:
    """A triple of the values; those that don't fit the others are drawn again."""
    for _ in range(200):
        triple = Triple(**values)  # type: ignore[arg-type]
        if why_impossible(triple) is None:
            return triple
        name = chance.choice([one for one in AXES if one not in ("provision", "vm", "task")])
        values[name] = chance.choice(AXES[name])
    return None
