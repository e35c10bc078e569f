# SPDX-License-Identifier: Apache-2.0

"""Stories of a rescue and its end, and what is left after a failure."""

from datetime import UTC, datetime, timedelta

import pytest

from ironic_virt import exceptions, virt
from ironic_virt.testing.fake_ironic import Durations, FakeIronic
from tests.unit.driver.stage import INSTANCE, SECRET, SetStage, Stage, taken

DURATIONS = Durations(deploy=5, undeploy=3, clean=30, power=2, rescue=5, unrescue=5)


@pytest.fixture
def fake() -> FakeIronic:
    """A fake Ironic in virtual time, in which a rescue takes its time."""
    return FakeIronic(durations=DURATIONS)


def state(fake: FakeIronic, node: str) -> str:
    return str(fake.node(node)["provision_state"])


def test_there_and_back(stage, fake, node, instance) -> None:
    stage.rescue(instance)
    assert state(fake, node) == "rescue"
    look, asked, *looks = fake.requests
    assert asked.body == {"target": "rescue", "rescue_password": SECRET}
    assert {entry.method for entry in (look, *looks)} == {"GET"}
    fake.requests.clear()
    stage.unrescue(instance)
    assert state(fake, node) == "active"
    methods = [entry.method for entry in fake.requests]
    assert (methods[:2], set(methods[2:])) == (["GET", "PUT"], {"GET"})
    stage.unrescue(instance)
    assert taken(fake) == ["unrescue"]


def test_the_password_is_not_logged(stage, fake, instance, caplog) -> None:
    caplog.set_level("DEBUG")
    fake.fail_next("rescue", "the ramdisk is broken")
    with pytest.raises(exceptions.RescueFailed) as caught:
        stage.rescue(instance)
    stage.rescue(instance)
    assert "rescue" in caplog.text
    assert SECRET not in caplog.text + str(caught.value)


def test_a_new_password_takes_a_new_rescue(stage, fake, node, instance) -> None:
    stage.rescue(instance)
    since = datetime.fromisoformat(fake.node(node)["provision_updated_at"]) + timedelta(seconds=1)
    with pytest.raises(exceptions.RescueFailed, match="interrupted before Ironic was asked"):
        stage.driver.finish_rescue(instance, since)
    stage.rescue(instance, "another one")
    asked = fake.requests.matching("PUT", "/states/provision$")
    assert [one.body["rescue_password"] for one in asked] == [SECRET, "another one"]


@pytest.mark.parametrize("password", ["", "  "])
def test_without_a_password_nothing_is_asked(stage, fake, instance, password) -> None:
    with pytest.raises(exceptions.OperationNotSupported, match="password"):
        stage.rescue(instance, password)
    assert not len(fake.requests)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"provision_state": "available"}, "'available', from which nothing can be"),
        ({"provision_state": "brand new"}, "'brand new'"),
        ({"maintenance": True, "maintenance_reason": "fan"}, r"maintenance \(fan\)"),
    ],
)
@pytest.mark.parametrize("act", [Stage.rescue, Stage.unrescue])
def test_from_other_states_nothing_is_done(stage, fake, node, instance, act, fields, says) -> None:
    fake.set_node(node, **{"provision_state": "rescue", **fields})
    before = stage.trace(node)
    with pytest.raises(exceptions.RescueFailed, match=says) as caught:
        act(stage, instance)
    assert caught.value.system is exceptions.System.UNTOUCHED
    assert stage.trace(node) == before
    assert fake.requests.matching("PUT", "") == []


# -- failures -----------------------------------------------------------------


def test_a_rescue_that_fails_ends_on_the_instances_own_system(stage, fake, node, instance) -> None:
    fake.fail_next("rescue", "the ramdisk is broken", node)
    says = "the server runs its own system; the rescue failed: the ramdisk is broken"
    with pytest.raises(exceptions.RescueFailed, match=says) as caught:
        stage.rescue(instance)
    assert caught.value.last_error == "the ramdisk is broken"
    assert caught.value.system is exceptions.System.OWN
    assert state(fake, node) == "active"
    assert taken(fake) == ["rescue", "unrescue"]


def test_a_rescue_that_ironic_gives_up_is_told_with_its_reason(stage, fake, node, instance):
    stage.ironic_gives_up(node, "rescuing", "rescue failed", "Timeout reached")
    with pytest.raises(exceptions.RescueFailed, match="Timeout reached") as caught:
        stage.rescue(instance)
    assert caught.value.last_error == "Timeout reached"
    assert state(fake, node) == "active"


def test_if_that_fails_too_the_error_says_what_to_do(stage, fake, node, instance) -> None:
    fake.fail_next("rescue", "the ramdisk is broken", node)
    fake.fail_next("unrescue", "the BMC is on fire", node)
    says = "the ramdisk is broken.*the BMC is on fire.*Repair the node in Ironic"
    with pytest.raises(exceptions.RescueFailed, match=says) as caught:
        stage.rescue(instance)
    assert caught.value.system is exceptions.System.UNKNOWN
    assert state(fake, node) == "unrescue failed"


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize(("fast_track", "is_stopped"), [(0, 0), (0, 1), (1, 1)])
def test_a_rescued_node_that_ironic_has_powered_off_is_no_rescue(
    set_stage, fast_track, is_stopped, restarts
) -> None:
    """So ended one by redfish-virtual-media of Ironic 39.0.0; Nova stops a server before it."""
    fake = FakeIronic(durations=DURATIONS, power_follows_deploy=True, virtual_media=True)
    node = fake.add_node(ports=1, driver_info={"fast_track": fast_track})
    stage = set_stage(fake)
    instance = stage.active(node)
    if is_stopped:
        stage.driver.power_off(instance)
    rescue = stage.rescue
    if restarts:
        stage.while_it_is("rescuing", node, stage.driver.cleanup_host)
        with pytest.raises(exceptions.WaitCancelled):
            stage.rescue(instance)
        stage.service.on_abort_question = None
        fake.settle()
        rescue = set_stage(fake).driver.finish_rescue
    if fast_track:
        rescue(instance)
        assert (state(fake, node), fake.node(node)["power_state"]) == ("rescue", "power on")
        return
    with pytest.raises(exceptions.RescueFailed, match=r"own system; .*fast_track") as caught:
        rescue(instance)
    assert caught.value.system is exceptions.System.OWN
    assert taken(fake) == ["rescue", "unrescue"]
    assert (state(fake, node), fake.node(node)["power_state"]) == ("active", "power on")


@pytest.mark.parametrize("prepared_after", [0, 70])
def test_a_rescue_system_that_never_calls_back_times_out(
    set_stage: SetStage, prepared_after: int
) -> None:
    """Ironic can abort it only when it waits for that call."""
    fake = FakeIronic(durations=DURATIONS, wait_states=True)
    node = fake.add_node(ports=1)
    stage = set_stage(fake, rescue_timeout=60)
    instance = stage.active(node)
    fake.set_node(node, provision_state="rescue")
    began = fake.clock.now()
    # As the conductor would have it: waiting, for a call that never comes.
    ask = stage.driver._site.client.set_provision_state

    def prepared() -> None:
        if state(fake, node) == "rescuing" and fake.clock.now() >= began + prepared_after:
            fake.set_node(node, provision_state="rescue wait")

    def never(uuid: str, verb: str, **more: object) -> None:
        if verb == "rescue":
            fake.set_node(uuid, provision_state="rescuing", target_provision_state="rescue")
            stage.service.on_abort_question = prepared
        else:
            ask(uuid, verb, **more)  # type: ignore[arg-type]

    stage.driver._site.client.set_provision_state = never  # type: ignore[method-assign, assignment]
    with pytest.raises(exceptions.RescueFailed, match=r"own system.*rescue_timeout"):
        stage.rescue(instance)
    assert taken(fake) == ["abort", "unrescue"]
    assert state(fake, node) == "active"
    assert fake.clock.now() < began + 100


def test_a_rescue_that_ends_well_after_its_time_is_one(set_stage, fake, node) -> None:
    stage = set_stage(fake, rescue_timeout=3)
    stage.rescue(stage.active(node))
    assert (state(fake, node), taken(fake)) == ("rescue", ["rescue"])


def test_a_silent_ironic_is_waited_for_once_while_it_rescues(set_stage, fake, node):
    stage = set_stage(fake, rescue_timeout=100)
    instance = stage.active(node)

    def falls_silent() -> None:
        if fake.clock.now() > began + 4:
            fake.faults.status(503, count=None)

    began = fake.clock.now()
    stage.service.on_abort_question = falls_silent
    with pytest.raises(exceptions.RescueFailed, match="rescue_timeout"):
        stage.rescue(instance)
    assert fake.clock.now() < began + 350


def test_a_failed_unrescue_is_tried_again_and_says_what_to_do(stage, fake, node, instance) -> None:
    stage.rescue(instance)
    fake.fail_next("unrescue", "the switch did not answer", node)
    stage.unrescue(instance)
    assert state(fake, node) == "active"
    assert taken(fake) == ["rescue", "unrescue", "unrescue"]
    stage.rescue(instance)
    fake.fail_next("unrescue", "the switch did not answer", node, count=2)
    with pytest.raises(exceptions.RescueFailed, match=r"did not answer.*second try.*Repair it"):
        stage.unrescue(instance)
    assert state(fake, node) == "unrescue failed"


@pytest.mark.parametrize(("power", "says"), [("off", "server is off"), ("on", "own system")])
def test_what_ironic_refuses_leaves_the_node_as_it_was(stage, fake, node, instance, power, says):
    fake.set_node(node, rescue_interface="no-rescue", power_state=f"power {power}")
    with pytest.raises(exceptions.RescueFailed, match=f"{says}.*does not support rescue"):
        stage.rescue(instance)
    assert (state(fake, node), fake.node(node)["instance_uuid"]) == ("active", INSTANCE)


@pytest.mark.parametrize("act", [Stage.rescue, Stage.unrescue])
def test_it_ends_when_it_is_not_wanted_any_more(stage, fake, node, instance, act) -> None:
    fake.set_node(node, provision_state="active" if act is Stage.rescue else "rescue")
    stage.service.unwanted = "the instance is deleting"
    with pytest.raises(exceptions.BuildAborted, match="the instance is deleting"):
        act(stage, instance)
    assert state(fake, node) == ("rescuing" if act is Stage.rescue else "unrescuing")
    stage.service.unwanted = None
    act(stage, instance)
    assert state(fake, node) == ("rescue" if act is Stage.rescue else "active")


def test_a_service_that_stops_leaves_a_failed_rescue_to_the_next(stage, fake, node, instance):
    fake.fail_next("rescue", "the ramdisk is broken", node)
    leave = stage.driver._leave_rescue

    def stopped(whose: virt.Instance) -> str:
        stage.driver.cleanup_host()
        return leave(whose)

    stage.driver._leave_rescue = stopped  # type: ignore[method-assign]
    with pytest.raises(exceptions.WaitCancelled):
        stage.rescue(instance)


@pytest.mark.parametrize("status", [401, 404, 500, 503])
def test_a_rescue_of_another_process_is_finished_past_any_answer(
    set_stage, fake, node, instance, status
) -> None:
    stage = set_stage(fake, api_max_retries=0)
    fake.set_node(node, provision_state="rescue", power_state="power on")
    broken = fake.faults.status(status, "GET", "/nodes", b"<html>No</html>", count=3)
    stage.driver.finish_rescue(instance, datetime.fromtimestamp(0, UTC))
    assert broken.hits == 3
    assert stage.provision_requests("unrescue") == 0
