# SPDX-License-Identifier: Apache-2.0

"""One run: a seed's deployment in a seed's storm, and whether it has settled afterwards."""

import collections
import contextlib
import dataclasses
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import sqlalchemy as sa

from ironic_virt.compute import errors
from ironic_virt.compute.db import Database
from ironic_virt.conf import database as database_options
from ironic_virt.testing import fault_proxy
from ironic_virt.testing.fault_proxy import FaultProxy
from tests import databases
from tests.chaos import laws
from tests.chaos.conductors import Conductors
from tests.chaos.disk import Disk, small
from tests.chaos.nodes import Nodes
from tests.chaos.planted import Service
from tests.chaos.users import Users
from tests.chaos.weather import Connections, Deaths, Sky
from tests.simulation.history import History
from tests.simulation.layouts import LAYOUTS, Layout
from tools import real_ironic

_NAMES = ("shards", "pools by shard", "ring", "same shard")
CHOSEN = tuple(next(one for one in LAYOUTS if one.name == name) for name in _NAMES)
"""Of each seed the one whose turn it is: without conductor groups, with more than one host."""

_DELAYS = {"deploy": "1,6", "power": "0,1", "rescue": "0,2", "boot": "0,1"}
_STEP = 0.1
_PACE = 0.7


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What a run has shown.

    :ivar findings: what was broken, in sentences.
    :ivar settled: how many seconds that took after the last fault.
    :ivar requests: that Ironic was sent; ``operations``: in histories.
    """

    seed: int
    layout: str
    findings: tuple[str, ...]
    seconds: float
    settled: float
    requests: int
    operations: int
    told: collections.Counter[str]
    faults: collections.Counter[str]


class World:
    """The parts of one run.

    :param directory: for files and logs.
    :param ironic: whose nodes are all ours.
    :param bound: seconds in which all settles after the last fault.
    """

    def __init__(
        self,
        seed: int,
        directory: Path,
        ironic: real_ironic.RealIronic,
        proxy: FaultProxy,
        server: databases.Server,
        url: str,
        bound: float,
    ) -> None:
        self.layout: Layout = CHOSEN[seed % len(CHOSEN)]
        self._began = time.monotonic()
        self._bound = bound
        self._directory = directory
        self.history = History()
        self._proxy = proxy
        self.nodes = Nodes(ironic.url)
        self._make_nodes(ironic, random.Random(f"nodes {seed}"))
        self.pristine = self.nodes.traces()
        self.services = [
            self._service(directory, index, url) for index in range(len(self.layout.hosts))
        ]
        conf = database_options.load([str(self.services[0].config)])
        self.db = Database(conf)
        self.db.open(make=True)
        self.sky = Sky(random.Random(f"sky {seed}"), proxy, self.now)
        deaths = random.Random(f"deaths {seed}")
        self.deaths = Deaths(deaths, "service", self.services, self.now, self._log)
        self.conductors = Conductors(
            random.Random(f"conductors {seed}"),
            *(ironic.conductors, self.nodes, self.now, self._log),
        )
        name = str(sa.make_url(url).database)
        struck = random.Random(f"connections {seed}")
        self.database: Connections | Disk
        if server.kind == databases.SQLITE:
            self.database = Disk(struck, Path(name).parent, self.now, self._log)
        else:
            self.database = Connections(struck, server, name, self.now)
        users = random.Random(f"users {seed}")
        self.users = Users(
            users, conf, self.db, self.nodes, self.history, len(self.pristine), self.now
        )

    def now(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self._began

    def _log(self, line: str) -> None:
        self.history.add(self.now(), line)

    def _make_nodes(self, ironic: real_ironic.RealIronic, rng: random.Random) -> None:
        homes = self.layout.homes
        for index, (shard, group) in enumerate(homes):
            template = real_ironic.NodeTemplate(
                resource_class="gold", shard=shard, conductor_group=group, ports=2
            )
            count = rng.randint(6, 8) // len(homes) + 1
            name = f"node-{index}-{{}}"
            real_ironic.create_nodes(ironic, count, template, name=name, seed=index)

    def _service(self, directory: Path, index: int, url: str) -> Service:
        host = f"compute{index + 1}"
        ironic = {"timeout": 10, "api_max_retries": 10, **self.layout.hosts[index]}
        compute = {"resource_refresh_interval": 2}
        return Service(*(directory, host, url, self._proxy.url), ironic=ironic, compute=compute)

    # -- the run --------------------------------------------------------------

    def storm(self, seconds: float) -> None:
        """Let all of it happen, for so long."""
        for one in self.services:
            one.start()
        count = len(self.pristine)
        self._until("its nodes are offered", lambda: laws.free(self.db) == count)
        end = self.now() + seconds
        while self.now() < end:
            for one in (self.sky, self.deaths, self.conductors, self.database):
                one.act()
            self.users.act(_PACE)
            self.users.listen()
            time.sleep(_STEP)
        self._log("the last fault")
        self.sky.clear()
        self.deaths.end()
        self.conductors.end()
        self.database.end()

    def settle(self) -> Iterator[str]:
        """Wait until nothing is left to do, see that the laws hold, delete all, and see again.

        :returns: what is broken, in sentences.
        """
        if not self._until("all has settled", self._is_quiet):
            busy = [(one.uuid, one.task_state) for one in self.db.instances.list()]
            yield f"13 liveness: not all has settled within {self._bound:.0f} s: {busy}"
        yield from laws.settled(self.db, self.nodes, self.users)
        for _ in range(3):
            if not self.users.delete_all():
                break
            self._until("all is deleted", self._is_quiet)
        self.nodes.repair()
        count = len(self.pristine)
        self._until("all nodes are at rest", self._is_quiet)
        if not self._until("all are offered", lambda: laws.free(self.db) == count):
            yield f"3 vanished: {laws.free(self.db)} of {count} free nodes are offered in the end"
        yield from laws.nothing_is_left(self.db, self.nodes, self.pristine)
        for one in self.services:
            one.kill()
        yield from laws.logs(self.services)
        yield from (f"history: {one}" for one in self.history.unexplained())

    def _is_quiet(self) -> bool:
        self.users.listen()
        if not self.conductors.are_up:
            return False
        self.conductors.repair()
        if not self.users.is_idle or any(one.task_state for one in self.db.instances.list()):
            return False
        return self.nodes.are_at_rest

    def _until(self, what: str, is_so: Callable[[], bool]) -> bool:
        """Wait for it; whether it came within the bound."""
        bound = self.now() + self._bound
        while self.now() < bound:
            with contextlib.suppress(errors.DatabaseError):
                if is_so():
                    self._log(what)
                    return True
            time.sleep(_STEP)
        self._log(f"not: {what}")
        return False

    def close(self) -> None:
        """End all that was started."""
        self.conductors.keep_logs(self._directory)
        for one in self.services:
            one.kill()
        self.database.end()
        self.db.close()


def run(
    seed: int, seconds: float, directory: Path, database: str, bound: float, conductors: int
) -> Outcome:
    """Run one seed.

    :param seconds: of faults.
    :param directory: where histories and logs stay.
    :param database: the kind of the services' own; that of Ironic is MariaDB.
    :param bound: seconds in which all settles after the last fault.
    :param conductors: of Ironic's; with more than one, these die, too.
    :raises NoDisk: an SQLite database needs one that can be filled.
    """
    with contextlib.ExitStack() as stack:
        options = real_ironic.Options(delays=_DELAYS, conductors=conductors)
        ironic = stack.enter_context(real_ironic.RealIronic(options, database=real_ironic.MARIADB))
        proxy = stack.enter_context(FaultProxy(ironic.url, remember=1))
        server = stack.enter_context(databases.server(database))
        files = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="chaos-")))
        if database == databases.SQLITE:
            files = stack.enter_context(small(files))
        url = stack.enter_context(server.fresh(files))
        # It strikes each request, and does nothing.
        counted = proxy.add(fault_proxy.Delay(0))
        world = World(seed, directory, ironic, proxy, server, url, bound)
        stack.callback(world.close)
        try:
            world.storm(seconds)
            ended = world.now()
            findings = tuple(world.settle())
        finally:
            (directory / "history.txt").write_text("\n".join(world.history.lines) + "\n")
        met = (one.met for one in (world.sky, world.deaths, world.conductors, world.database))
        faults = sum(met, collections.Counter[str]())
        return Outcome(
            *(seed, world.layout.name, findings, seconds, world.now() - ended),
            requests=counted.hits,
            operations=sum(map(len, world.history.operations.values())),
            told=world.users.told,
            faults=faults,
        )
