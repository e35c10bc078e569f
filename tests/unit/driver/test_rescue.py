# SPDX-License-Identifier: Apache-2.0

"""Stories of a rescue and its end, and what is left after a failure."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ironic_virt import exceptions, virt
from ironic_virt.testing.fake_ironic import Durations, FakeIronic
from tests.unit.driver.stage import INSTANCE, SECRET, STRANGER, Stage

DURATIONS = Durations(deploy=5, undeploy=3, clean=30, power=2, rescue=5, unrescue=5)


@pytest.fixture
def fake() -> FakeIronic:
    """A fake Ironic in virtual time, in which a rescue takes its time."""
    return FakeIronic(durations=DURATIONS)


def rescue(stage: Stage, instance: virt.Instance, password: str = SECRET) -> None:
    stage.driver.rescue(instance, password)


def unrescue(stage: Stage, instance: virt.Instance) -> None:
    stage.driver.unrescue(instance)


def verbs(fake: FakeIronic) -> list[str]:
    """What was asked of Ironic, and taken."""
    return [
        entry.body["target"]
        for entry in fake.requests.matching("PUT", "/states/provision$")
        if entry.status == 202
    ]


def state(fake: FakeIronic, node: str) -> str:
    return str(fake.node(node)["provision_state"])


def test_there_and_back(
    stage: Stage, fake: FakeIronic, node: str, instance: virt.Instance
) -> None:
    rescue(stage, instance)
    assert state(fake, node) == "rescue"
    (request,) = fake.requests.matching("PUT", "/states/provision$")
    assert request.body == {"target": "rescue", "rescue_password": SECRET}
    unrescue(stage, instance)
    assert state(fake, node) == "active"
    unrescue(stage, instance)
    assert verbs(fake) == ["rescue", "unrescue"]


def test_each_takes_a_look_and_a_request(
    stage: Stage, fake: FakeIronic, instance: virt.Instance
) -> None:
    for act in (rescue, unrescue):
        fake.requests.clear()
        act(stage, instance)
        assert [entry.method for entry in fake.requests][:2] == ["GET", "PUT"]
        assert {entry.method for entry in list(fake.requests)[2:]} == {"GET"}


def test_the_password_is_not_logged(
    stage: Stage, fake: FakeIronic, instance: virt.Instance, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    fake.fail_next("rescue", "the ramdisk is broken")
    with pytest.raises(exceptions.RescueFailed) as caught:
        rescue(stage, instance)
    rescue(stage, instance)
    assert "rescue" in caplog.text
    assert SECRET not in caplog.text + str(caught.value)


def test_a_new_password_takes_a_new_rescue(
    stage: Stage, fake: FakeIronic, node: str, instance: virt.Instance
) -> None:
    rescue(stage, instance)
    rescue(stage, instance, "another one")
    asked = fake.requests.matching("PUT", "/states/provision$")
    assert [one.body["rescue_password"] for one in asked] == [SECRET, "another one"]
    assert state(fake, node) == "rescue"


@pytest.mark.parametrize("password", ["", "  "])
def test_without_a_password_nothing_is_asked(
    stage: Stage, fake: FakeIronic, instance: virt.Instance, password: str
) -> None:
    with pytest.raises(exceptions.OperationNotSupported, match="password"):
        rescue(stage, instance, password)
    assert not len(fake.requests)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"provision_state": "available"}, "'available', from which nothing can be"),
        ({"provision_state": "deploy failed"}, "'deploy failed'"),
        ({"provision_state": "brand new"}, "'brand new'"),
        ({"maintenance": True, "maintenance_reason": "fan"}, r"maintenance \(fan\)"),
    ],
)
@pytest.mark.parametrize("act", [rescue, unrescue])
def test_from_other_states_nothing_is_done(
    stage: Stage,
    fake: FakeIronic,
    node: str,
    instance: virt.Instance,
    act: Callable[[Stage, virt.Instance], None],
    fields: dict[str, object],
    says: str,
) -> None:
    fake.set_node(node, **{"provision_state": "rescue", **fields})
    before = stage.trace(node)
    with pytest.raises(exceptions.RescueFailed, match=says) as caught:
        act(stage, instance)
    assert caught.value.system is exceptions.System.UNTOUCHED
    assert stage.trace(node) == before
    assert fake.requests.matching("PUT", "") == []


@pytest.mark.parametrize("act", [rescue, unrescue])
def test_a_strangers_node_is_left_alone(
    stage: Stage,
    fake: FakeIronic,
    node: str,
    instance: virt.Instance,
    act: Callable[[Stage, virt.Instance], None],
) -> None:
    fake.set_node(node, instance_uuid=STRANGER)
    with pytest.raises(exceptions.InstanceNotFound):
        act(stage, instance)
    assert verbs(fake) == []


# -- failures -----------------------------------------------------------------


def test_a_rescue_that_fails_ends_on_the_instances_own_system(
    stage: Stage, fake: FakeIronic, node: str, instance: virt.Instance
) -> None:
    fake.fail_next("rescue", "the ramdisk is broken", node)
    with pytest.raises(exceptions.RescueFailed, match="the server runs its own system") as caught:
        rescue(stage, instance)
    assert caught.value.last_error == "the ramdisk is broken"
    assert "the rescue failed: the ramdisk is broken" in caught.value.reason
    assert caught.value.system is exceptions.System.OWN
    assert state(fake, node) == "active"
    assert verbs(fake) == ["rescue", "unrescue"]


def test_a_rescue_that_ironic_gives_up_is_told_with_its_reason(
    stage: Stage, fake: FakeIronic, node: str, instance: virt.Instance
) -> None:
    stage.ironic_gives_up(node, "rescuing", "rescue failed", "Timeout reached")
    with pytest.raises(exceptions.RescueFailed, match="Timeout reached") as caught:
        rescue(stage, instance)
    assert caught.value.last_error == "Timeout reached"
    assert state(fake, node) == "active"


def test_if_that_fails_too_the_error_says_what_to_do(
    stage: Stage, fake: FakeIronic, node: str, instance: virt.Instance
) -> None:
    fake.fail_next("rescue", "the ramdisk is broken", node)
    fake.fail_next("unrescue", "the BMC is on fire", node)
    with pytest.raises(exceptions.RescueFailed, match="Repair the node in Ironic") as caught:
        rescue(stage, instance)
    for said in ("the ramdisk is broken", "the BMC is on fire"):
        assert said in caught.value.reason
    assert caught.value.system is exceptions.System.UNKNOWN
    assert state(fake, node) == "unrescue failed"
    unrescue(stage, instance)
    assert state(fake, node) == "active"


def test_a_rescue_system_that_never_calls_back_is_given_up_in_time(
    set_stage: Callable[..., Stage],
) -> None:
    fake = FakeIronic(durations=DURATIONS, wait_states=True)
    node = fake.add_node(ports=1)
    stage = set_stage(fake, rescue_timeout=60)
    instance = stage.instance(node)
    stage.spawn(instance)
    fake.requests.clear()
    fake.set_node(node, provision_state="rescue")
    # As the conductor would have it: waiting, for a call that never comes.
    ask = stage.driver._site.client.set_provision_state

    def never(uuid: str, verb: str, **more: object) -> None:
        if verb == "rescue":
            fake.set_node(uuid, provision_state="rescue wait", target_provision_state="rescue")
        else:
            ask(uuid, verb, **more)  # type: ignore[arg-type]

    stage.driver._site.client.set_provision_state = never  # type: ignore[method-assign, assignment]
    with pytest.raises(exceptions.RescueFailed, match=r"own system.*rescue_timeout"):
        rescue(stage, instance)
    assert verbs(fake) == ["abort", "unrescue"]
    assert state(fake, node) == "active"


def test_an_unrescue_that_fails_is_tried_again(
    stage: Stage, fake: FakeIronic, node: str, instance: virt.Instance
) -> None:
    rescue(stage, instance)
    fake.fail_next("unrescue", "the switch did not answer", node)
    unrescue(stage, instance)
    assert state(fake, node) == "active"
    assert verbs(fake) == ["rescue", "unrescue", "unrescue"]


def test_an_unrescue_that_fails_twice_says_what_to_do(
    stage: Stage, fake: FakeIronic, node: str, instance: virt.Instance
) -> None:
    rescue(stage, instance)
    fake.fail_next("unrescue", "the switch did not answer", node, count=2)
    with pytest.raises(exceptions.RescueFailed, match=r"did not answer.*second try.*Repair it"):
        unrescue(stage, instance)
    assert state(fake, node) == "unrescue failed"
    rescue(stage, instance)
    assert state(fake, node) == "rescue"


def test_what_ironic_refuses_leaves_the_node_as_it_was(
    stage: Stage, fake: FakeIronic, node: str, instance: virt.Instance
) -> None:
    fake.set_node(node, rescue_interface="no-rescue")
    with pytest.raises(exceptions.RescueFailed, match="does not support rescue"):
        rescue(stage, instance)
    assert state(fake, node) == "active"
    assert fake.node(node)["instance_uuid"] == INSTANCE


@pytest.mark.parametrize("act", [rescue, unrescue])
def test_it_ends_when_it_is_not_wanted_any_more(
    stage: Stage,
    fake: FakeIronic,
    node: str,
    instance: virt.Instance,
    act: Callable[[Stage, virt.Instance], None],
) -> None:
    if act is unrescue:
        rescue(stage, instance)
    stage.service.unwanted = "the instance is deleting"
    with pytest.raises(exceptions.BuildAborted, match="the instance is deleting"):
        act(stage, instance)
    assert state(fake, node) in ("rescuing", "unrescuing")
    stage.service.unwanted = None
    act(stage, instance)
    assert state(fake, node) == ("rescue" if act is rescue else "active")


def test_a_service_that_stops_leaves_a_failed_rescue_to_the_next(
    stage: Stage, fake: FakeIronic, node: str, instance: virt.Instance
) -> None:
    fake.fail_next("rescue", "the ramdisk is broken", node)
    leave = stage.driver._rescue._leave  # type: ignore[attr-defined]

    def stopped(whose: virt.Instance) -> str:
        stage.driver.cleanup_host()
        return str(leave(whose))

    stage.driver._rescue._leave = stopped  # type: ignore[attr-defined]
    with pytest.raises(exceptions.WaitCancelled):
        rescue(stage, instance)
