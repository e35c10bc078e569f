# SPDX-License-Identifier: Apache-2.0

"""A service among others: its name, its options, and a database that goes away."""

import logging
import threading
from typing import Any

import pytest

from ironic_virt import virt
from ironic_virt.compute.engine import service
from ironic_virt.compute.errors import DatabaseError, ServiceSuperseded
from tests.unit.compute.conftest import SetStage
from tests.unit.compute.crashing import CrashingRecords, Death
from tests.unit.compute.service_stage import (
    GOLD,
    ServiceStage,
    write_conf,
)


class Outage(Death):
    """When the records are out of reach."""

    lasts = False

    def call(self, name: str, method: Any, *args: Any, **kwargs: Any) -> Any:
        if self.lasts:
            raise DatabaseError("mysql+pymysql://db/x", "Connection refused")
        return method(*args, **kwargs)


@pytest.fixture
def outage() -> Outage:
    return Outage()


@pytest.fixture
def stage(set_stage: SetStage, nodes: list[str], outage: Outage) -> ServiceStage:
    return set_stage(stage={"wrap": lambda db: CrashingRecords(db, outage)}).begin()


def test_a_database_outage_is_logged_once_and_work_goes_on(stage, outage, caplog) -> None:
    uuid = stage.create()
    outage.lasts = True
    assert stage.service.troubles() == []
    with caplog.at_level(logging.INFO):
        for _ in range(3):
            stage.service.report()
            stage.service.look()
            stage.service.refresh()
            stage.service.sync_power()
        assert stage.service.troubles() == ["The records are out of reach"]
        outage.lasts = False
        stage.look()
    said = [line for line in caplog.messages if "The records are out of reach" in line]
    assert len(said) == 2, said
    assert "Connection refused" in said[0]
    assert "that is over" in said[1]
    assert stage.state(uuid) == ("active", None)


def test_a_service_that_can_not_report_stops_acting(stage, nodes, monkeypatch) -> None:
    building, waiting = stage.create(), stage.create(nodes[1])
    real = stage.virtapi.abort_reason

    def cut_off(instance: virt.InstanceLike) -> str | None:
        if stage.fake.node(nodes[0])["provision_state"] == "deploying":
            stage.fake.clock.advance(61)
        return real(instance)

    with monkeypatch.context() as patch:
        patch.setattr(stage.virtapi, "abort_reason", cut_off)
        stage.service.look()
    assert stage.state(building) == ("building", "spawning")
    stage.service.look()
    assert stage.state(waiting) == ("building", "spawning"), "nothing begins"
    stage.look()
    assert stage.state(building) == stage.state(waiting) == ("active", None)
    assert stage.ironic.provision_requests("active") == 2


def test_the_end_of_a_task_reads_no_others(stage, nodes, monkeypatch) -> None:
    uuids = [stage.create(node) for node in nodes]
    read: list[str] = []
    real_one, real_all = stage.db.instances.get, stage.db.instances.pending_tasks

    def one(uuid: str) -> Any:
        read.append(uuid)
        return real_one(uuid)

    def pending_tasks(host: str) -> Any:
        read.append("all")
        return real_all(host)

    monkeypatch.setattr(stage.db.instances, "get", one)
    monkeypatch.setattr(stage.db.instances, "pending_tasks", pending_tasks)
    stage.service.look()
    assert read == ["all", *uuids]
    assert [stage.state(uuid)[0] for uuid in uuids] == ["active"] * 3
    assert not stage.service._loops["tasks"]._woken.is_set()


def test_a_look_during_a_task_does_not_begin_it_again(stage, monkeypatch) -> None:
    uuid = stage.create()
    began: list[str] = []
    real_one, real_spawn = stage.db.instances.get, stage.service.driver.spawn

    def one(uuid: str) -> Any:
        began.append(uuid)
        return real_one(uuid)

    def spawn(request: virt.DeployRequest) -> None:
        stage.service.look()
        real_spawn(request)

    monkeypatch.setattr(stage.db.instances, "get", one)
    monkeypatch.setattr(stage.service.driver, "spawn", spawn)
    stage.service.look()
    assert began == [uuid]
    assert stage.state(uuid) == ("active", None)


def test_a_database_that_goes_during_a_task_has_it_done_again(stage, outage, monkeypatch) -> None:
    uuid = stage.create()
    real = stage.service.driver.spawn

    def spawn(*args: Any, **kwargs: Any) -> None:
        real(*args, **kwargs)
        outage.lasts = True

    monkeypatch.setattr(stage.service.driver, "spawn", spawn)
    stage.service.look()
    assert stage.state(uuid) == ("building", "spawning")
    monkeypatch.setattr(stage.service.driver, "spawn", real)
    outage.lasts = False
    stage.look(2)
    assert stage.state(uuid) == ("active", None)
    assert stage.ironic.provision_requests("active") == 1


@pytest.mark.parametrize("is_down", [False, True])
def test_a_namesake_takes_over_and_the_former_learns_so(set_stage, nodes, fake, is_down) -> None:
    former = set_stage().begin()
    former.db.services.update("compute1", forced_down=is_down)
    now = set_stage().begin()
    for round_ in (former.service.report, former.service.look):
        with pytest.raises(ServiceSuperseded):
            round_()
    uuid = former.create(nodes[0])
    now.look()
    assert now.state(uuid) == ("building", "spawning"), "the former may still be at it"
    fake.advance(3)
    now.look()
    assert now.state(uuid) == ("active", None)


def test_a_service_that_was_down_is_followed_without_waiting(set_stage, nodes, fake) -> None:
    former = set_stage().begin()
    uuid = former.create(nodes[0])
    fake.advance(61)
    now = set_stage().begin()
    now.look()
    assert now.state(uuid) == ("active", None)


def test_instances_of_others_are_left_alone(set_stage, nodes, fake) -> None:
    owner = set_stage("compute1").begin()
    other = set_stage("compute2").begin()
    uuid = owner.create(nodes[0])
    fake.requests.clear()
    other.look()
    other.service.sync_power()
    assert owner.state(uuid) == ("building", "spawning")
    assert fake.requests.mutating() == []


def test_a_build_goes_to_the_host_that_has_the_next_node(set_stage, fake) -> None:
    mine = fake.add_node(shard="a", **GOLD)
    theirs = fake.add_node(shard="b", **GOLD)
    first = set_stage("compute1", ironic={"shard_key": "a"}).begin()
    second = set_stage("compute2", ironic={"shard_key": "b"}).begin()
    fake.fail_next("deploy", "disk broken", mine)
    uuid = first.build(mine)
    assert (first.instance(uuid).host, first.instance(uuid).node) == ("compute2", theirs)
    first.look()
    assert first.state(uuid) == ("building", "spawning"), "it isn't compute1's any more"
    second.look()
    assert second.state(uuid) == ("active", None)
    first.nobody_has([mine])


def test_changed_options_hold_from_the_next_refresh(set_stage, fake, records, caplog) -> None:
    one = fake.add_node(conductor_group="one", **GOLD)
    two = fake.add_node(conductor_group="two", **GOLD)
    stage = set_stage(ironic={"conductor_group": "one"}).begin()
    assert stage.db.compute_nodes.uuids("compute1") == [one]
    write_conf(records, "compute1", ironic={"conductor_group": "two"})
    with caplog.at_level(logging.INFO):
        stage.service.reload()
    assert "Reloaded the files; changed: [ironic] conductor_group" in caplog.messages
    stage.service.refresh()
    stage.service.report()
    assert set(stage.db.compute_nodes.uuids("compute1")) == {one, two}
    assert not stage.db.compute_nodes.get(one).available
    assert stage.db.services.get("compute1").conductor_group == "two"


def test_a_service_that_drains_begins_nothing(stage: ServiceStage) -> None:
    uuid = stage.create()
    stage.service.stop(0)
    stage.service.look()
    assert stage.state(uuid) == ("building", "spawning")
    assert stage.fake.requests.mutating() == []


def test_the_end_does_not_wait_for_a_database_that_hangs(stage, monkeypatch) -> None:
    waits, comes_back = [], threading.Event()
    monkeypatch.setattr(service, "CANCEL_SECONDS", 0.1)
    monkeypatch.setattr(stage.db.services, "leave", lambda *_: waits.append(comes_back.wait(5)))
    stage.service.stop(0)
    assert waits == []
    comes_back.set()


def test_what_only_a_newer_version_can_do_blocks_nothing(stage, nodes) -> None:
    strange, plain = stage.create(), stage.create(nodes[1])
    with stage.db.engine.begin() as connection:
        connection.exec_driver_sql(
            f"UPDATE instances SET task_state = 'levitating' WHERE uuid = '{strange}'"
        )
    stage.look(3)
    assert stage.state(plain) == ("active", None)
    assert stage.state(strange) == ("building", "levitating")
