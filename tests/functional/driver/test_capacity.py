# SPDX-License-Identifier: Apache-2.0

"""What several services report as free is what is free, whatever happens to them."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ironic_virt.testing.fake_ironic import FakeIronicServer
from tests.capacity import Cloud
from tests.integration.services import Operator

HOSTS = ("compute1", "compute2", "compute3")
STEPS = 60
SEED = int(os.environ.get("IRONIC_VIRT_TEST_SEED", "1"))

MakeCloud = Callable[..., Cloud]


@pytest.fixture
def quick_server(fake_ironic_server: FakeIronicServer) -> FakeIronicServer:
    """One where everything takes no time."""
    return fake_ironic_server


@pytest.fixture
def make_cloud(tmp_path: Path, quick_server: FakeIronicServer) -> Iterator[MakeCloud]:
    """Services with these options each; they are stopped at the end."""
    made: list[Cloud] = []

    def make(options: dict[str, dict[str, Any]]) -> Cloud:
        ironic: Any = SimpleNamespace(url=quick_server.url)
        cloud = Cloud(tmp_path, quick_server.url, Operator(ironic), ["gold", "silver"], options)
        made.append(cloud)
        return cloud

    yield make
    for cloud in made:
        cloud.stop_all()


class History:
    """Things that happen at random, and the same each time."""

    def __init__(self, cloud: Cloud, server: FakeIronicServer, more: dict[str, Any]) -> None:
        self.rng = random.Random(SEED)
        self.cloud = cloud
        self.fake = server.fake
        self._more = more
        self.done: list[str] = []

    def step(self) -> None:
        """Let one thing happen that can."""
        ways = (self.boot, self.boot, self.delete, self.maintain, self.add, self.switch)
        while not (told := self.rng.choice(ways)()):
            pass
        self.done.append(told)

    def boot(self) -> str | None:
        """Where there is room, as a scheduler would."""
        kind = self.rng.choice(self.cloud.classes)
        offered = self.cloud.offered()[kind]
        rooms = sorted(host for host, number in offered.items() if number)
        if not rooms:
            return None
        host = self.rng.choice(rooms)
        self.cloud.boot(host, kind)
        return f"boot {kind} on {host}"

    def delete(self) -> str | None:
        mine = [
            one
            for one in self.cloud.instances.values()
            if self.cloud.records.hosts[one.uuid] in self.cloud.services
        ]
        if not mine:
            return None
        instance = self.rng.choice(mine)
        self.cloud.delete(instance)
        return f"delete one of {instance.node}"

    def maintain(self) -> str:
        nodes = sorted(self.fake.nodes(), key=lambda node: node["name"] or node["uuid"])
        node = self.rng.choice(nodes)
        self.fake.set_node(node["uuid"], maintenance=not node["maintenance"])
        return f"maintenance {not node['maintenance']}"

    def add(self) -> str | None:
        if len(self.fake.nodes()) > 30:
            return None
        kind = self.rng.choice(self.cloud.classes)
        self.fake.add_node(resource_class=kind, **self._more)
        return f"a new {kind}"

    def switch(self) -> str:
        host = self.rng.choice(HOSTS)
        if host not in self.cloud.services:
            self.cloud.start(host)
            return f"{host} up"
        if len(self.cloud.services) == 1:
            return "nothing"
        self.cloud.stop(host)
        return f"{host} down"


def test_on_common_nodes(make_cloud: MakeCloud, quick_server: FakeIronicServer) -> None:
    for kind, number in (("gold", 7), ("silver", 4)):
        quick_server.fake.add_nodes(number, resource_class=kind)
    cloud = make_cloud({host: {"capacity": "total"} for host in HOSTS})
    history = History(cloud, quick_server, {})
    cloud.check(everywhere=True)
    for _ in range(STEPS):
        history.step()
        try:
            cloud.check(everywhere=True)
        except AssertionError as error:
            error.add_note(f"IRONIC_VIRT_TEST_SEED={SEED}: {history.done}")
            raise
    assert any("down" in one for one in history.done)
    assert any("boot" in one for one in history.done)


def test_each_on_its_own_nodes(make_cloud: MakeCloud, quick_server: FakeIronicServer) -> None:
    for number, host in enumerate(HOSTS, start=1):
        quick_server.fake.add_nodes(number, resource_class="gold", shard=host)
        quick_server.fake.add_nodes(2, resource_class="silver", shard=host)
    cloud = make_cloud({host: {"capacity": "own", "shard_key": host} for host in HOSTS})
    assert cloud.check()["gold"] == {"compute1": 1, "compute2": 2, "compute3": 3}
    first = cloud.boot("compute3", "gold")
    cloud.boot("compute1", "silver")
    assert cloud.check()["gold"] == {"compute1": 1, "compute2": 2, "compute3": 2}
    cloud.delete(first)
    assert cloud.check()["gold"] == {"compute1": 1, "compute2": 2, "compute3": 3}
