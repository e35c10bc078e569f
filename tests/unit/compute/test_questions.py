# SPDX-License-Identifier: Apache-2.0

"""Stories of questions to the reference service: who asks, who answers, what is kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa

from ironic_virt import exceptions, virt
from ironic_virt.compute import questions
from ironic_virt.compute.db import models, records
from ironic_virt.compute.errors import (
    ConflictingRequest,
    NoConsole,
    NoDiagnostics,
    NoSuchInstance,
)
from ironic_virt.compute.states import TaskState
from ironic_virt.testing.fake_ironic import FakeIronic
from tests.unit.compute.conftest import SetStage
from tests.unit.compute.service_stage import ServiceStage

SERIAL = virt.ConsoleAddress("serial", "192.0.2.8", 8013)
KINDS: dict[str, questions.Kind[Any]] = {
    "serial": questions.SERIAL_CONSOLE,
    "vnc": questions.VNC_CONSOLE,
    "diagnostics": questions.DIAGNOSTICS,
}
VNC = virt.ConsoleAddress("vnc", "192.0.2.8", 6080, "/x", "http://192.0.2.8/vnc?token=s3cret")


@pytest.fixture
def stage(set_stage: SetStage, fake: FakeIronic) -> ServiceStage:
    fake.add_node(resource_class="gold", ports=1)
    return set_stage().begin()


@pytest.fixture
def uuid(stage: ServiceStage) -> str:
    """An instance that is active."""
    uuid = stage.create(stage.fake.nodes()[0]["uuid"])
    stage.look()
    return uuid


@pytest.fixture
def asked(stage: ServiceStage, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """What the driver was asked for: it has both consoles of every instance."""
    calls: list[tuple[str, str]] = []

    def has(address: virt.ConsoleAddress) -> Callable[..., virt.ConsoleAddress]:
        def get(instance: virt.InstanceLike) -> virt.ConsoleAddress:
            calls.append((address.kind, instance.uuid))
            return address

        return get

    answers(stage, has(SERIAL), has(VNC))
    return calls


def answers(stage: ServiceStage, serial: Callable[..., Any], vnc: Callable[..., Any]) -> None:
    stage.service._answers._answers = {"serial": serial, "vnc": vnc}


def ask(stage: ServiceStage, instance: str, kind: str = "serial", **more: Any) -> Any:
    """Ask; the service looks whenever the one who asks waits."""
    rounds: dict[str, Any] = {
        "timeout": 30,
        "clock": stage.fake.clock.now,
        "sleep": lambda _seconds: stage.service.look(),
    }
    return questions.ask(stage.db, instance, KINDS[kind], **(rounds | more))


def kept(stage: ServiceStage) -> int:
    with stage.db._transactions.engine.connect() as connection:
        counted = sa.select(sa.func.count()).select_from(models.Question)
        return int(connection.scalar(counted) or 0)


@pytest.mark.parametrize(("kind", "address"), [("serial", SERIAL), ("vnc", VNC)])
def test_the_service_that_has_the_instance_says_where_it_is(
    stage: ServiceStage,
    uuid: str,
    asked: list[tuple[str, str]],
    kind: str,
    address: virt.ConsoleAddress,
) -> None:
    assert ask(stage, "web", kind) == address
    assert asked == [(kind, uuid)]
    assert kept(stage) == 0, "it gives the console to whoever knows it"


def test_an_address_is_neither_logged_nor_shown(
    stage: ServiceStage,
    uuid: str,
    asked: list[tuple[str, str]],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("DEBUG")
    assert ask(stage, uuid, "vnc") == VNC
    request = "9d1c54a0-0000-4000-8000-000000000001"
    stage.db.questions.ask(request, uuid, "vnc", 60)
    stage.look()
    answered = stage.db.questions.get(request)
    assert answered is not None
    assert answered.answer == records.plain(VNC)
    assert "s3cret" not in caplog.text + repr(answered)


def test_it_is_asked_for_once_and_answered_whatever_else_is_wanted(
    stage: ServiceStage, uuid: str, asked: list[tuple[str, str]]
) -> None:
    stage.fake.faults.status(503, "PUT", "/states/power$", count=None)
    stage.db.instances.request(uuid, TaskState.POWERING_OFF)
    stage.db.questions.ask("9d1c54a0-0000-4000-8000-000000000001", uuid, "serial", 3600)
    for _ in range(3):
        stage.service.look()
    assert stage.state(uuid) == ("active", "powering-off")
    assert asked == [("serial", uuid)]


def test_what_was_read_before_the_answer_is_not_answered_twice(
    stage: ServiceStage,
    uuid: str,
    asked: list[tuple[str, str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage.db.questions.ask("9d1c54a0-0000-4000-8000-000000000001", uuid, "serial", 60)
    wanted = stage.db.questions.wanted("compute1")
    answering = stage.service._answers

    def a_moment_ago(_host: str) -> Any:
        if not asked:
            answering._answer(wanted[0])
        return wanted

    monkeypatch.setattr(stage.db.questions, "wanted", a_moment_ago)
    stage.service.look()
    assert len(asked) == 1


def test_why_there_is_none_reaches_who_asks(stage: ServiceStage, uuid: str) -> None:
    def none(instance: virt.InstanceLike) -> Any:
        raise exceptions.ConsoleUnavailable("n", instance.uuid, "serial", "it has no socat")

    answers(stage, none, none)
    with pytest.raises(NoConsole, match="it has no socat") as caught:
        ask(stage, uuid)
    assert caught.value.instance == uuid
    assert kept(stage) == 0


def test_a_driver_that_breaks_off_is_an_answer_too(stage: ServiceStage, uuid: str) -> None:
    def broken(_instance: virt.InstanceLike) -> Any:
        raise ZeroDivisionError("by zero")

    answers(stage, broken, broken)
    with pytest.raises(NoConsole, match="ZeroDivisionError: by zero"):
        ask(stage, uuid)


def test_a_service_that_is_down_is_named_at_once(
    stage: ServiceStage, uuid: str, asked: list[tuple[str, str]]
) -> None:
    stage.fake.advance(3600)
    with pytest.raises(NoConsole, match="compute service compute1, which has it, is down"):
        ask(stage, uuid)
    assert kept(stage) == 0


def test_without_an_answer_in_time_nothing_is_left_to_be_done(
    stage: ServiceStage, uuid: str, asked: list[tuple[str, str]]
) -> None:
    with pytest.raises(NoConsole, match="compute1 has said nothing of its serial console"):
        ask(stage, uuid, sleep=lambda _seconds: stage.fake.advance(20))
    stage.look()
    assert asked == []


def test_what_nobody_has_come_for_is_deleted(
    stage: ServiceStage, uuid: str, asked: list[tuple[str, str]]
) -> None:
    for number, look in ((1, True), (2, False)):
        stage.db.questions.ask(f"9d1c54a0-0000-4000-8000-00000000000{number}", uuid, "vnc", 60)
        if look:
            stage.look()
    assert kept(stage) == 2
    stage.fake.advance(61)
    stage.service.report()
    stage.look()
    assert kept(stage) == 0
    assert asked == [("vnc", uuid)], "nobody waits for the other one"


def test_one_that_has_no_node_has_none(stage: ServiceStage, fake: FakeIronic) -> None:
    (node,) = fake.add_nodes(1, resource_class="gold", ports=1)
    stage.service.refresh()
    uuid = stage.create(node)
    fake.fail_next("deploy", "The supplied image checksum is wrong", count=9)
    stage.look()
    with pytest.raises(ConflictingRequest, match="it is on no node"):
        ask(stage, uuid)
    with pytest.raises(NoSuchInstance):
        ask(stage, "none")


def test_the_next_process_answeringwhat_the_last_one_did_not(
    stage: ServiceStage, set_stage: SetStage, uuid: str, asked: list[tuple[str, str]]
) -> None:
    def stops(instance: virt.InstanceLike) -> Any:
        raise exceptions.WaitCancelled("n", instance.uuid, "the service stops")

    answers(stage, stops, stops)
    request = "9d1c54a0-0000-4000-8000-000000000001"
    stage.db.questions.ask(request, uuid, "serial", 3600)
    stage.look()
    again = set_stage().begin()
    answers(again, lambda *_: SERIAL, lambda *_: VNC)
    again.fake.advance(60)
    again.look()
    answered = again.db.questions.get(request)
    assert answered is not None
    assert answered.answer == records.plain(SERIAL)
    assert not stage.db.questions.answer(request, records.plain(VNC)), "it was answered"


# -- diagnostics --------------------------------------------------------------


def test_diagnostics_are_what_the_driver_says(stage: ServiceStage, uuid: str) -> None:
    told = ask(stage, "web", "diagnostics")
    assert told == stage.ironic.driver.get_instance_diagnostics(stage.instance(uuid))
    assert told.state is virt.PowerState.RUNNING
    assert isinstance(told.macs, tuple)
    assert kept(stage) == 0


def test_diagnostics_of_what_is_off_are_there_too(stage: ServiceStage, uuid: str) -> None:
    stage.fake.set_node(str(stage.instance(uuid).node), power_state="power off")
    told = ask(stage, uuid, "diagnostics")
    assert (told.state, told.uptime) == (virt.PowerState.SHUTDOWN, None)


def test_why_there_are_no_diagnostics_is_told_with_the_node(
    stage: ServiceStage, uuid: str
) -> None:
    node = str(stage.instance(uuid).node)
    stage.fake.faults.status(403, "GET", "/ports", body="not for you", count=None)
    with pytest.raises(NoDiagnostics, match="not for you") as caught:
        ask(stage, uuid, "diagnostics")
    assert caught.value.node == node
    assert node in str(caught.value)
    stage.fake.faults.clear()
    stage.fake.set_node(node, instance_uuid=None)
    with pytest.raises(NoDiagnostics, match=f"Instance {uuid}, node {node}: "):
        ask(stage, uuid, "diagnostics")
    assert kept(stage) == 0
    stage.fake.advance(3600)
    with pytest.raises(NoDiagnostics, match=f"node {node}: .* is down; nobody else knows"):
        ask(stage, uuid, "diagnostics")


def test_a_text_that_names_the_node_is_not_made_to_name_it_twice() -> None:
    node = "9d1c54a0-0000-4000-8000-000000000001"
    assert str(NoDiagnostics("i", f"Node {node} is gone", node=node)).count(node) == 1
