# SPDX-License-Identifier: Apache-2.0

"""What errors mean for a task, whichever verb it is of."""

import dataclasses
import re
from collections.abc import Callable
from typing import Any

import pytest

from ironic_virt import exceptions
from ironic_virt.compute import verbs
from ironic_virt.compute.errors import ConflictingRequest
from ironic_virt.testing.fake_ironic import FakeIronic
from tests.unit.compute.service_stage import GOLD, ServiceStage

VIF = "9d1c54a0-0000-4000-8000-000000000001"


@dataclasses.dataclass(frozen=True)
class Case:
    """A verb, and what becomes of an instance.

    :ivar first: what is asked of one that is active before, and its arguments.
    :ivar broken: what it is after an unknown error.
    """

    method: str
    before: str
    settled: str
    broken: str
    arguments: dict[str, Any] = dataclasses.field(default_factory=dict)
    first: tuple[str, dict[str, Any]] | None = None


VIFS, PASSWORD = {"vif": VIF}, {"password": "correct horse"}
CASES = {
    "start": Case("power_on", "stopped", "active", "stopped", first=("stop", {})),
    "stop": Case("power_off", "active", "stopped", "active"),
    "reboot": Case("reboot", "active", "active", "active"),
    "hard_reboot": Case("reboot", "active", "active", "active"),
    "rebuild": Case("rebuild", "active", "active", "error"),
    "rescue": Case("rescue", "active", "rescued", "error", PASSWORD),
    "unrescue": Case("unrescue", "rescued", "active", "error", first=("rescue", PASSWORD)),
    "attach_interface": Case("attach_interface", "active", "active", "active", VIFS),
    "detach_interface": Case(
        "detach_interface", "active", "active", "active", VIFS, ("attach_interface", VIFS)
    ),
    "trigger_crash_dump": Case("trigger_crash_dump", "active", "active", "active"),
    "delete": Case("destroy", "active", "deleted", "error"),
}


@pytest.fixture
def nodes(fake: FakeIronic) -> list[str]:
    return [fake.add_node(**GOLD, driver_info={"takes_nmi": True})]


@pytest.fixture(params=CASES)
def verb(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def case(verb: str) -> Case:
    return CASES[verb]


@pytest.fixture
def uuid(stage: ServiceStage, case: Case) -> str:
    """An instance in a state that allows the verb."""
    uuid = stage.build()
    if case.first is not None:
        name, arguments = case.first
        stage.ask(name, uuid, **arguments)
        stage.look()
    assert stage.state(uuid) == (case.before, None)
    return uuid


@pytest.fixture
def ask(stage: ServiceStage, verb: str, case: Case, uuid: str) -> Callable[[], str]:
    """Ask for it; returns the task state."""

    def ask() -> str:
        stage.requests.ask(verb, uuid, **case.arguments)
        return str(verbs.BY_NAME[verb].task)

    return ask


def raising(error: Exception) -> Callable[..., Any]:
    def method(*_args: Any, **_more: Any) -> Any:
        raise error

    return method


def test_every_verb_is_here() -> None:
    assert CASES.keys() == verbs.BY_NAME.keys() - {"create"}


def test_while_ironic_is_out_of_reach_it_is_put_off(stage, uuid, case, ask) -> None:
    stage.fake.faults.status(503, count=None)
    task = ask()
    stage.look(2)
    wanted = stage.instance(uuid)
    assert (wanted.vm_state, wanted.task_state) == (case.before, task)
    assert dict(wanted.arguments).items() >= case.arguments.items()
    assert stage.instance(uuid).fault is None
    stage.fake.faults.clear()
    stage.look(4)
    assert stage.state(uuid) == (case.settled, None)
    assert stage.instance(uuid).arguments == {}
    assert stage.instance(uuid).fault is None


def test_a_driver_that_breaks_off_is_told_with_its_kind(stage, uuid, case, ask, monkeypatch):
    monkeypatch.setattr(stage.service.driver, case.method, raising(ZeroDivisionError("by zero")))
    ask()
    stage.look(2)
    assert stage.state(uuid) == (case.broken, None)
    assert stage.fault(uuid) == "ZeroDivisionError: by zero"
    assert stage.instance(uuid).arguments == {}


def test_what_the_service_leaves_goes_on_later(stage, uuid, case, ask, monkeypatch) -> None:
    with monkeypatch.context() as patch:
        left = exceptions.WaitCancelled("n", uuid, "the service stops")
        patch.setattr(stage.service.driver, case.method, raising(left))
        task = ask()
        stage.look()
    assert stage.state(uuid) == (case.before, task)
    assert stage.instance(uuid).fault is None
    stage.look(2)
    assert stage.state(uuid) == (case.settled, None)


def test_a_delete_supersedes_it(stage, verb, uuid, case, ask, monkeypatch) -> None:
    # A delete that is asked for twice is one.
    if verb != "delete":
        monkeypatch.setattr(stage.service.driver, case.method, raising(AssertionError(verb)))
    ask()
    stage.requests.ask("delete", uuid)
    assert stage.instance(uuid).arguments == {}
    stage.look(2)
    assert stage.state(uuid) == ("deleted", None)
    assert stage.instance(uuid).fault is None


def test_one_that_is_on_no_node_can_only_be_deleted(stage, verb, case) -> None:
    uuid = stage.create()
    stage.fake.fail_next("deploy", "The supplied image checksum is wrong", count=9)
    stage.look()
    assert stage.state(uuid) == ("error", None)
    if verb == "delete":
        assert stage.requests.ask(verb, uuid).is_deleted
    else:
        with pytest.raises(ConflictingRequest, match=r"it is on no node|needs one that is"):
            stage.requests.ask(verb, uuid, **case.arguments)


@pytest.mark.parametrize(
    ("arguments", "timeout", "targets"),
    [
        ({}, 60, ["soft power off"]),
        ({"hard": True}, 60, ["power off"]),
        ({}, 0, ["power off"]),
    ],
)
def test_a_stop_asks_the_system_first(stage, arguments, timeout, targets) -> None:
    """Hardware really pulls the plug: no file system is unmounted."""
    stage.conf.set_override("shutdown_timeout", timeout, "compute")
    uuid = stage.build()
    stage.ask("stop", uuid, **arguments)
    assert stage.state(uuid) == ("stopped", None)
    asked = stage.fake.requests.matching("PUT", "/states/power$")
    assert [one.body["target"] for one in asked] == targets
    assert all(one.body.get("timeout", timeout) == timeout for one in asked)


def test_a_system_that_does_not_hear_has_its_power_cut(stage: ServiceStage) -> None:
    uuid = stage.build()
    stage.fake.ignore_soft_power(stage.instance(uuid).node)
    stage.ask("stop", uuid)
    assert stage.state(uuid) == ("stopped", None)
    asked = stage.fake.requests.matching("PUT", "/states/power$")
    assert [one.body["target"] for one in asked] == ["soft power off", "power off"]


@pytest.mark.parametrize(
    ("fields", "words", "answers"),
    [
        ({"power_state": "power off"}, "is powered off.*no NMI was sent", []),
        ({"driver_info": {}}, "does not support inject_nmi", [400]),
    ],
    ids=["off", "unsupported"],
)
def test_a_node_that_can_take_no_nmi_is_named(stage, nodes, fields, words, answers) -> None:
    uuid = stage.build()
    stage.fake.set_node(nodes[0], **fields)
    stage.ask("trigger_crash_dump", uuid)
    assert re.search(f"{nodes[0]}.*{words}", stage.fault(uuid))
    asked = stage.fake.requests.matching("PUT", "/inject_nmi$")
    assert [one.status for one in asked] == answers
    assert stage.state(uuid) == ("active", None)
