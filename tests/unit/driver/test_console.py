# SPDX-License-Identifier: Apache-2.0

"""Stories of consoles: where they are, who had them before, and what a failure leaves."""

import dataclasses
import logging
from collections.abc import Callable
from typing import Any

import pytest

from ironic_virt import exceptions, virt
from ironic_virt.testing.fake_ironic import Durations, FakeIronic
from tests.unit.driver.stage import STRANGER, SetStage, Stage, just_before, taken

Ask = Callable[[Stage, virt.Instance], virt.ConsoleAddress]


@pytest.fixture
def fake() -> FakeIronic:
    """A fake Ironic in virtual time, in which a console takes its time."""
    return FakeIronic(durations=Durations(console=3))


@pytest.fixture
def instance(stage: Stage, node: str, fake: FakeIronic) -> virt.Instance:
    """An instance that is active, on a node with a serial console."""
    placed = stage.active(node)
    serial_line(fake, node)
    return placed


def serial_line(fake: FakeIronic, node: str, **more: Any) -> None:
    info = {"ipmi_address": "192.0.2.7", "ipmi_terminal_port": 10023}
    fake.set_node(node, console_interface="ipmitool-socat", driver_info={**info, **more})


def graphical(fake: FakeIronic, node: str) -> None:
    fake.set_node(node, console_interface="fake-graphical")


@pytest.fixture(params=["serial", "vnc"])
def ask(request: pytest.FixtureRequest, fake: FakeIronic, node: str, instance: object) -> Ask:
    """How a console is asked for of an instance, whose node has one of that kind."""
    if request.param == "vnc":
        graphical(fake, node)
    return {"serial": serial, "vnc": vnc}[request.param]


def serial(stage: Stage, instance: virt.Instance) -> virt.ConsoleAddress:
    return stage.driver.get_serial_console(instance)


def vnc(stage: Stage, instance: virt.Instance) -> virt.ConsoleAddress:
    return stage.driver.get_vnc_console(instance)


def switched(fake: FakeIronic) -> list[bool]:
    return taken(fake, "console", "enabled")


def is_on(fake: FakeIronic, node: str) -> bool:
    return bool(fake.node(node)["console_enabled"])


def test_a_serial_console_is_switched_on(stage, fake, node, instance) -> None:
    assert serial(stage, instance) == virt.ConsoleAddress("serial", "127.0.0.1", 10023)
    assert switched(fake) == [True]
    assert is_on(fake, node)
    # Each time Ironic is asked where it is, it ends the session on the serial line.
    assert len(fake.requests.matching("GET", "/states/console$")) == 1
    serial(stage, instance)
    assert switched(fake) == [True, False, True], "it is taken from whoever has it"
    assert is_on(fake, node)


def test_a_vnc_console_stays_on_and_its_token_is_not_logged(stage, fake, node, instance, caplog):
    caplog.set_level(logging.DEBUG)
    graphical(fake, node)
    address = vnc(stage, instance)
    logging.getLogger("a service").debug("%s", address)
    assert (address.kind, address.host, address.port) == ("vnc", "192.0.2.1", 5900)
    assert address.url is not None
    assert address.url.startswith(f"{fake.settings.novnc_url}?path=websockify%3Fnode%3D{node}")
    token = address.url.rpartition("%3D")[2]
    assert len(token) > 20
    assert token not in caplog.text
    assert vnc(stage, instance) == address
    assert switched(fake) == [True]


WHYS = {"fake": "has no address", "no-console": "does not support console", None: "is of type"}


@pytest.mark.parametrize("interface", WHYS)
def test_a_node_without_such_a_console_says_so_and_keeps_none_on(
    stage, fake, node, instance, ask, interface
) -> None:
    other = "fake-graphical" if ask is serial else "ipmitool-socat"
    fake.set_node(node, console_interface=interface or other)
    with pytest.raises(exceptions.ConsoleUnavailable, match=WHYS[interface]) as caught:
        ask(stage, instance)
    assert caught.value.kind == ("serial" if ask is serial else "vnc")
    assert node in str(caught.value)
    fake.settle()
    assert not is_on(fake, node)


def test_what_somebody_has_of_another_kind_stays_on(stage, fake, node, instance, ask) -> None:
    ask(stage, instance)
    fake.requests.clear()
    with pytest.raises(exceptions.ConsoleUnavailable, match="see the node's console_interface"):
        (vnc if ask is serial else serial)(stage, instance)
    assert switched(fake) == []
    assert is_on(fake, node)


@pytest.mark.parametrize(
    ("port", "says"),
    [
        # In Ironic's words.
        (None, "'ipmi_terminal_port' parameter"),
        ("0", "'tcp://127.0.0.1:0'"),
        ("a", "'tcp://127.0.0.1:a'"),
        ("99999", "'tcp://127.0.0.1:99999'"),
    ],
)
def test_an_invalid_address_is_logged_and_the_console_is_off(
    stage, fake, node, instance, port, says
) -> None:
    serial_line(fake, node, ipmi_terminal_port=port)
    with pytest.raises(exceptions.ConsoleUnavailable, match=says):
        serial(stage, instance)
    fake.settle()
    assert switched(fake) == ([True, False] if port else [])
    assert not is_on(fake, node)


def test_one_that_ironic_fails_to_switch_on_is_told_of_and_off(stage, fake, node, instance, ask):
    fake.fail_next("console", "the BMC hangs up", node)
    with pytest.raises(exceptions.ConsoleUnavailable, match="the BMC hangs up"):
        ask(stage, instance)
    assert not is_on(fake, node)
    assert ask(stage, instance).host
    if ask is serial:
        fake.fail_next("console", "the line is stuck", node)
        with pytest.raises(exceptions.ConsoleUnavailable, match="the line is stuck"):
            serial(stage, instance)
        assert switched(fake)[2:] == [False]


def test_one_that_never_comes_is_given_up_in_time(set_stage, fake, instance, ask, caplog) -> None:
    option = f"{ask.__name__}_console_state_timeout"
    slow = Durations(console=3600)
    fake.bm.settings = dataclasses.replace(fake.bm.settings, durations=slow)
    impatient = set_stage(fake, **{option: 1})
    began = fake.clock.now()
    says = rf"have its console on \(\[ironic\] {option}"
    with pytest.raises(exceptions.WaitTimeout, match=says) as caught:
        ask(impatient, instance)
    assert fake.clock.now() - began < 60
    # Ironic is still at it, and would forget another wish.
    assert caught.value.__notes__ == ["It may be left on"]
    assert f"console disable {instance.node}" in caplog.text


def test_a_vnc_server_without_an_address_is_told_of(stage, fake, node, instance) -> None:
    graphical(fake, node)
    vnc(stage, instance)
    fake.set_node(node, driver_internal_info={"vnc_host": "192.0.2.1"})
    with pytest.raises(exceptions.ConsoleUnavailable, match="no vnc_host and vnc_port"):
        vnc(stage, instance)
    # Not ours to switch off.
    assert is_on(fake, node)


def test_a_node_that_is_let_go_of_late_is_looked_at_once_more(stage, fake, node, instance) -> None:
    """By then another instance may have it."""
    look = stage.driver._site.client.node_of_instance

    def then_locked(uuid: str) -> Any:
        found = look(uuid)
        fake.set_node(node, instance_uuid=STRANGER, reservation="conductor-1")
        return found

    stage.driver._site.client.node_of_instance = then_locked  # type: ignore[method-assign]
    with pytest.raises(exceptions.NodeTaken):
        serial(stage, instance)
    assert switched(fake) == []


@pytest.mark.parametrize(
    ("meanwhile", "error"),
    [
        ({}, None),
        ({"instance_uuid": STRANGER}, exceptions.ConsoleUnavailable),
        ({"shard": "b"}, exceptions.NodeNotOurs),
    ],
)
def test_a_locked_node_is_waited_for_and_looked_at_again(
    our_stage, fake, node, instance, meanwhile, error
) -> None:
    fake.set_node(node, shard="ours", reservation="conductor-1")
    let_go = {"reservation": None, **meanwhile}
    fake.bm.timeline.after(4.0, lambda: fake.set_node(node, **let_go))
    if error is None:
        assert serial(our_stage, instance).port == 10023
        return
    with pytest.raises(error):
        serial(our_stage, instance)
    assert switched(fake) == []


# -- the instance goes ---------------------------------------------------------


@pytest.mark.parametrize("state", ["active", "available"], ids=["deployed", "reserved"])
def test_nobody_keeps_the_console_for_the_next_instance(
    stage, fake, node, instance, ask, state, caplog
) -> None:
    ask(stage, instance)
    fake.set_node(node, provision_state=state)
    fake.requests.clear()
    stage.destroy(instance)
    assert switched(fake) == [False]
    fake.advance(60)
    assert not is_on(fake, node)
    assert fake.node(node)["instance_uuid"] is None
    assert not [one for one in caplog.records if one.levelno >= logging.WARNING]


@pytest.mark.parametrize("begins", ["never", "before", "meanwhile"])
def test_one_that_comes_on_as_the_instance_goes_is_off(stage, fake, node, instance, begins):
    def begin() -> None:
        wish = {"enabled": True}
        stage.channel.send("PUT", f"/nodes/{node}/states/console", json=wish, version="1.80")

    {"never": int, "before": begin, "meanwhile": lambda: just_before(fake, begin)}[begins]()
    stage.destroy(instance)
    wishes = [entry.body for entry in fake.requests.matching(".*", "/states/console$")]
    assert wishes == ([] if begins == "never" else [{"enabled": True}, {"enabled": False}])
    assert (is_on(fake, node), fake.node(node)["instance_uuid"]) == (False, None)


@pytest.mark.parametrize("refused", [False, True])
def test_a_console_that_stays_on_keeps_no_instance(stage, fake, node, instance, refused, caplog):
    serial(stage, instance)
    if refused:
        fake.faults.status(400, "PUT", "/states/console$", "no console here")
    else:
        fake.fail_next("console", "socat hangs", node)
    stage.destroy(instance)
    assert fake.node(node)["instance_uuid"] is None
    (told,) = [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]
    assert "can't be switched off before the instance goes" in told
    assert f"console disable {node}" in told


def test_a_locked_node_is_waited_for_a_minute_at_most(set_stage: SetStage) -> None:
    fake = FakeIronic(durations=Durations(console=3, undeploy=20))
    stage = set_stage(fake, unprovision_timeout=70)
    node = fake.add_node(resource_class="gold")
    instance = stage.instance(node)
    stage.spawn(instance, vifs=[])
    serial_line(fake, node)
    serial(stage, instance)
    fake.lock_node(node)
    began = fake.clock.now()
    record = fake.bm.store.nodes.get(node)
    fake.bm.timeline.after(90, lambda: fake.bm.update(record, reservation=None))
    stage.destroy(instance)
    assert fake.node(node)["instance_uuid"] is None
    assert switched(fake)[1:] == []
    assert 60 <= fake.clock.now() - began < 160


def test_a_protected_node_keeps_its_console(stage, fake, node, instance) -> None:
    serial(stage, instance)
    fake.set_node(node, protected=True, protected_reason="runs the till")
    with pytest.raises(exceptions.TearDownFailed, match="protected"):
        stage.destroy(instance)
    assert is_on(fake, node)
