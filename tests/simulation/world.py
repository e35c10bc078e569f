# SPDX-License-Identifier: Apache-2.0

"""A deployment in a seed's weather, from its first minute until nothing is left to do."""

import contextlib
import dataclasses
import random
import traceback
import types
import uuid as uuids
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from unittest import mock

from ironic_virt.baremetal import volumes as targets
from ironic_virt.baremetal.http import single_flight
from ironic_virt.baremetal.inventory import cache
from ironic_virt.baremetal.waiting import watcher
from ironic_virt.compute.db.records import Instance
from ironic_virt.driver import claim
from ironic_virt.sharding import ownership
from ironic_virt.standby import lease
from ironic_virt.testing.fake_ironic import Conductor, Durations, FakeIronic, node_view
from ironic_virt.testing.fake_ironic.records import Node
from tests.in_process import InProcessChannel
from tests.simulation.chaos import Chaos, database_storms, storms
from tests.simulation.history import History, Operation
from tests.simulation.hooks import Hooks
from tests.simulation.host import HostProcess
from tests.simulation.laws import Laws
from tests.simulation.layouts import LAYOUTS, Layout, options
from tests.simulation.records import Instances, Offer
from tests.simulation.scheduler import Scheduler, futures_of, threading_of
from tests.simulation.standbys import Standbys
from tests.simulation.users import Users
from tests.simulation.volumes import Volumes
from tests.simulation.wire import Stalled, Storm, Weather
from tests.unit.nova.small_nova import Cloud

HALF_AN_HOUR = 1800.0
"""Seconds for which storms are drawn at a time, and after which operators repair."""

BOUND = 4 * 3600.0
"""Seconds in which everything then settles."""

RECONCILED = 1500.0
"""Seconds in which reservations that nobody wants are given up."""

_STEP = 30.0
_THREADED = (watcher, cache, single_flight, ownership)
"""The modules in which threads wait for each other, or might."""
_UNMASKED = types.SimpleNamespace(mask_dict_password=lambda info, mask: dict(info))


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What a run has shown.

    :ivar findings: what was broken, in sentences.
    :ivar seconds: of the virtual clock.
    :ivar faults: how many of each kind there were.
    """

    seed: int
    layout: str
    findings: tuple[str, ...]
    seconds: float
    requests: int
    operations: int
    faults: dict[str, int]
    digest: str
    lines: tuple[str, ...]


class World:
    """The parts of one run."""

    def __init__(self, seed: int, hours: float, layout: Layout | None = None) -> None:
        self.seed = seed
        self._calm_at = hours * 3600
        self.rng = random.Random(f"world {seed}")
        self.layout = layout or LAYOUTS[seed % len(LAYOUTS)]
        self.history = History()
        self.is_calm = self.rng.random() < 0.1
        # Nodes go from server to server.
        self.is_quick = self.rng.random() < 0.3
        self.is_ring = self.layout.by_ring
        self.by_hand = False
        self.moved_at: dict[str, float] = {}
        self.owners: dict[str, str] = {}
        self.owned_since: dict[str, float] = {}
        self.offers: dict[str, Offer] = {}
        self.requests: dict[str, str] = {}
        self.disks: dict[str, str | None] = {}
        self.has_periods = (
            not self.layout.pools and random.Random(f"periods {seed}").random() < 0.4
        )
        self.clouds: dict[str, Cloud] = {}
        self.volumes = Volumes(self)
        self.hooks = Hooks(self)
        self.standbys = Standbys(self)
        self.fake = self._ironic()
        self.ironic = InProcessChannel(self.fake, "http://ironic.test")
        self.scheduler = Scheduler(random.Random(f"scheduler {seed}"), self.fake.advance)
        for node in self.fake.bm.store.nodes:
            self.volumes.connect(node.uuid)
        self.laws = Laws(self)
        late = random.Random(f"late {seed}")
        self.stalled = Stalled(late, self.scheduler, self._calm_at, self.laws.carried)
        self.instances = Instances(self._told, self._left, self.laws.blames)
        self.users = Users(self)
        self.chaos = Chaos(self)
        weather = random.Random(f"weather {seed}")
        names = [f"compute{index + 1}" for index in range(len(self.layout.hosts))]
        self.weather = Weather(weather, self._storms(storms, weather, names))
        weather = random.Random(f"database {seed}")
        self.database_weather = Weather(weather, self._storms(database_storms, weather, names))
        weather = random.Random(f"backend {seed}")
        self.backend_weather = Weather(weather, self._storms(database_storms, weather, names))
        nodes = self.fake.nodes()
        self.pristine = {node["uuid"]: self.trace(node["uuid"]) for node in nodes}
        for node in self.fake.bm.store.nodes:
            self.laws.changed(node, None)
        self._store_update = self.fake.bm.store.update
        self.fake.bm.store.update = self._updated  # type: ignore[method-assign]
        self.hosts: dict[str, HostProcess] = {}
        self.processes: list[HostProcess] = []
        self._names = names

    def _storms(
        self,
        some: Callable[[random.Random, Sequence[str], float], list[Storm]],
        rng: random.Random,
        names: Sequence[str],
    ) -> list[Storm]:
        """Return the storms of each half hour."""
        found: list[Storm] = []
        for number in range(0 if self.is_calm else round(self._calm_at / HALF_AN_HOUR)):
            later = number * HALF_AN_HOUR
            found += [
                dataclasses.replace(one, begin=one.begin + later, end=one.end + later)
                for one in some(rng, names, HALF_AN_HOUR)
            ]
        return found

    def _ironic(self) -> FakeIronic:
        rng = self.rng
        slow = Durations(
            deploy=(5, 20) if self.is_quick else (30, 400),
            undeploy=(2, 5) if self.is_quick else (2, 30),
            clean=(1, 10) if self.is_quick else (10, 300),
            power=(1, 8),
            rescue=(20, 90),
            unrescue=(20, 90),
            allocate=(0, 1),
        )
        groups = sorted({group for _, group in self.layout.homes})
        fake = FakeIronic(
            durations=slow,
            conductors=tuple(Conductor(f"conductor-{one or 'default'}", one) for one in groups),
            wait_states=rng.random() < 0.5,
            power_follows_deploy=True,
            seed=self.seed,
            journal_size=1,
        )
        for index in range(rng.randint(2, 6)):
            shard, group = self.layout.homes[index % len(self.layout.homes)]
            fake.add_node(
                resource_class="gold",
                shard=shard,
                conductor_group=group,
                ports=2,
                # It writes an image, so it refuses a deployment for which there is none.
                deploy_interface="direct",
                **self.volumes.node_fields(),
            )
        return fake

    # -- hosts ----------------------------------------------------------------

    def start_host(self, name: str) -> None:
        """Start a process of a host; a former one is dead, or has the lease."""
        index = int(name.removeprefix("compute")) - 1
        conf = options(self.layout, index)
        service = HostProcess(self, name, conf, len(self.processes) + 1)
        self.processes.append(service)
        if service.lease is None or name not in self.hosts:
            self.hosts[name] = service
        self.log(f"{service.process.name} starts")
        service.start()

    def revive(self, name: str) -> None:
        """Start the processes that a host lacks."""
        live = [one for one in self.processes if one.host == name and not one.process.dead]
        for _ in range(1 + self.standbys.are_used - len(live)):
            self.start_host(name)

    def is_up(self, host: str) -> bool:
        """Whether a host's process lives."""
        return not self.hosts[host].process.dead

    def why_outside(self, host: str, shard: str | None, group: str | None) -> str | None:
        """Why a node is not one of a host's."""
        wanted = self.layout.hosts[int(host.removeprefix("compute")) - 1]
        if "shard_key" in wanted and shard != wanted["shard_key"]:
            return f"its shard is {shard}"
        if "conductor_group" in wanted and (group or "") != wanted["conductor_group"]:
            return f"its group is {group}"
        return None

    def host_of(self, instance: str | None) -> str | None:
        row = self.instances.rows.get(instance or "")
        return row.host if row is not None else None

    def withdraw(self, host: str) -> None:
        """Offer nothing of a host any more."""
        self.offers = {name: one for name, one in self.offers.items() if one.host != host}

    # -- places ---------------------------------------------------------------

    def choose(self, tried: frozenset[str] = frozenset()) -> str | None:
        """A free node, or a pool with a free place, as last reported."""
        claimed = {one.node for one in self.instances.live()}
        free = [
            name
            for name, offer in sorted(self.offers.items())
            if offer.free and name not in claimed and name not in tried and self.is_up(offer.host)
        ]
        return self.rng.choice(free) if free else None

    def place(self, chosen: str) -> dict[str, Any]:
        """What the record of an instance gets with it."""
        offer = self.offers[chosen]
        if self.layout.pools:
            offer.free -= 1
            return {"host": offer.host, "node": None, "pool": chosen}
        return {"host": offer.host, "node": chosen, "pool": None}

    def _left(self, node: str) -> None:
        """Ironic cleans it: it is free when its host says so again."""
        if node in self.offers:
            self.offers[node].free = 0

    def new_uuid(self) -> str:
        """A random one, of this seed."""
        return str(uuids.UUID(int=self.rng.getrandbits(128), version=4))

    # -- what happens ---------------------------------------------------------

    def log(self, line: str) -> None:
        """Add a line to the history."""
        self.history.add(self.scheduler.now, line)

    @contextlib.contextmanager
    def a_hand(self, what: str) -> Iterator[None]:
        """Somebody else changes something in Ironic."""
        self.log(f"somebody: {what}")
        self.by_hand = True
        try:
            yield
        finally:
            self.by_hand = False

    def _updated(self, row: Any, **changes: Any) -> None:
        if not isinstance(row, Node):
            self._store_update(row, **changes)
            return
        had, was, power = row.instance_uuid, row.provision_state, row.power_state
        self._store_update(row, **changes)
        now = (row.instance_uuid, row.provision_state, row.power_state)
        self.laws.changed(row, had)
        if now == (had, was, power):
            return
        self.log(f"Ironic: {row.uuid} has {now[0]}, {now[1]}, {now[2]}")
        if had and now[:2] == (None, "deleting"):
            self.volumes.torn_down(row.uuid)
        if now[1] == "deploying" and was in ("available", "active", "deploy failed", "error"):
            self.laws.deploys(row, was)
            self.disks[row.uuid] = None
        elif now[1] == "active" and was in ("deploying", "wait call-back"):
            self.disks[row.uuid] = self.volumes.system_of(row)
            self.laws.deployed(row)
        elif now[1] == "deleting":
            self.disks[row.uuid] = None

    def _told(self, before: Instance, how: str, vm_state: str) -> None:
        if before.task_state is None:
            self.laws.given_up(before)
            return
        if how == "done" and before.task_state in ("spawning", "rebuilding"):
            self.hooks.told(self.fake.bm.store.node_by_instance(before.uuid))
        self.users.told(before, how, vm_state)

    def own(self, name: str, host: str) -> None:
        """Write down that a node's record is a host's."""
        if self.owners.get(name) != host:
            self.owners[name] = host
            self.owned_since[name] = self.scheduler.now

    def look(self, row: Instance) -> None:
        """Compare the last answer to a user with what Ironic has."""
        # A little later than the answer.
        now = self.scheduler.now + 1e-6
        if row.is_deleted or row.vm_state not in ("active", "stopped", "rescued"):
            return
        node = self.fake.bm.store.node_by_instance(row.uuid)
        if node is None:
            if row.uuid not in self.laws.torn_down_late:
                self.laws.found("1 lost", f"no node has {row.name} {row.uuid} as {row.vm_state}")
            return
        if node.provision_state not in ("active", "rescue"):
            return
        rescued = node.provision_state == "rescue"
        if rescued != (row.vm_state == "rescued") and not self.laws.was_rescued_late(node):
            what = f"{row.name} {row.uuid} is told to be {row.vm_state}"
            self.laws.found("4 told", f"{what}, its node is {node.provision_state}")
        self.laws.runs(node, row)
        seen = {
            "image": self.disks.get(node.uuid),
            "rescued": rescued,
        }
        if node.target_power_state is None or self.is_calm:
            seen["power"] = str(node.power_state).removeprefix("power ")
        self.history.ended(Operation("look", row.uuid, now, now, value=seen))
        self.history.held(node.uuid, Operation("look", row.uuid, now, now, value=row.uuid))

    def trace(self, uuid: str) -> dict[str, Any]:
        """All that an instance may leave on a node."""
        node = self.fake.node(uuid)
        kept = (
            *("provision_state", "instance_uuid", "instance_info", "instance_name"),
            *("maintenance", "reservation", "allocation_uuid", "lessee", "owner"),
        )
        volumes = [target.volume_id for target in self.volumes.targets(uuid)]
        return {key: node[key] for key in kept} | {
            "vifs": self.fake.vifs(uuid),
            "volumes": volumes,
        }

    # -- the run --------------------------------------------------------------

    @contextlib.contextmanager
    def in_place_of_threads(self) -> Iterator[None]:
        """Have the product's threads and random keys be this world's; at the end all tasks end."""
        threading, futures = threading_of(self.scheduler), futures_of(self.scheduler)
        with contextlib.ExitStack() as stack:
            for module in _THREADED:
                stack.enter_context(mock.patch.object(module, "threading", threading))
            stack.enter_context(mock.patch.object(single_flight, "futures", futures))
            # A third of all the time, and nothing here depends on it.
            stack.enter_context(mock.patch.object(node_view, "strutils", _UNMASKED))
            keys = random.Random(f"keys {self.seed}")
            named = types.SimpleNamespace(uuid4=lambda: uuids.UUID(int=keys.getrandbits(128)))
            stack.enter_context(mock.patch.object(claim, "uuid", named))
            stack.enter_context(mock.patch.object(targets, "uuids", named))
            stack.enter_context(
                mock.patch.object(lease, "native_threading", return_value=threading)
            )
            stack.enter_context(mock.patch.object(lease, "LOOK_SECONDS", 5.0))
            stack.callback(self.scheduler.close)
            yield

    def run(self) -> None:
        """Let all of it happen."""
        for name in self._names:
            self.revive(name)
        self.chaos.begin(self._calm_at)
        self.users.begin(self._calm_at)
        while self.scheduler.now + HALF_AN_HOUR < self._calm_at:
            self.scheduler.run(self.scheduler.now + HALF_AN_HOUR)
            self.chaos.repair()
        self.scheduler.run(self._calm_at)
        self.chaos.end()
        self._settle("after the last fault")
        self.laws.settled()
        for _ in range(3):
            self.chaos.repair()
            if not self.users.delete_all():
                break
            self._settle("after all were deleted")
        self.chaos.repair()
        # What is reserved for nobody is given up when it was seen twice.
        longer = RECONCILED if self.layout.pools or self.volumes.are_used else 0.0
        self.scheduler.run(self.scheduler.now + 300 + longer)
        self.laws.nothing_is_left(self.pristine)
        self.laws.all_offered(self.layout.pools)
        for one in self.history.unexplained():
            self.laws.found("history", one)

    def _settle(self, when: str) -> None:
        bound = self.scheduler.now + BOUND
        while not self._is_quiet():
            self.scheduler.run(self.scheduler.now + _STEP)
            if self.scheduler.now > bound:
                busy = [str(one.name) for one in self.instances.live() if one.task_state]
                self.laws.found("13 liveness", f"{when} not all has settled: {busy}")
                return

    def _is_quiet(self) -> bool:
        busy = any(one.task_state for one in self.instances.live())
        in_flight = any(service.in_flight for service in self.hosts.values())
        return not busy and not in_flight and self.fake.bm.timeline.next_due() is None


def simulate(seed: int, hours: float = 0.5) -> Outcome:
    """Run one seed.  Nothing but the seed decides what happens.

    :param hours: of faults.
    """
    world = World(seed, hours)
    with world.in_place_of_threads():
        try:
            world.run()
        except Exception as error:
            # From a task, or from the simulation.
            where = traceback.extract_tb(error.__traceback__)[-1]
            world.laws.found("error", f"{error!r} at {where.filename}:{where.lineno}")
    return Outcome(
        seed,
        world.layout.name,
        tuple(world.laws.findings),
        world.scheduler.now,
        sum(service.wire.sent for service in world.processes),
        sum(map(len, world.history.operations.values())),
        dict(world.weather.met + world.database_weather.met + world.chaos.met),
        world.history.digest,
        tuple(world.history.lines),
    )
