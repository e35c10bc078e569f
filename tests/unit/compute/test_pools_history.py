# SPDX-License-Identifier: Apache-2.0

"""After any history: what services report as free is what is free in Ironic."""

import contextlib
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from ironic_virt import virt
from ironic_virt.compute.db.records import NewInstance
from ironic_virt.compute.states import TaskState
from ironic_virt.exceptions import NoValidHost
from ironic_virt.testing.fake_ironic import FakeIronic
from tests import depth
from tests.unit.compute.conftest import DURATIONS
from tests.unit.compute.service_stage import IMAGE, ServiceStage, make_conf, new_uuid

HOSTS = ("a", "b", "c")
CLASSES = ("gold", "silver")
MOST_NODES = 8

STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["build", "build", "add"]), st.sampled_from(CLASSES)),
        st.tuples(st.just("delete"), st.integers(0, 9)),
        st.tuples(st.just("maintain"), st.integers(0, 9)),
        st.tuples(st.sampled_from(["look", "refresh", "die", "restart"]), st.sampled_from(HOSTS)),
    ),
    min_size=6,
    max_size=18,
)


class Site:
    """Three services with common records and, but for their shards, common nodes."""

    def __init__(self, directory: Path, capacity: str) -> None:
        self.fake = FakeIronic(durations=DURATIONS, power_follows_deploy=True)
        self.capacity = capacity
        self._directory = directory
        self.stages: dict[str, ServiceStage] = {}
        for number in range(4):
            self.add(CLASSES[number % 2])
        for host in HOSTS:
            self.restart(host)

    def add(self, resource_class: str) -> None:
        count = len(self.fake.nodes())
        if count < MOST_NODES:
            shard = HOSTS[count % len(HOSTS)] if self.capacity == "own" else None
            self.fake.add_node(resource_class=resource_class, ports=1, shard=shard)

    def restart(self, host: str) -> None:
        """Start a service, or another process of its name."""
        self.die(host)
        options = {"node_selection": "ironic"}
        if self.capacity == "own":
            options["shard_key"] = host
        else:
            options["capacity"] = self.capacity
        conf = make_conf(self._directory, host, ironic=options)
        self.stages[host] = ServiceStage(self.fake, conf).begin()

    def die(self, host: str) -> None:
        if host in self.stages:
            stage = self.stages.pop(host)
            stage.ironic.driver.cleanup_host()
            stage.db.close()

    def each(self, do: Callable[[ServiceStage], object]) -> None:
        for stage in self.stages.values():
            do(stage)

    def step(self, name: str, what: str | int) -> None:
        if name == "restart":
            self.restart(str(what))
        elif name == "die":
            if len(self.stages) > 1:
                self.die(str(what))
                # Until nobody takes it for being up.
                self.advance()
        elif name == "add":
            self.add(str(what))
        elif name == "maintain":
            nodes = self.fake.nodes()
            node = nodes[int(what) % len(nodes)]
            self.fake.set_node(node["uuid"], maintenance=not node["maintenance"])
        elif name in ("look", "refresh"):
            if str(what) in self.stages:
                getattr(self.stages[str(what)].service, name)()
        else:
            self.ask(name, what)

    def ask(self, name: str, what: str | int) -> None:
        stage = next(iter(self.stages.values()))
        if name == "build":
            wants = {f"resources:CUSTOM_{str(what).upper()}": "1"}
            new = NewInstance(new_uuid(), virt.Flavor("bm", extra_specs=wants), IMAGE)
            with contextlib.suppress(NoValidHost):
                stage.requests.create(new)
        elif instances := stage.db.instances.list():
            one = instances[int(what) % len(instances)]
            stage.db.instances.request(one.uuid, TaskState.DELETING)

    def advance(self) -> None:
        for _ in range(2):
            self.fake.advance(61)
            self.each(lambda stage: stage.service.report())

    def settle(self) -> None:
        """Let all living services do their work and refresh."""
        for _ in range(6):
            self.advance()
            self.each(lambda stage: stage.service.look())
        self.advance()
        for _ in range(2):
            self.each(lambda stage: stage.service.refresh())

    # -- what holds in the end ------------------------------------------------

    def check(self) -> None:
        stage = next(iter(self.stages.values()))
        instances = stage.db.instances.list()
        live = [one for one in instances if one.host in self.stages]
        assert [one.uuid for one in live if one.task_state is not None] == []
        carried = {
            node["instance_uuid"]: node["uuid"]
            for node in self.fake.nodes()
            if node["instance_uuid"]
        }
        placed = {one.uuid: one.node for one in live if one.node is not None}
        assert placed.items() <= carried.items()
        pools = stage.db.pools.list()
        for pool in pools:
            assert pool.used == sum(one.pool == pool.name for one in instances)
            if pool.host in self.stages:
                assert pool.used + pool.reserved <= pool.total
        for resource_class in CLASSES:
            reported = [
                pool.free
                for pool in pools
                if pool.host in self.stages and pool.resource_class == resource_class
            ]
            free = [
                node
                for node in self.fake.nodes()
                if node["resource_class"] == resource_class
                and node["provision_state"] == "available"
                and not (node["instance_uuid"] or node["maintenance"])
                and (self.capacity != "own" or node["shard"] in self.stages)
            ]
            if self.capacity == "total":
                assert reported == [len(free)] * len(reported), resource_class
            else:
                assert sum(reported) == len(free), resource_class


@pytest.mark.parametrize("capacity", ["own", "total"])
def test_what_is_reported_free_is_free(capacity: str, records: Path) -> None:
    shutil.copyfile(records / "records.sqlite", records / "empty")

    @settings(
        max_examples=depth.choose(4, 30),
        # To find a shorter story would take many times as long.
        phases=[Phase.generate],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(steps=STEPS)
    def story(steps: list[tuple[str, str | int]]) -> None:
        shutil.copyfile(records / "empty", records / "records.sqlite")
        site = Site(records, capacity)
        try:
            for name, what in steps:
                site.step(name, what)
            site.settle()
            site.check()
        finally:
            for host in HOSTS:
                site.die(host)

    story()
