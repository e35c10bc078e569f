# SPDX-License-Identifier: Apache-2.0

"""Stories of power and reboots."""

from collections.abc import Callable

import pytest

from ironic_virt import exceptions, virt
from ironic_virt.driver import power
from ironic_virt.testing.fake_ironic import Durations, FakeIronic
from ironic_virt.testing.fake_ironic.faults import Faults
from tests.unit.driver.stage import SetStage, Stage, find_locked


@pytest.fixture
def instance(stage: Stage, node: str, fake: FakeIronic) -> virt.Instance:
    """An instance that is active and on."""
    placed = stage.active(node)
    stage.driver.power_on(placed)
    fake.requests.clear()
    return placed


def power_requests(fake: FakeIronic) -> list[str]:
    return [entry.body["target"] for entry in fake.requests.matching("PUT", "/states/power$")]


@pytest.mark.parametrize("never_off", [False, True])
@pytest.mark.parametrize(
    ("reboot_type", "sent"), [("SOFT", "soft rebooting"), ("HARD", "rebooting")]
)
def test_a_reboot_ends_with_the_power_on(
    stage, fake, node, instance, reboot_type, sent, never_off
) -> None:
    fake.set_node(node, disable_power_off=never_off)
    stage.driver.reboot(instance, reboot_type)
    assert power_requests(fake) == [sent]
    assert stage.driver.get_info(instance, use_cache=False).state is virt.PowerState.RUNNING


@pytest.mark.parametrize("way", ["failed", "refused", "ignored"])
def test_a_soft_reboot_that_fails_becomes_a_hard_one(stage, fake, node, instance, way) -> None:
    if way == "failed":
        fake.fail_next("power", "the system ignores ACPI")
    elif way == "refused":
        fake.faults.status(400, "PUT", "/states/power$", body="soft rebooting is not supported")
    else:
        fake.ignore_soft_power(node)
    stage.driver.reboot(instance, "SOFT")
    assert power_requests(fake) == ["soft rebooting", "rebooting"]


def test_a_failure_says_what_ironic_said(stage, fake, node, instance) -> None:
    fake.fail_next("power", "the BMC is on fire", count=2)
    with pytest.raises(exceptions.PowerFailed, match="the BMC is on fire") as caught:
        stage.driver.power_off(instance)
    assert caught.value.node == node
    with pytest.raises(exceptions.PowerFailed, match="the BMC is on fire"):
        stage.driver.reboot(instance, "HARD")


def test_a_change_that_never_ends_is_given_up_in_time(fake, set_stage, instance, node) -> None:
    stage = set_stage(fake, power_timeout=10)
    fake.set_node(node, target_power_state="power off", reservation="conductor-1")
    with pytest.raises(exceptions.WaitTimeout, match="power_timeout"):
        stage.driver.power_off(instance)


@pytest.mark.parametrize(("request_sent", "timeout"), [("power off", 0), ("soft power off", 30)])
def test_a_change_under_way_is_waited_for_and_not_sent_again(
    stage, fake, node, instance, request_sent, timeout
) -> None:
    restarted = stage.restarted()
    fake.requests.clear()
    stage.driver._site.client.set_power_state(node, request_sent, applied=lambda _: True)
    assert fake.node(node)["target_power_state"] == "power off"
    restarted.driver.power_off(instance, timeout=timeout)
    restarted.driver.cleanup_host()
    assert power_requests(fake) == [request_sent]


def test_a_change_abandoned_by_its_conductor_is_sent_again(stage, fake, node, instance) -> None:
    # What Ironic is really doing holds the lock; a conductor that stops may leave the target.
    fake.set_node(node, target_power_state="power off")
    stage.driver.power_off(instance)
    assert power_requests(fake) == ["power off"]
    assert fake.node(node)["power_state"] == "power off"


@pytest.mark.parametrize(
    ("request_sent", "target"), [("power off", "power off"), ("rebooting", "power on")]
)
def test_a_change_abandoned_by_its_conductor_has_failed(
    stage, fake, node, instance, request_sent, target
) -> None:
    before = stage.driver._site.client.get_node(node)
    fake.set_node(node, target_power_state=target, reservation="conductor-1")
    now = stage.driver._site.client.get_node(node)
    assert power.check_outcome(before, now, instance, request_sent) is None
    fake.set_node(node, reservation=None)
    now = stage.driver._site.client.get_node(node)
    with pytest.raises(exceptions.PowerFailed, match=f"going to '{target}'"):
        power.check_outcome(before, now, instance, request_sent)


# -- timeouts -----------------------------------------------------------------


def test_a_soft_power_off_takes_as_long_as_its_system_was_given(fake, set_stage, node, instance):
    stage = set_stage(fake, power_timeout=20)
    fake.ignore_soft_power(node)
    stage.driver.power_off(instance, timeout=100)
    assert power_requests(fake) == ["soft power off", "power off"]
    answers = [entry.status for entry in fake.requests.matching("PUT", "/states/power$")]
    assert answers == [202, 202], "the power was cut when Ironic had given up, and not before"
    assert fake.node(node)["power_state"] == "power off"


def test_what_was_asked_for_before_and_failed_is_asked_for_anew(stage, fake, node, instance):
    fake.ignore_soft_power(node)
    stage.driver._site.client.set_power_state(
        node, "soft power off", applied=lambda _: True, timeout=5
    )
    stage.driver.power_off(instance)
    assert power_requests(fake) == ["soft power off", "power off"]
    assert fake.node(node)["power_state"] == "power off"


@pytest.mark.parametrize("has_failed", [False, True])
@pytest.mark.parametrize("seconds", [0, 1, 30])
@pytest.mark.parametrize("reboot_type", ["SOFT", "HARD"])
def test_a_reboot_whose_reply_is_lost_is_not_asked_for_again(
    set_stage, reboot_type, seconds, has_failed
) -> None:
    fake = FakeIronic(durations=Durations(power=seconds))
    stage = set_stage(fake)
    instance = stage.active(fake.add_node(ports=1, power_state="power on"))
    fake.faults.lose_reply("PUT", "/states/power$")
    if not has_failed:
        stage.driver.reboot(instance, reboot_type)
        assert len(power_requests(fake)) == 1
        return
    fake.fail_next("power", "the BMC is on fire", count=2)
    with pytest.raises(exceptions.PowerFailed, match="on fire"):
        stage.driver.reboot(instance, reboot_type)
    # A soft one that has failed is followed by a hard one.
    assert len(power_requests(fake)) == (2 if reboot_type == "SOFT" else 1)


@pytest.mark.parametrize("state", ["rescue failed", "unrescue failed", "service failed"])
def test_what_had_failed_before_is_no_failure_of_a_reboot(stage, fake, node, instance, state):
    fake.set_node(node, provision_state=state, last_error="no call from the ramdisk")
    stage.driver.reboot(instance, "HARD")
    assert power_requests(fake) == ["rebooting"]
    fake.fail_next("power", "the BMC is on fire")
    with pytest.raises(exceptions.PowerFailed, match="the BMC is on fire"):
        stage.driver.reboot(instance, "HARD")


# -- a node that is never powered off ------------------------------------------


@pytest.mark.parametrize("timeout", [0, 30])
def test_a_node_that_is_never_powered_off_is_left_on(stage, fake, node, instance, timeout) -> None:
    fake.set_node(node, disable_power_off=True)
    with pytest.raises(exceptions.PowerOffDisabled, match="disable_power_off") as caught:
        stage.driver.power_off(instance, timeout=timeout)
    assert caught.value.node == node
    assert fake.node(node)["power_state"] == "power on"
    assert power_requests(fake) == []


@pytest.mark.parametrize("left", [None, "power off", "power on"])
def test_a_node_that_is_never_powered_off_may_be_off(stage, fake, node, instance, left) -> None:
    fake.set_node(node, disable_power_off=True, power_state="power off", target_power_state=left)
    stage.driver.power_off(instance, timeout=30)
    assert power_requests(fake) == []
    assert stage.driver.get_info(instance).state is virt.PowerState.SHUTDOWN
    stage.driver.power_on(instance)
    assert fake.node(node)["power_state"] == "power on"


def test_a_server_that_cannot_power_such_nodes_refuses(set_stage: SetStage) -> None:
    fake = FakeIronic(max_version=(1, 94))
    stage = set_stage(fake)
    instance = stage.active(fake.add_node(ports=1, disable_power_off=True))
    with pytest.raises(exceptions.PowerFailed, match="Ironic refused 'power off'"):
        stage.driver.power_off(instance)


# -- NMI ----------------------------------------------------------------------


@pytest.fixture
def able() -> FakeIronic:
    """A fake Ironic whose hardware takes NMIs."""
    return FakeIronic(supports_nmi=True)


@pytest.fixture
def crashed(able: FakeIronic, set_stage: SetStage) -> tuple[Stage, virt.Instance]:
    """An instance there."""
    stage = set_stage(able)
    return stage, stage.active(able.add_node(ports=1))


def nmis(fake: FakeIronic) -> list[int | None]:
    return [entry.status for entry in fake.requests.matching("PUT", "/management/inject_nmi$")]


def test_an_nmi_is_injected_as_soon_as_the_node_is_not_locked(able, crashed) -> None:
    stage, instance = crashed
    stage.driver.trigger_crash_dump(instance)
    assert nmis(able) == [204]
    find_locked(able, "PUT", "inject_nmi", count=2)
    stage.driver.trigger_crash_dump(instance)
    assert nmis(able) == [204, 409, 409, 204]


def test_hardware_that_takes_no_nmi_says_so(stage, fake, node, instance) -> None:
    with pytest.raises(exceptions.CrashDumpFailed, match="does not support inject_nmi") as caught:
        stage.driver.trigger_crash_dump(instance)
    assert caught.value.node == node
    assert caught.value.request_id


def no_dump(faults: Faults) -> None:
    faults.status(500, "PUT", "inject_nmi", body="IPMI call failed: power diag.")


STRIKES: dict[str, tuple[Callable[[Faults], object], str]] = {
    "lost": (lambda faults: faults.lose_reply("PUT", "inject_nmi"), "may have been injected or"),
    "reset": (lambda faults: faults.reset("PUT", "inject_nmi"), "may have been injected or not"),
    "502": (lambda faults: faults.status(502, "PUT", "inject_nmi"), "Ask again if no dump comes"),
    "504": (lambda faults: faults.status(504, "PUT", "inject_nmi"), "Ask again if no dump comes"),
    "500": (no_dump, r"broke off \(IPMI.*may have been"),
}


@pytest.mark.parametrize("retries", [None, 0])
@pytest.mark.parametrize(("strike", "says"), STRIKES.values(), ids=list(STRIKES))
def test_an_nmi_whose_reply_is_lost_is_not_injected_again(
    able, set_stage, crashed, strike, says, retries
) -> None:
    stage, instance = crashed
    if retries is not None:
        stage = set_stage(able, api_max_retries=retries)
    strike(able.faults)
    with pytest.raises(exceptions.CrashDumpFailed, match=says):
        stage.driver.trigger_crash_dump(instance)
    assert len(nmis(able)) == 1


# -- what happened behind the service's back -----------------------------------


def test_a_reported_change_is_known_at_once_if_ironic_is_up(stage, fake, node, instance, caplog):
    stage.refresh()
    fake.set_node(node, power_state="power off")
    assert stage.driver.get_info(instance).state is virt.PowerState.RUNNING
    assert stage.driver.power_update_event(instance) is virt.PowerState.SHUTDOWN
    assert stage.driver.get_info(instance).state is virt.PowerState.SHUTDOWN
    fake.faults.status(500, "GET", count=None)
    assert stage.driver.power_update_event(instance) is None
    assert "The next refresh does it" in caplog.text


# -- deadlines ------------------------------------------------------------------


@pytest.mark.parametrize("seconds", [20, 3600])
def test_a_soft_reboot_whose_end_is_unseen_causes_no_hard_one(
    fake, set_stage, instance, seconds
) -> None:
    stage = set_stage(fake, power_timeout=20, api_max_retries=2)
    asked_at = fake.clock.now()
    # Nothing is to be seen while it is waited for; is the first look after that answered?
    fake.faults.status(
        503, "GET", count=None, when=lambda *_: 0 < fake.clock.now() - asked_at < seconds
    )
    if seconds == 20:
        stage.driver.reboot(instance, "SOFT")
    else:
        with pytest.raises(exceptions.WaitTimeout, match="soft rebooting") as caught:
            stage.driver.reboot(instance, "SOFT")
        assert "Can't ask Ironic" in str(caught.value.__notes__)
    assert power_requests(fake) == ["soft rebooting"]


def test_a_slow_soft_reboot_is_waited_for_and_causes_no_hard_one(set_stage: SetStage) -> None:
    fake = FakeIronic(durations=Durations(power=30))
    stage = set_stage(fake, power_timeout=20)
    instance = stage.active(fake.add_node(ports=1, power_state="power on"))
    stage.driver.reboot(instance, "SOFT")
    assert power_requests(fake) == ["soft rebooting"]
