# SPDX-License-Identifier: Apache-2.0

"""Stories of NMIs in the reference service."""

import pytest

from ironic_virt.compute.states import TaskState, VmState
from ironic_virt.testing.fake_ironic import FakeIronic
from tests.unit.compute.service_stage import GOLD, ServiceStage


@pytest.fixture
def nodes(fake: FakeIronic) -> list[str]:
    return [fake.add_node(**GOLD, driver_info={"takes_nmi": True})]


def ask(stage: ServiceStage, uuid: str) -> None:
    stage.requests.ask("trigger_crash_dump", uuid)


def sent(stage: ServiceStage) -> list[int | None]:
    return [entry.status for entry in stage.fake.requests.matching("PUT", "/inject_nmi$")]


def message(stage: ServiceStage, uuid: str) -> str | None:
    """How the last thing that was asked for ended."""
    fault = stage.instance(uuid).fault
    return fault.message if fault else None


def test_one_is_sent_for_each_request(stage: ServiceStage, uuid: str) -> None:
    for number in (1, 2):
        ask(stage, uuid)
        assert stage.state(uuid) == ("active", "triggering-crash-dump")
        stage.look(2)
        assert (stage.state(uuid), message(stage, uuid)) == (("active", None), None)
        assert sent(stage) == [204] * number


@pytest.mark.parametrize("strike", ["lose_reply", "reset"])
def test_a_lost_reply_is_told_of_and_never_made_up_for(stage, uuid, strike) -> None:
    getattr(stage.fake.faults, strike)("PUT", "inject_nmi")
    ask(stage, uuid)
    stage.look(3)
    assert len(sent(stage)) == 1
    assert stage.state(uuid) == ("active", None)
    assert "may have been injected or not" in str(message(stage, uuid))


@pytest.mark.parametrize(
    ("fields", "words", "answers"),
    [
        ({"power_state": "power off"}, ["is powered off", "no NMI was sent"], []),
        ({"driver_info": {}}, ["does not support inject_nmi"], [400]),
    ],
    ids=["off", "unsupported"],
)
def test_a_node_that_can_take_none_is_named(stage, node, uuid, fields, words, answers) -> None:
    stage.fake.set_node(node, **fields)
    ask(stage, uuid)
    stage.look()
    told = str(message(stage, uuid))
    assert [word for word in [node, *words] if word not in told] == [], told
    assert sent(stage) == answers
    assert stage.state(uuid) == ("active", None)


def test_what_a_rescue_runs_can_be_crashed_too(stage: ServiceStage, uuid: str) -> None:
    stage.ask("rescue", uuid, password="correct horse")
    ask(stage, uuid)
    assert stage.instance(uuid).task_state == TaskState.TRIGGERING_CRASH_DUMP
    stage.look()
    assert (stage.state(uuid), sent(stage)) == ((VmState.RESCUED, None), [204])
