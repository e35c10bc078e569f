# SPDX-License-Identifier: Apache-2.0

"""Waits for a node: what is told of them, and what they cost."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from ironic_virt import exceptions, virt
from ironic_virt.driver.change import Change, is_refusal
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
def test_what_is_waited_for_is_counted_and_looked_for_where_it_is(
    stage: Stage, instance: virt.Instance, act: Act, kind: str, state: str
) -> None:
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


@pytest.mark.parametrize("storage", ["noop", "external"])
def test_the_steps_of_a_build_are_counted(stage: Stage, fake: FakeIronic, storage: str) -> None:
    stage.service.metrics = Counts()
    node = fake.add_node(ports=1, resource_class="gold", storage_interface=storage)
    stage.spawn(stage.instance(node))
    # Ironic itself asks the other interfaces when it is told to deploy.
    asked = ["validating"] if storage == "external" else []
    assert stage.service.metrics.steps == ["reserving", "configuring", *asked, "deploying"]
    told = [f"{step}: available" for step in stage.service.metrics.steps]
    assert stage.service.told == [*told, "deploying: deploying", "active: active"]


@pytest.mark.parametrize("act", [Stage.destroy, Stage.rebuild], ids=["destroy", "rebuild"])
def test_what_a_wait_has_shown_is_not_read_again(
    stage: Stage, fake: FakeIronic, node: str, instance: virt.Instance, act: Act
) -> None:
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
def test_a_tear_down_is_waited_for_as_long_as_it_takes_or_is_given_and_the_error_names_the_server(
    set_stage: SetStage, console: bool, undeploy: float, limit: int
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


def test_what_a_change_says_and_reads_is_of_its_node_and_server(
    stage: Stage, fake: FakeIronic, node: str, instance: virt.Instance
) -> None:
    change = Change.of(stage.driver._site, instance)
    error = change.error(exceptions.DeployFailed, "why")
    assert (error.node, error.instance) == (node, INSTANCE)
    fake.set_node(node, maintenance=True)
    seen = change.note(None)
    assert seen is not None
    assert (seen.uuid, seen.maintenance) == (node, True)


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
def test_only_an_answer_that_says_no_is_a_refusal(
    error: exceptions.IronicError, is_no: bool
) -> None:
    assert is_refusal(error) is is_no
