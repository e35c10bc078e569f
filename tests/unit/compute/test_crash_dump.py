# SPDX-License-Identifier: Apache-2.0

"""Stories of NMIs in the reference service: each is sent once at most."""

from __future__ import annotations

from typing import Any

import pytest

from ironic_virt import exceptions, virt
from ironic_virt.compute.errors import ConflictingRequest, DatabaseUnreachable
from ironic_virt.compute.requests import Requests
from ironic_virt.compute.states import TaskState, VmState
from ironic_virt.testing.fake_ironic import FakeIronic
from tests.unit.compute.conftest import SetStage
from tests.unit.compute.service_stage import ServiceStage


@pytest.fixture
def node(fake: FakeIronic) -> str:
    return fake.add_node(resource_class="gold", ports=1, driver_info={"takes_nmi": True})


@pytest.fixture
def stage(set_stage: SetStage, node: str) -> ServiceStage:
    return set_stage().begin()


@pytest.fixture
def uuid(stage: ServiceStage, node: str) -> str:
    """An instance that is active, on a node that takes an NMI."""
    uuid = stage.create(node)
    stage.look()
    stage.fake.advance(60)
    stage.service.report()
    return uuid


def ask(stage: ServiceStage, uuid: str) -> None:
    Requests(stage.conf, stage.db).trigger_crash_dump(uuid)


def sent(stage: ServiceStage) -> list[int | None]:
    return [entry.status for entry in stage.fake.requests.matching("PUT", "/inject_nmi$")]


def message(stage: ServiceStage, uuid: str) -> str | None:
    """How the last thing that was asked for ended."""
    action = stage.db.actions.list(uuid)[-1]
    assert (action.action, action.finish_time is None) == ("trigger_crash_dump", False)
    return action.message


def test_one_is_sent_for_each_request(stage: ServiceStage, uuid: str) -> None:
    for number in (1, 2):
        ask(stage, uuid)
        assert stage.state(uuid) == ("active", "triggering-crash-dump")
        stage.look(2)
        assert (stage.state(uuid), message(stage, uuid)) == (("active", None), None)
        assert sent(stage) == [204] * number


def test_it_is_noted_before_it_is_sent(
    stage: ServiceStage, uuid: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted = []

    def trigger(instance: virt.InstanceLike) -> None:
        noted.append(stage.db.instances.crash_dump_attempt(instance.uuid))
        noted.append(stage.instance(instance.uuid).progress_step)

    monkeypatch.setattr(stage.ironic.driver, "trigger_crash_dump", trigger)
    ask(stage, uuid)
    stage.look()
    assert noted[0] is not None
    assert noted[1] == "injecting an NMI"
    assert stage.db.instances.crash_dump_attempt(uuid) is None


def test_what_may_have_been_sent_is_not_sent_again(stage: ServiceStage, uuid: str) -> None:
    ask(stage, uuid)
    assert stage.db.instances.begin_crash_dump(uuid, "a process that died") is not None
    # What it may have led to is no reason to say that none was sent.
    stage.fake.set_node(str(stage.instance(uuid).node), power_state="power off")
    stage.look(3)
    assert sent(stage) == []
    assert stage.state(uuid) == ("active", None)
    told = str(message(stage, uuid))
    assert str(stage.instance(uuid).node) in told
    assert "may have been injected or not" in told
    assert "Ask again if no dump comes" in told
    stage.fake.set_node(str(stage.instance(uuid).node), power_state="power on")
    ask(stage, uuid)
    stage.look()
    assert (sent(stage), message(stage, uuid)) == ([204], None)


def test_of_two_processes_that_carry_it_out_one_sends(
    stage: ServiceStage, uuid: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask(stage, uuid)
    looked = stage.ironic.driver.get_info

    def meanwhile(*args: Any, **more: Any) -> Any:
        assert stage.db.instances.begin_crash_dump(uuid, "the other one")
        return looked(*args, **more)

    monkeypatch.setattr(stage.ironic.driver, "get_info", meanwhile)
    stage.look()
    assert sent(stage) == []
    assert "may have been injected or not" in str(message(stage, uuid))


def test_a_note_whose_commit_was_lost_is_ones_own(stage: ServiceStage, uuid: str) -> None:
    ask(stage, uuid)
    begin = stage.db.instances.begin_crash_dump
    assert [begin(uuid, "a"), begin(uuid, "a"), begin(uuid, "b")] == ["a", "a", "a"]
    requests = Requests(stage.conf, stage.db)
    requests.delete(uuid)
    assert begin(uuid, "a") is None
    assert stage.db.instances.crash_dump_attempt(uuid) is None


@pytest.mark.parametrize("strike", ["lose_reply", "reset"])
def test_a_lost_reply_is_told_of_and_never_made_up_for(
    stage: ServiceStage, uuid: str, strike: str
) -> None:
    getattr(stage.fake.faults, strike)("PUT", "inject_nmi")
    ask(stage, uuid)
    stage.look(3)
    assert len(sent(stage)) == 1
    assert stage.state(uuid) == ("active", None)
    assert "may have been injected or not" in str(message(stage, uuid))


def test_while_ironic_is_out_of_reach_it_is_put_off_and_not_noted(
    stage: ServiceStage, uuid: str
) -> None:
    stage.fake.faults.status(503, "GET", count=None)
    ask(stage, uuid)
    stage.look()
    assert stage.state(uuid) == ("active", "triggering-crash-dump")
    assert stage.db.instances.crash_dump_attempt(uuid) is None
    stage.fake.faults.clear()
    stage.look(3)
    assert (sent(stage), message(stage, uuid)) == ([204], None)


def test_what_fails_once_it_is_noted_is_not_put_off(
    stage: ServiceStage, uuid: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = []

    def trigger(instance: virt.InstanceLike) -> None:
        tries.append(instance.uuid)
        raise exceptions.IronicUnreachable("connection refused")

    monkeypatch.setattr(stage.ironic.driver, "trigger_crash_dump", trigger)
    ask(stage, uuid)
    stage.look(3)
    assert tries == [uuid]
    assert "connection refused" in str(message(stage, uuid))


def test_a_driver_that_breaks_off_leaves_it_open_whether_one_was_sent(
    stage: ServiceStage, uuid: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def trigger(_instance: virt.InstanceLike) -> None:
        raise ZeroDivisionError("by zero")

    monkeypatch.setattr(stage.ironic.driver, "trigger_crash_dump", trigger)
    ask(stage, uuid)
    stage.look(2)
    assert message(stage, uuid) == (
        "ZeroDivisionError: by zero; the NMI may have been injected or not"
    )


def test_what_was_sent_when_the_records_went_away_is_not_sent_again(
    stage: ServiceStage, uuid: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask(stage, uuid)
    with monkeypatch.context() as broken:

        def finish(*_args: Any, **_more: Any) -> bool:
            raise DatabaseUnreachable("mysql://", "gone")

        broken.setattr(stage.db.instances, "finish", finish)
        stage.look()
    assert stage.state(uuid) == ("active", "triggering-crash-dump")
    stage.look(3)
    assert sent(stage) == [204]
    assert "may have been injected or not" in str(message(stage, uuid))


def test_a_node_that_is_off_gets_none(stage: ServiceStage, node: str, uuid: str) -> None:
    stage.fake.set_node(node, power_state="power off")
    ask(stage, uuid)
    stage.look()
    told = str(message(stage, uuid))
    assert f"Node {node}" in told
    assert "is powered off" in told
    assert "no NMI was sent" in told
    assert sent(stage) == []
    assert stage.state(uuid)[1] is None


def test_hardware_that_takes_none_is_named(stage: ServiceStage, node: str, uuid: str) -> None:
    stage.fake.set_node(node, driver_info={})
    ask(stage, uuid)
    stage.look()
    told = str(message(stage, uuid))
    assert node in told
    assert "does not support inject_nmi" in told
    assert stage.state(uuid) == ("active", None)


def test_it_is_refused_where_no_system_runs(stage: ServiceStage, fake: FakeIronic) -> None:
    bare = fake.add_node(resource_class="gold", ports=1)
    stage.service.refresh()
    uuid = stage.create(bare)
    with pytest.raises(ConflictingRequest, match="it is building, and trigger_crash_dump needs"):
        ask(stage, uuid)
    fake.fail_next("deploy", "The supplied image checksum is wrong", count=9)
    stage.look()
    with pytest.raises(ConflictingRequest, match="it is on no node"):
        ask(stage, uuid)


def test_one_that_is_stopped_or_busy_is_refused(stage: ServiceStage, uuid: str) -> None:
    requests = Requests(stage.conf, stage.db)
    requests.stop(uuid)
    with pytest.raises(ConflictingRequest, match=r"it is busy \(powering-off\)"):
        ask(stage, uuid)
    stage.look()
    with pytest.raises(ConflictingRequest, match="it is stopped, and trigger_crash_dump needs"):
        ask(stage, uuid)
    assert sent(stage) == []


def test_a_delete_supersedes_one_that_has_not_begun(stage: ServiceStage, uuid: str) -> None:
    ask(stage, uuid)
    Requests(stage.conf, stage.db).delete(uuid)
    stage.look()
    assert (stage.state(uuid), sent(stage)) == (("deleted", None), [])


def test_one_that_is_deleted_meanwhile_gets_none(
    stage: ServiceStage, uuid: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask(stage, uuid)
    looked = stage.ironic.driver.get_info

    def meanwhile(*args: Any, **more: Any) -> Any:
        Requests(stage.conf, stage.db).delete(uuid)
        return looked(*args, **more)

    with monkeypatch.context() as patch:
        patch.setattr(stage.ironic.driver, "get_info", meanwhile)
        stage.look()
    stage.look()
    assert (stage.state(uuid), sent(stage)) == (("deleted", None), [])


def test_what_a_rescue_runs_can_be_crashed_too(stage: ServiceStage, uuid: str) -> None:
    requests = Requests(stage.conf, stage.db)
    requests.rescue(uuid, "correct horse")
    stage.look()
    ask(stage, uuid)
    assert stage.instance(uuid).task_state == TaskState.TRIGGERING_CRASH_DUMP
    stage.look()
    assert (stage.state(uuid), sent(stage)) == ((VmState.RESCUED, None), [204])
