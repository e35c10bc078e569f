# SPDX-License-Identifier: Apache-2.0

"""Waits for a node: what is reported of them, and what they cost."""

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from ironic_virt import exceptions, virt
from ironic_virt.driver.held import PATIENCE, is_refusal
from ironic_virt.testing.fake_ironic import Durations, FakeIronic
from tests.unit.driver.stage import INSTANCE, Act, SetStage, Stage


class Counts(virt.Metrics):
    """What is counted of waits, ``ended`` when they have ended, and of the steps of builds."""

    def __init__(self) -> None:
        self.waits: list[str] = []
        self.steps: list[str] = []

    @contextlib.contextmanager
    def step(self, name: str) -> Iterator[None]:
        self.steps.append(name)
        yield

    @contextlib.contextmanager
    def waiting(self, kind: str) -> Iterator[None]:
        self.waits.append(kind)
        yield
        self.waits.append("ended")


def spawned_again(stage: Stage, instance: virt.Instance) -> None:
    stage.destroy(instance)
    stage.fake.advance(60)
    stage.spawn(instance)


def interrupted(stage: Stage, instance: virt.Instance) -> None:
    stage.destroy(instance)
    stage.fake.advance(60)
    stage.fake.requests.clear()
    stage.die_while_it_deploys(instance)


def carried_on(stage: Stage, instance: virt.Instance) -> None:
    interrupted(stage, instance)
    stage.spawn(instance)


def finished(stage: Stage, instance: virt.Instance) -> None:
    interrupted(stage, instance)
    stage.driver.finish_spawn(instance)


WAITS: dict[str, tuple[Act, str, str]] = {
    "destroyed": (Stage.destroy, "tear down", "deleting"),
    "rebuilt": (Stage.rebuild, "rebuild", "deploying"),
    "spawned again": (spawned_again, "deploy", "deploying"),
    "carried on": (carried_on, "deploy", "deploying"),
    "finished": (finished, "deploy", "deploying"),
    "rescued": (Stage.rescue, "rescue", "rescuing"),
    "off": (lambda stage, instance: stage.driver.power_off(instance), "power", "active"),
}


@pytest.mark.parametrize(("act", "kind", "state"), WAITS.values(), ids=list(WAITS))
def test_waiting_instances_are_counted_and_found_on_their_nodes(stage, instance, act, kind, state):
    stage.service.metrics = Counts()
    wait = stage.driver._site.watcher.wait
    asked: list[dict[str, Any]] = []

    def noted(*args: Any, **more: Any) -> Any:
        asked.append(more)
        return wait(*args, **more)

    stage.driver._site.watcher.wait = noted  # type: ignore[method-assign]
    act(stage, instance)
    assert stage.service.metrics.waits[-2:] == [kind, "ended"]
    # One list serves all waits for nodes in one state.
    assert (asked[-1]["state"], asked[-1]["instance"]) == (state, INSTANCE)
    # What takes minutes on hardware is looked at seldom.
    is_long = kind in {"deploy", "rebuild", "rescue"}
    assert asked[-1].get("patience") == (PATIENCE if is_long else None)


@pytest.mark.parametrize("storage", ["noop", "external"])
def test_the_steps_of_a_build_are_counted(stage: Stage, fake: FakeIronic, storage: str) -> None:
    stage.service.metrics = Counts()
    node = fake.add_node(ports=1, resource_class="gold", storage_interface=storage)
    stage.spawn(stage.instance(node))
    # Ironic itself asks the other interfaces when it deploys.
    asked = ["validating"] if storage == "external" else []
    assert stage.service.metrics.steps == ["reserving", "configuring", *asked, "deploying"]
    told = [f"{step}: available" for step in stage.service.metrics.steps]
    assert stage.service.reports == [*told, "deploying: deploying", "active: active"]


@pytest.mark.parametrize("act", [Stage.destroy, Stage.rebuild], ids=["destroy", "rebuild"])
def test_what_a_wait_has_shown_is_not_read_again(stage, fake, node, instance, act) -> None:
    stage.refresh()
    reads: list[Any] = []
    get_node = stage.driver._site.client.get_node

    def read(*args: Any, **more: Any) -> Any:
        reads.append(args)
        return get_node(*args, **more)

    stage.service.has_drive = False
    stage.driver._site.client.get_node = read  # type: ignore[method-assign]
    act(stage, instance)
    assert reads == []
    seen = stage.driver._site.nodes.inventory.snapshot.nodes[node]
    assert seen.provision_state == fake.node(node)["provision_state"]


@pytest.mark.parametrize("console", [False, True])
@pytest.mark.parametrize(
    ("undeploy", "limit"), [(60, 0), (200, 20)], ids=["without a limit", "given up"]
)
def test_a_tear_down_has_its_time_and_its_error_names_the_server(
    set_stage, console, undeploy, limit
) -> None:
    fake = FakeIronic(durations=Durations(deploy=5, undeploy=undeploy, clean=30, power=2))
    stage = set_stage(fake, unprovision_timeout=limit)
    node = fake.add_node(ports=1, resource_class="gold")
    instance = stage.active(node)
    fake.set_node(node, console_enabled=console)
    began = fake.clock.now()
    # Nobody has to want it.
    stage.service.unwanted = "the server is being deleted"
    if not limit:
        stage.destroy(instance)
        assert fake.node(node)["instance_uuid"] is None
        return
    with pytest.raises(exceptions.WaitTimeout, match="unprovision_timeout") as caught:
        stage.destroy(instance)
    assert (caught.value.node, caught.value.instance) == (node, INSTANCE)
    assert 20 <= fake.clock.now() - began < 60


def unrescued(stage: Stage, instance: virt.Instance) -> None:
    stage.rescue(instance)
    stage.fake.requests.clear()
    stage.unrescue(instance)


ENDS: dict[str, tuple[Act, str]] = {
    "spawned": (spawned_again, "active"),
    "destroyed": (Stage.destroy, "deleted"),
    "rebuilt": (Stage.rebuild, "rebuild"),
    "rescued": (Stage.rescue, "rescue"),
    "unrescued": (unrescued, "unrescue"),
    "off": (lambda stage, instance: stage.driver.power_off(instance), "power off"),
}


def no_looks_after(stage: Stage, target: str, seconds: float, *, act: Act | None = None) -> None:
    """Have Ironic answer no look for so long after a change was asked for.

    :param act: what happens when the first one is not answered.
    """

    def is_away(*_: Any) -> bool:
        asked = [
            entry.when
            for entry in stage.fake.requests.matching("PUT", "/states/")
            if entry.body["target"] == target
        ]
        away = bool(asked) and stage.fake.clock.now() < asked[-1] + seconds
        if away and act is not None:
            act(stage, stage.instance(None))
        return away

    stage.fake.faults.status(503, "GET", count=None, when=is_away)


@pytest.fixture
def hasty(fake: FakeIronic, set_stage: SetStage, instance: virt.Instance) -> Stage:
    """The stage of an instance that is on, where each wait is given 20 s."""
    limits = ("deploy_timeout", "unprovision_timeout", "rescue_timeout", "power_timeout")
    stage = set_stage(fake, **dict.fromkeys(limits, 20))
    fake.set_node(str(instance.node), power_state="power on")
    return stage


@pytest.mark.parametrize(("act", "target"), ENDS.values(), ids=list(ENDS))
def test_an_action_that_ended_in_an_outage_is_done(hasty, instance, act, target) -> None:
    no_looks_after(hasty, target, 50)
    act(hasty, instance)
    asked = [entry.body["target"] for entry in hasty.fake.requests.matching("PUT", "/states/")]
    assert asked[-1] == target


def test_a_deadline_that_nobody_sees_is_a_timeout_that_says_so(hasty, instance) -> None:
    began = hasty.fake.clock.now()
    no_looks_after(hasty, "rebuild", 500)
    with pytest.raises(exceptions.RebuildFailed, match="timed out") as caught:
        hasty.rebuild(instance)
    cause = caught.value.__cause__
    assert isinstance(cause, exceptions.WaitTimeout)
    assert "Can't ask Ironic" in str(cause.__notes__)
    assert hasty.fake.clock.now() < began + 200


def test_a_service_that_stops_waits_for_no_answer_at_a_deadline(hasty, instance) -> None:
    def stop(stage: Stage, _: virt.Instance) -> None:
        if stage.fake.clock.now() > asked_at + 30:
            stage.driver.cleanup_host()

    asked_at = hasty.fake.clock.now()
    no_looks_after(hasty, "rebuild", 500, act=stop)
    with pytest.raises(exceptions.WaitCancelled):
        hasty.rebuild(instance)


@pytest.mark.parametrize(
    ("error", "is_no"),
    [
        (exceptions.Conflict("no", status=409), True),
        (exceptions.BadRequest("no", status=400), True),
        (exceptions.IronicUnavailable("later", status=503), False),
        (exceptions.UnexpectedAnswer("what?", status=200), False),
        (exceptions.IronicUnreachable("nobody"), False),
    ],
)
def test_only_an_answer_that_says_no_is_a_refusal(error, is_no) -> None:
    assert is_refusal(error) is is_no
