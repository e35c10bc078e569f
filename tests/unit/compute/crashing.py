# SPDX-License-Identifier: Apache-2.0

"""A process that dies at a call of our choice: to its records, or to Ironic."""

import shutil
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from oslo_config import cfg

from ironic_virt.baremetal.http.connection import Answer, Channel
from ironic_virt.compute.states import TaskState
from ironic_virt.testing.fake_ironic import FakeIronic
from tests import depth
from tests.crashing import Crash, CrashingChannel
from tests.unit.compute.conftest import DURATIONS
from tests.unit.compute.service_stage import GOLD, ServiceStage

MOST_ROUNDS = 6

PARTS = (
    "services",
    "compute_nodes",
    "pools",
    "claims",
    "instances",
    "candidates",
)


class Death:
    """When a process dies, and whether it has.

    It dies before a call; to die after one is to die before the next.

    :param at: the call at which it dies, counted from 1 after :meth:`begin`; 0: never.
    :param on_call: called before each of these calls.
    """

    def __init__(self, at: int = 0, on_call: Callable[[], None] = lambda: None) -> None:
        self._at = at
        self._on_call = on_call
        self._calls = 0
        self._channel: CrashingChannel | None = None

    def begin(self, channel: CrashingChannel) -> None:
        """Count calls from now on, those of this channel as well."""
        self._channel = channel
        channel._channel = _CountedChannel(channel._channel, self)

    def call(self, name: str, method: Any, *args: Any, **kwargs: Any) -> Any:
        """Do it, or die."""
        if self._channel is not None:
            self._channel.check()
            self._calls += 1
            self._on_call()
            if self._calls == self._at:
                self._channel.died_at = name
                self._channel.dead = True
                self._channel.check()
        return method(*args, **kwargs)


class _CountedChannel:
    def __init__(self, channel: Channel, death: Death) -> None:
        self._channel = channel
        self._death = death

    def send(self, method: str, path: str, **request: Any) -> Answer:
        send = self._channel.send
        answer: Answer = self._death.call(f"{method} {path}", send, method, path, **request)
        return answer


class CrashingRecords:
    """Records at a call to which the process dies; the rest is theirs."""

    def __init__(self, database: Any, death: Death) -> None:
        self._database = database
        for part in PARTS:
            if hasattr(database, part):
                setattr(self, part, _Part(part, getattr(database, part), death))


class _Part:
    def __init__(self, name: str, part: Any, death: Death) -> None:
        self._name = name
        self._part = part
        self._death = death

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._part, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            return self._death.call(f"{self._name}.{name}", method, *args, **kwargs)

        return call


Dying = tuple[str, ServiceStage, str]
Prepare = Callable[[FakeIronic], object]


def prepare_nothing(_fake: FakeIronic) -> None:
    """All goes well."""


def a_deployment_fails(fake: FakeIronic) -> None:
    """Whichever node is the first."""
    fake.fail_next("deploy", "disk broken")


def settled(stage: ServiceStage, uuid: str, where: str) -> list[str]:
    """See that nothing is left to do, and that Ironic has the instance where the records do.

    :returns: its node while it lives.
    """
    found = stage.instance(uuid)
    assert (found.task_state, found.arguments) == (None, {}), where
    node = [found.node] if found.node and not found.is_deleted else []
    carrying = [one["uuid"] for one in stage.fake.nodes() if one["instance_uuid"] == uuid]
    assert carrying == node, where
    return node


class Deaths:
    """Every service that died during a task: at the first call, the second, ...

    To die before a call is the same case as to die before the previous call, if nothing
    has changed in between, neither in the records nor in Ironic.  Such a call is left
    out, unless the run is a nightly one.

    :param directory: the one of the records, which are empty.
    :param pool: where the instance is built, if not on the first node.
    :param arguments: what tasks are asked for with.
    """

    def __init__(
        self,
        directory: Path,
        conf: cfg.ConfigOpts,
        pool: str | None = None,
        arguments: Mapping[TaskState, dict[str, Any]] | None = None,
    ) -> None:
        self._directory = directory
        self._conf = conf
        self._pool = pool
        self._arguments = arguments or {}
        shutil.copyfile(directory / "records.sqlite", directory / "empty")

    def __call__(self, *tasks: TaskState, prepare: Prepare = prepare_nothing) -> Iterator[Dying]:
        """Die in the build of an instance, or in the last of these tasks, and be started again.

        :returns: where it died, the service after its restart and some rounds, the
            instance.
        """

        def begin(stage: ServiceStage) -> str:
            uuid = stage.create(pool=self._pool)
            prepare(stage.fake)
            for task in tasks:
                stage.look()
                stage.db.instances.request(uuid, task, self._arguments.get(task))
            return uuid

        for at in self._points(begin):
            stage, uuid, crash = self._life(self._new_world(), begin, Death(at))
            assert crash is not None, f"it should have died at call {at}"
            stage.db.close()
            again = ServiceStage(stage.fake, self._conf).begin()
            for _ in range(MOST_ROUNDS):
                again.look()
                if again.instance(uuid).task_state is None:
                    break
                again.fake.advance(60)
                again.service.report()
            yield f"died at call {at}, {crash}", again, uuid
            again.end()

    def _points(self, begin: Callable[[ServiceStage], str]) -> Iterable[int]:
        """The calls to die at, found in a life in which it does not die."""
        fake = self._new_world()
        path = self._directory / "records.sqlite"
        points: list[int] = []
        calls, before = 0, None

        def look() -> None:
            nonlocal calls, before
            calls += 1
            (version,) = watching.execute("PRAGMA data_version").fetchone()
            changes = sum(entry.method != "GET" for entry in fake.requests)
            now = (version, changes, fake.nodes(), fake.allocations())
            if now != before:
                points.append(calls)
            before = now

        watching = sqlite3.connect(path, check_same_thread=False)
        try:
            stage, _, crash = self._life(fake, begin, Death(on_call=look))
        finally:
            watching.close()
        stage.db.close()
        assert crash is None
        assert len(points) > 2, "it should be able to die in between"
        return depth.choose(points, range(1, calls + 1))

    def _new_world(self) -> FakeIronic:
        shutil.copyfile(self._directory / "empty", self._directory / "records.sqlite")
        fake = FakeIronic(durations=DURATIONS, power_follows_deploy=True)
        fake.add_nodes(3, **GOLD, driver_info={"takes_nmi": True})
        return fake

    def _life(
        self, fake: FakeIronic, begin: Callable[[ServiceStage], str], death: Death
    ) -> tuple[ServiceStage, str, Crash | None]:
        stage = ServiceStage(
            fake, self._conf, wrap=lambda database: CrashingRecords(database, death)
        ).begin()
        uuid = begin(stage)
        fake.requests.clear()
        death.begin(stage.ironic.channel)
        try:
            stage.look()
            stage.look()
        except Crash as crash:
            return stage, uuid, crash
        finally:
            stage.ironic.driver.cleanup_host()
        return stage, uuid, None
