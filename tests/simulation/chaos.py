# SPDX-License-Identifier: Apache-2.0

"""Faults other than lost requests: processes and conductors die, and others act in Ironic, too."""

from __future__ import annotations

import collections
import functools
import random
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ironic_virt.testing.fake_ironic import network, states
from ironic_virt.testing.fake_ironic.records import Node
from tests.simulation.laws import is_free
from tests.simulation.wire import KINDS, Storm

if TYPE_CHECKING:
    from tests.simulation.world import World

_OPERATIONS = ("deploy", "undeploy", "clean", "rescue", "unrescue", "power", "allocate")
_OUTAGES = ("refused", "hang", "503", "502", "401")


def storms(rng: random.Random, hosts: Sequence[str], until: float) -> list[Storm]:
    """Times of many faults, of few, and of an Ironic that is down."""
    found = []
    for _ in range(rng.randint(1, 4)):
        begin = rng.uniform(0, until)
        host = rng.choice([None, *hosts])
        if rng.random() < 0.25:
            end, kinds, rate = begin + rng.uniform(5, 200), (rng.choice(_OUTAGES),), 1.0
        else:
            end = begin + rng.uniform(60, until)
            kinds = tuple(rng.sample(KINDS, rng.randint(1, len(KINDS))))
            rate = rng.choice([0.02, 0.1, 0.3, 0.6])
        found.append(Storm(begin, min(end, until), host, kinds, rate))
    if rng.random() < 0.5:
        # What is given up, and obeyed long after.
        begin = rng.uniform(0, until / 2)
        found.append(Storm(begin, until, None, ("late",), rng.choice([0.1, 0.3])))
    return found


def database_storms(rng: random.Random, hosts: Sequence[str], until: float) -> list[Storm]:
    """Times in which statements fail, and times in which there is no database."""
    found = []
    for _ in range(rng.randint(0, 3)):
        begin = rng.uniform(0, until)
        end = min(begin + rng.uniform(5, 400), until)
        rate = rng.choice([0.05, 0.3, 1.0])
        kinds = ("database",) if rate == 1.0 else ("database", "lost commit")
        found.append(Storm(begin, end, rng.choice([None, *hosts]), kinds, rate))
    return found


class Chaos:
    """Everything but the weather.

    :ivar met: how much of each kind there was.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._rng = random.Random(f"chaos {world.seed}")
        self.met: collections.Counter[str] = collections.Counter()
        self._undo: list[Callable[[], None]] = []
        self._strangers = 0

    def begin(self, until: float) -> None:
        """Have things happen until then."""
        if self._world.is_calm:
            return
        for name in self._world.hosts:
            if self._rng.random() < 0.7:
                self._world.scheduler.spawn(lambda name=name: self._deaths(name, until))
        acts = [
            *(self._maintenance, self._lock, self._conductor_death, self._failure),
            *(self._stranger, self._button, self._move),
        ]
        more = [self._stop, self._lose_lease] if self._world.standbys.are_used else []
        more += [self._edit] if self._world.has_periods else []
        if more:
            self._world.scheduler.spawn(lambda: self._hands(more, until))
        chosen = self._rng.sample(acts, self._rng.randint(0, len(acts)))
        if chosen:
            self._world.scheduler.spawn(lambda: self._hands(chosen, until))

    def _hands(self, acts: Sequence[Callable[[Node], None]], until: float) -> None:
        pace = self._rng.choice([60.0, 300.0])
        while True:
            self._world.scheduler.sleep(self._rng.expovariate(1 / pace))
            if self._world.scheduler.now >= until:
                return
            nodes = list(self._world.fake.bm.store.nodes)
            self._rng.choice(acts)(self._rng.choice(nodes))

    # -- processes ------------------------------------------------------------

    def _deaths(self, name: str, until: float) -> None:
        world = self._world
        while True:
            world.scheduler.sleep(self._rng.expovariate(1 / 500))
            if world.scheduler.now >= until:
                return
            service = world.hosts[name]
            how = self._rng.choice(["now", "at a request", "at a request", "is told to stop"])
            self.met[f"process: {how}"] += 1
            world.log(f"{service.process.name} dies: {how}")
            if how == "at a request":
                service.wire.on_death = functools.partial(world.scheduler.kill, service.process)
                gets_it = self._rng.choice(["at once", "at once", "late", "never"])
                service.wire.dies_at = service.wire.sent + self._rng.randint(1, 25), gets_it
                world.scheduler.sleep(60.0)
            elif how == "is told to stop":
                service.stop()
                world.scheduler.sleep(30.0)
            world.scheduler.kill(service.process)
            world.scheduler.sleep(self._rng.choice([1.0, 30.0, 200.0]))
            # Perhaps the end of all faults has begun another one.
            world.revive(name)

    def _stop(self, _: Node) -> None:
        """A process is stopped for a while."""
        self.met["stopped process"] += 1
        process = self._rng.choice(list(self._world.hosts.values())).process
        self._world.log(f"{process.name} is stopped")
        process.stopped_until = self._world.scheduler.now + self._rng.uniform(5, 120)

    def _lose_lease(self, _: Node) -> None:
        """Redis loses a lock."""
        if not self._world.standbys.is_file:
            self.met["lost lock"] += 1
            self._world.standbys.locks.pop(self._rng.choice(sorted(self._world.hosts)), None)

    def _edit(self, _: Node) -> None:
        """An operator edits providers in Placement."""
        self.met["edited providers"] += 1
        for cloud in self._world.clouds.values():
            for provider in cloud.providers.values():
                edits: list[dict[str, Any]] = [{}, {"inventory": 77}, {"traits": frozenset()}]
                provider.write(**self._rng.choice(edits))

    # -- others in Ironic -----------------------------------------------------

    def _set(self, node: Node, what: str, **fields: object) -> None:
        if self._world.fake.bm.store.nodes.get(node.uuid) is node:
            with self._world.a_hand(f"{what} {node.uuid}"):
                self._world.fake.set_node(node.uuid, **fields)

    def _later(self, seconds: float, act: Callable[[], None]) -> None:
        """Do it then, or at the end of all faults if that is sooner."""
        self._undo.append(act)

        def run() -> None:
            self._world.scheduler.sleep(seconds)
            if act in self._undo:
                self._undo.remove(act)
                act()

        self._world.scheduler.spawn(run)

    def _maintenance(self, node: Node) -> None:
        if not node.maintenance:
            self.met["maintenance"] += 1
            self._set(node, "maintenance of", maintenance=True)
            back = self._rng.uniform(30, 600)
            self._later(back, lambda: self._set(node, "no maintenance of", maintenance=False))

    def _lock(self, node: Node) -> None:
        if node.reservation is None:
            self.met["lock"] += 1
            self._set(node, "lock of", reservation="another-conductor")
            self._later(self._rng.uniform(5, 300), lambda: self._unlock(node))

    def _unlock(self, node: Node) -> None:
        if node.reservation == "another-conductor":
            self._set(node, "unlock of", reservation=None)

    def _conductor_death(self, _: Node) -> None:
        """Who takes over fails what was going on, once the dead one's locks are let go."""
        self.met["conductor death"] += 1
        for node in self._world.fake.bm.store.nodes:
            after = states.TRANSITIONS.get(node.provision_state, {})
            if node.operation is None or "fail" not in after:
                continue
            self._set(node, "the conductor dies of", operation=None, reservation="dead")
            self._later(self._rng.uniform(1, 90), lambda node=node: self._fail(node))

    def _fail(self, node: Node) -> None:
        after = states.TRANSITIONS.get(node.provision_state, {})
        if node.reservation == "dead" and "fail" in after:
            error = "The deployment can't be resumed by conductor; it was restarted"
            self._set(node, "fails", provision_state=after["fail"], last_error=error)

    def _failure(self, node: Node) -> None:
        operation = self._rng.choice(_OPERATIONS)
        self.met[f"failed {operation}"] += 1
        self._world.fake.fail_next(operation, f"{operation}: broken", node.uuid)

    def _stranger(self, node: Node) -> None:
        if not is_free(node):
            return
        self.met["stranger"] += 1
        self._strangers += 1
        whose = f"6d2b4f02-0000-4000-8000-{self._strangers:012d}"
        self._set(node, "a stranger takes", instance_uuid=whose, provision_state=states.ACTIVE)
        self._later(self._rng.uniform(60, 900), lambda: self._leave(node, whose))

    def _leave(self, node: Node, stranger: str) -> None:
        """A stranger whose node was torn down meanwhile, by a late request, has none to leave."""
        if node.instance_uuid == stranger:
            gone = {"instance_uuid": None, "provision_state": states.AVAILABLE}
            # A late rescue may have come to it.
            self._set(node, "a stranger leaves", **gone, instance_info={})

    def _button(self, node: Node) -> None:
        row = self._world.instances.rows.get(node.instance_uuid or "")
        if row is None or row.task_state is not None or node.target_power_state is not None:
            return
        if row.vm_state not in ("active", "stopped"):
            return
        self.met["button"] += 1
        power = "off" if node.power_state == "power on" else "on"
        self._set(node, f"switches {power}", power_state=f"power {power}")
        self._world.users.switched(row, power)

    def _move(self, node: Node) -> None:
        """An operator gives a free node to another shard and group; its record may follow late."""
        homes = self._world.layout.homes
        if not is_free(node) or len(homes) < 2:
            return
        self.met["move"] += 1
        shard, group = self._rng.choice(homes)
        self._set(node, "moves", shard=shard, conductor_group=group)
        self._world.moved_at[node.uuid] = self._world.scheduler.now
        late = self._rng.choice([0.0, 600.0])
        self._later(late, lambda: self._give_record(node))

    def _give_record(self, node: Node) -> None:
        """Move a node's record to where the node is by then."""
        world, home = self._world, (node.shard, node.conductor_group)
        world.own(node.uuid, next(one for one in world.hosts if not world.why_outside(one, *home)))

    # -- the end --------------------------------------------------------------

    def end(self) -> None:
        """Let all hosts live, and undo what others have done."""
        for name in self._world.hosts:
            self._world.revive(name)
        for service in self._world.processes:
            service.wire.dies_at = None
        while self._undo:
            self._undo.pop(0)()
        self._world.fake.bm.failures.clear()

    def repair(self) -> None:
        """Bring nodes back that have failed without an instance, and those that can't be freed.

        Among these are the nodes that an instance has got which is gone: by a claim that was
        given up, and came after all.
        """
        world = self._world
        fine = {"maintenance": False, "fault": None, "last_error": None}
        for node in world.fake.bm.store.nodes:
            row = world.instances.rows.get(node.instance_uuid or "")
            host = row.host if row is not None else None
            if host and world.why_outside(host, node.shard, node.conductor_group):
                # It went to another service while it was being reserved, as the error says.
                shard, group = next(
                    home for home in world.layout.homes if not world.why_outside(host, *home)
                )
                self._set(node, "gives back", shard=shard, conductor_group=group)
                world.moved_at[node.uuid] = world.scheduler.now
                world.own(node.uuid, host)
            if world.laws.was_claimed_late(node):
                with world.a_hand(f"frees {node.uuid}"):
                    network.detach_all(world.fake.bm, node)
                    if allocation := world.fake.bm.store.allocation_of(node):
                        world.fake.bm.store.remove_allocation(allocation)
                    gone = {"instance_uuid": None, "instance_info": {}, "instance_name": None}
                    rest = {"target_provision_state": None, "operation": None, "protected": False}
                    state = {"provision_state": states.AVAILABLE, "reservation": None, **fine}
                    world.fake.set_node(node.uuid, **gone, **rest, **state, protected_reason=None)
            broken = "failed" in node.provision_state or node.provision_state == states.ERROR
            if broken and node.instance_uuid is None:
                state = states.AVAILABLE
                self._set(node, "repairs", provision_state=state, reservation=None, **fine)
