# SPDX-License-Identifier: Apache-2.0

"""A compute service of one host name: its processes, one after the other.

The driver is the real one, and so is what carries tasks out, builds, and compares power states;
the records are in memory, and the loops are few lines.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import random
import types
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from oslo_config import cfg

from ironic_virt import exceptions, virt
from ironic_virt.baremetal.client import IronicClient
from ironic_virt.baremetal.http.retry import RetryPolicy
from ironic_virt.baremetal.waiting.watcher import Watcher
from ironic_virt.compute.actions import TryLater
from ironic_virt.compute.db.records import Instance
from ironic_virt.compute.engine.power_sync import PowerSync
from ironic_virt.compute.engine.tasks import Tasks
from ironic_virt.compute.errors import DatabaseError
from ironic_virt.compute.states import TaskState
from ironic_virt.compute.verbs import BY_TASK
from ironic_virt.driver import IronicDriver
from ironic_virt.request.spec import RequestSpec
from tests.simulation.periods import Periods
from tests.simulation.records import SECRET, Offer, Troubled
from tests.simulation.scheduler import Process
from tests.simulation.wire import Wire

if TYPE_CHECKING:
    from tests.simulation.world import World

REFRESH = 120.0
POWER = 600.0
LOOK = 5.0
"""Seconds between two refreshes, two comparisons of power states, two looks for tasks."""


class _VirtAPI(virt.VirtAPI):
    """The records' side of the contract."""

    def __init__(self, service: HostProcess) -> None:
        self._service = service
        self._world = service.world

    @property
    def host(self) -> str:
        return self._service.host

    def _check(self) -> None:
        self._service.process.check()
        self._service.instances.check()

    def live_hosts(self) -> Collection[str]:
        self._check()
        return [host for host in self._world.hosts if self._world.is_up(host)]

    def owned_instance_uuids(self) -> Collection[str]:
        self._check()
        return [one.uuid for one in self._world.instances.live(self.host)]

    def node_owners(self, uuids: Collection[str]) -> Mapping[str, str]:
        self._check()
        owners = self._world.owners
        return {uuid: owners[uuid] for uuid in uuids if uuid in owners}

    def instance_places(self) -> Mapping[str, str]:
        self._check()
        live = self._world.instances.live(self.host)
        return {one.uuid: one.pool or one.node or "" for one in live}

    def instance_hosts(self, uuids: Collection[str]) -> Mapping[str, str]:
        self._check()
        live = self._world.instances.live()
        return {one.uuid: one.host for one in live if one.host and one.uuid in uuids}

    def existing_instances(self, uuids: Collection[str]) -> Collection[str]:
        self._check()
        return [one.uuid for one in self._world.instances.live() if one.uuid in uuids]

    def image_of(self, instance: virt.InstanceLike) -> virt.ImageLike | None:
        return instance.image if isinstance(instance, Instance) else None

    def tried_nodes(self, instance: virt.InstanceLike) -> Collection[str]:
        return instance.tried_nodes if isinstance(instance, Instance) else ()

    def abort_reason(self, instance: virt.InstanceLike) -> str | None:
        # A service knows that without its database.
        self._service.process.check()
        task = self._service.in_flight.get(instance.uuid)
        now = self._world.instances.rows[instance.uuid]
        if task is None:
            return None
        if now.is_deleted or now.host != self.host or now.task_state is None:
            raise exceptions.WaitCancelled(None, instance.uuid, "it is not asked for any more")
        return None if now.task_state == task else f"the instance is {now.task_state}"

    def config_drive(self, request: virt.DeployRequest) -> virt.ConfigDrive:
        system = self._world.volumes.boots(request.instance.uuid) or request.image.id
        meta_data = {"uuid": request.instance.uuid, "image": system}
        return virt.ConfigDrive(meta_data={**meta_data, "admin_pass": SECRET})


def _claim(
    world: World, move: Callable[..., object], _scheduler: object, spec: RequestSpec
) -> object:
    """Find another place for a build; takes the place of what asks the database."""
    chosen = world.choose(spec.exclude_nodes)
    if chosen is None:
        raise exceptions.NoValidHost(spec.instance_uuid, "bm", known=len(world.offers), free=0)
    place = functools.partial(world.place, chosen)
    return move(
        [types.SimpleNamespace(uuid=chosen, host=world.offers[chosen].host, columns=place)]
    )


class HostProcess:
    """One process of a compute service.

    :ivar in_flight: what is carried out, by the instance's uuid.
    """

    def __init__(self, world: World, host: str, conf: cfg.ConfigOpts, number: int) -> None:
        self.world = world
        self.host = host
        self.process = Process(f"{host}/{number}")
        self.in_flight: dict[str, TaskState] = {}
        self.driver_ready = False
        scheduler = world.scheduler
        seed = f"{world.seed} {self.process.name}"
        self.wire = Wire(
            self.process,
            host,
            world.ironic,
            scheduler,
            world.weather,
            random.Random(f"wire {seed}"),
            world.laws,
            world.stalled,
            world.log,
        )
        self.instances = Troubled(
            world.instances, lambda: world.database_weather.draw(host, scheduler.now)
        )
        retry = RetryPolicy(
            conf.ironic.api_max_retries,
            float(conf.ironic.api_retry_interval),
            clock=scheduler.clock,
            sleep=scheduler.sleep,
            rng=random.Random(f"retry {seed}"),
        )
        self.lease = world.standbys.lease_of(self)
        client = IronicClient(self.wire, retry, self.lease.sending if self.lease else None)
        interval = float(conf.ironic.api_retry_interval)
        watcher = Watcher(
            client.single_try(),
            node_filter=lambda: self.driver._site.nodes.ownership.target.node_filter(),
            interval=interval,
            clock=scheduler.clock,
            rng=random.Random(f"watcher {seed}"),
        )
        self.stopping = False
        self.driver = IronicDriver(
            conf, _VirtAPI(self), client=client, watcher=watcher,
            clock=scheduler.clock, pause=self._pause,
        )  # fmt: skip
        self.driver.lease = self.lease
        self.driver._hooks._hooks = {"operators": world.hooks} if world.hooks.are_used else {}
        for verb in ("spawn", "rebuild"):
            setattr(self.driver, verb, self._with_volumes(getattr(self.driver, verb)))
        self.driver._spawn._reservation._rng = random.Random(f"reservation {seed}")
        self.incarnation = self.process.name
        candidates = types.SimpleNamespace(claim=functools.partial(_claim, world))
        records = types.SimpleNamespace(instances=self.instances, candidates=candidates)
        self._carrying: Any = Tasks(
            conf, self.driver, records, self.incarnation, None,  # type: ignore[arg-type]
            clock=scheduler.clock,
        )  # fmt: skip
        self._power = PowerSync(host, self.driver, records)  # type: ignore[arg-type]
        self._periods = Periods(self)

    def start(self) -> None:
        """Begin with its loops, or wait for the lease."""
        self.world.scheduler.spawn(self._run, self.process)

    def stop(self) -> None:
        """End as a service does after SIGTERM: waits end, and Ironic goes on."""
        self.stopping = True
        self.driver.cleanup_host()
        # As Nova does, when it has no time left: some tasks may be in the midst of requests.
        self.world.scheduler.spawn(self.driver.let_go, self.process)

    def leave(self, code: int) -> None:
        """End at once."""
        self.world.log(f"{self.process.name} exits: {code}")
        self.world.scheduler.kill(self.process)
        self.world.scheduler.spawn(lambda: self.world.revive(self.host))
        self.process.check()

    def _with_volumes(self, act: Callable[[virt.DeployRequest], None]) -> Any:
        def deploy(request: virt.DeployRequest) -> None:
            devices = self.world.volumes.of[request.instance.uuid]
            act(dataclasses.replace(request, block_devices=devices))

        return deploy

    def _pause(self, seconds: float) -> bool:
        self.world.scheduler.sleep(seconds)
        return self.stopping

    def _run(self) -> None:
        while True:
            try:
                self.driver.init_host(self.host)
                break
            except exceptions.IronicVirtError as error:
                self.world.log(f"{self.host} can't start: {type(error).__name__}")
                if self.lease is not None:
                    self.leave(1)
                self.world.scheduler.sleep(15.0)
        # A former process of that name acts no more.
        self.world.instances.incarnations[self.host] = self.incarnation
        self.world.hosts[self.host] = self
        spawn = self.world.scheduler.spawn
        spawn(self._refreshes, self.process)
        spawn(self._powers, self.process)
        spawn(self._tasks, self.process)

    # -- the loops ------------------------------------------------------------

    def _refreshes(self) -> None:
        while not self.stopping:
            began = self.world.scheduler.now
            try:
                names = self.driver.get_available_nodes(refresh=True)
                failed = self.driver.refresh_error()
                self._report(names, began, failed)
            except exceptions.InventoryTooOld:
                self.world.withdraw(self.host)
            except exceptions.IronicVirtError as error:
                self.world.log(f"{self.host} has no refresh: {type(error).__name__}")
            self.driver_ready = True
            self.world.scheduler.sleep(REFRESH)

    def _report(self, names: Sequence[str], began: float, failed: str | None) -> None:
        """Write down what this host offers."""
        offers = {}
        for name in names:
            try:
                free = self._free(name)
            except (exceptions.NodeNotAvailable, exceptions.IronicError):
                continue
            if free is not None:
                offers[name] = Offer(self.host, free)
        world = self.world
        self.process.check()
        if not self.driver.picks_nodes():
            world.laws.reported(self.host, names, offers, began, failed)
            for name in sorted(names):
                if self.driver.rebalances_nodes() or world.owners.get(name) in (None, self.host):
                    world.own(name, self.host)
            offers = {
                name: one for name, one in offers.items() if world.owners.get(name) == self.host
            }
            mine = [name for name in sorted(world.owners) if world.owners[name] == self.host]
            for name in mine if failed is None else ():
                if name not in names and self.driver.is_node_deleted(name):
                    world.laws.said_to_be_gone(self.host, name)
                    del world.owners[name]
        world.withdraw(self.host)
        world.offers.update(offers)
        if world.has_periods:
            self._periods.run(names)

    def _free(self, name: str) -> int | None:
        if self.driver.is_pool(name):
            told = self.driver.get_inventory(name)
            users = [one for one in self.world.instances.live(self.host) if one.pool == name]
            return max(0, told.total - max(told.used, len(users)) - told.reserved)
        resource = self.driver.get_available_resource(name)
        return int(resource.available and not resource.in_use)

    def _powers(self) -> None:
        while not self.stopping:
            self.world.scheduler.sleep(POWER)
            with contextlib.suppress(DatabaseError):
                self._power.sync()

    def _tasks(self) -> None:
        while not self.stopping:
            for one in self.world.instances.live(self.host):
                task = one.task_state
                if not task or one.uuid in self.in_flight:
                    continue
                if self._carrying.is_due(one.uuid, task):
                    self.in_flight[one.uuid] = TaskState(task)
                    carry = functools.partial(self._carry, one.uuid)
                    self.world.scheduler.spawn(carry, self.process, one.uuid)
            self.world.scheduler.sleep(LOOK)

    def _carry(self, uuid: str) -> None:
        task = self.in_flight[uuid]
        instance = self.world.instances.rows[uuid]
        try:
            if (instance.host, instance.task_state) == (self.host, task):
                request_id = self.world.requests[uuid]
                instance = dataclasses.replace(instance, request_id=request_id)
                self._carrying.carry_out(BY_TASK[task], instance)
                self._carrying._delays.pop((uuid, task), None)
        except exceptions.WaitCancelled:
            self.world.log(f"{self.host} {uuid} {task} is left")
        except (TryLater, DatabaseError) as later:
            self._carrying.put_off(uuid, task, str(later))
            self.world.log(f"{self.host} {uuid} {task} again later: {later}")
        finally:
            del self.in_flight[uuid]
        self.world.log(f"{self.host} {uuid} {task} has ended")
