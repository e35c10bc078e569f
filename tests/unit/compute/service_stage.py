# SPDX-License-Identifier: Apache-2.0

"""A stage for stories about the compute service: the whole of it, but for its threads.

The records are a real database in a file, Ironic is the fake one in process, and
the clocks are the fake's.  A story says when a round of each loop takes place; a
task is carried out within the round that begins it.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import datetime
import itertools
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from oslo_config import cfg

from ironic_virt import conf as options
from ironic_virt import virt
from ironic_virt.compute.api import Requests
from ironic_virt.compute.db import Database, records
from ironic_virt.compute.engine.service import Service
from ironic_virt.compute.errors import DatabaseError
from ironic_virt.compute.states import TaskState
from ironic_virt.conf import database as database_options
from ironic_virt.driver import IronicDriver
from ironic_virt.testing.fake_ironic import FakeIronic
from tests.records import instance_of
from tests.unit.driver import stage as driver_stage
from tests.unit.driver.stage import IMAGE, URL

FLAVOR = virt.Flavor("bm", extra_specs={"resources:CUSTOM_GOLD": "1"})
GOLD: dict[str, Any] = {"resource_class": "gold", "ports": 1}
"""A node that does for it."""
EPOCH = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
_uuids = itertools.count(1)


def new_uuid() -> str:
    return f"6d2b4f02-0000-4000-8000-{next(_uuids):012d}"


def write_conf(directory: Path, host: str, **sections: dict[str, Any]) -> Path:
    """Write options as an operator would, over those of an earlier time."""
    wanted: dict[str, dict[str, Any]] = {
        "DEFAULT": {"host": host},
        "database": {
            "connection": f"sqlite:///{directory / 'records.sqlite'}",
            # Nothing has to outlive the host.
            "sqlite_synchronous": False,
        },
        "ironic": {"auth_type": "none", "endpoint_override": URL},
    }
    for section, values in sections.items():
        wanted.setdefault(section, {}).update(values)
    lines = []
    for section, values in wanted.items():
        lines += [f"[{section}]", *(f"{name} = {value}" for name, value in values.items())]
    path = directory / f"{host}.conf"
    path.write_text("\n".join(lines) + "\n")
    return path


def make_conf(
    directory: Path, host: str = "compute1", **sections: dict[str, Any]
) -> cfg.ConfigOpts:
    """Options that are read from a file."""
    conf = cfg.ConfigOpts()
    options.register_opts(conf)
    database_options.register_opts(conf)
    options.read(conf, [str(write_conf(directory, host, **sections))])
    options.check(conf)
    database_options.check(conf)
    return conf


class Inline(concurrent.futures.Executor):
    """Does what it is given, at once and in the caller's thread."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        done: concurrent.futures.Future[Any] = concurrent.futures.Future()
        done.set_result(fn(*args, **kwargs))
        return done


class ServiceStage:
    """A compute service that has not begun yet.

    :param wrap: puts something between the service and its records.
    """

    def __init__(
        self,
        fake: FakeIronic,
        conf: cfg.ConfigOpts,
        *,
        wrap: Callable[[Database], Any] = lambda database: database,
    ) -> None:
        self.fake = fake
        self.conf = conf
        self.db = Database(conf, clock=self.now)
        self.fatal: list[Exception] = []

        def load_driver(conf: cfg.ConfigOpts, virtapi: virt.VirtAPI) -> IronicDriver:
            self.virtapi: Any = virtapi
            self.ironic = driver_stage.Stage(fake, conf, virtapi)  # type: ignore[arg-type]
            return self.ironic.driver

        self.service = Service(
            conf,
            wrap(self.db),
            version="1.2.3",
            on_fatal=self.fatal.append,
            load_driver=load_driver,
            executor=Inline(),
            clock=fake.clock.now,
        )

    def now(self) -> datetime.datetime:
        return EPOCH + datetime.timedelta(seconds=self.fake.clock.now())

    def begin(self) -> ServiceStage:
        """Start it, all but its threads: the records of its nodes are there."""
        self.service.prepare()
        self.service.refresh()
        return self

    def end(self) -> None:
        """Stop it."""
        self.service.stop(0)
        self.db.close()

    # -- what somebody wants --------------------------------------------------

    @property
    def nodes(self) -> list[str]:
        """The nodes that Ironic has, in the order in which they came."""
        return [node["uuid"] for node in self.fake.nodes()]

    @property
    def requests(self) -> Requests:
        """What a user asks."""
        return Requests(self.conf, self.db)

    def pool(self, name: str) -> records.NodePool:
        """The record of a pool."""
        return next(pool for pool in self.db.pools.list() if pool.name == name)

    def create(self, node: str | None = None, *, pool: str | None = None, **fields: Any) -> str:
        """Request an instance on a node, by default the first one, or in a pool.

        :returns: its uuid.
        """
        values = {"uuid": new_uuid(), "flavor": FLAVOR, "image": IMAGE, "display_name": "web"}
        new = records.NewInstance(**(values | fields))  # type: ignore[arg-type]
        place = self.pool(pool) if pool else self.db.compute_nodes.get(node or self.nodes[0])
        self.db.instances.create_several([(new, place)])
        return new.uuid

    def build(self, node: str | None = None, **fields: Any) -> str:
        """Want an instance, as :meth:`create` does, and have the service build it."""
        uuid = self.create(node, **fields)
        self.look()
        return uuid

    def do(self, uuid: str, task: TaskState, arguments: dict[str, Any] | None = None) -> None:
        """Want a task of an instance, and have the service carry it out."""
        self.db.instances.request(uuid, task, arguments)
        self.look()

    def ask(self, verb: str, uuid: str, **arguments: Any) -> None:
        """Ask as a user does, and have the service carry it out."""
        self.requests.ask(verb, uuid, **arguments)
        self.look()

    # -- what became of it ----------------------------------------------------

    def instance(self, uuid: str) -> records.Instance:
        """Its record, or what stands for one that is deleted."""
        return instance_of(self.db, uuid)

    def state(self, uuid: str) -> tuple[str, str | None]:
        found = self.instance(uuid)
        return found.vm_state, found.task_state

    def fault(self, uuid: str) -> str:
        fault = self.db.instances.get(uuid).fault
        assert fault is not None
        return fault.message

    def look(self, rounds: int = 1) -> None:
        """Have the service look what is wanted, so many times, a minute apart."""
        for number in range(rounds):
            if number:
                self.fake.advance(60)
            with contextlib.suppress(DatabaseError):
                self.service.report()
            self.service.look()

    def nobody_has(self, nodes: Iterable[str], *, claimed: bool = False) -> None:
        """See that nothing of any instance is on these nodes.

        :param claimed: there may be a claim on them.
        """
        untouched = {"instance_uuid": None, "instance_info": {}, "instance_name": None}
        for node in nodes:
            trace = self.ironic.trace(node)
            assert trace == {**trace, **untouched, "vifs": [], "provision_state": "available"}
            assert claimed or self.db.compute_nodes.get(node).instance_uuid is None


def empty_records(template: Path, directory: Path) -> None:
    """Give a directory a database with all tables, made only once."""
    if not template.exists():
        template.parent.mkdir(parents=True, exist_ok=True)
        database = Database(make_conf(template.parent, "template"))
        database.open(make=True)
        database.close()
        (template.parent / "records.sqlite").rename(template)
    shutil.copyfile(template, directory / "records.sqlite")
