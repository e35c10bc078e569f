# SPDX-License-Identifier: Apache-2.0

"""Waits for a node: what is told of them, and what they cost."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ironic_virt import exceptions, virt
from ironic_virt.driver.change import Change, is_refusal
from ironic_virt.testing.fake_ironic import Durations, FakeIronic
from tests.unit.driver.stage import INSTANCE, Stage

Act = Callable[[Stage, virt.Instance], None]


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
    """A process dies while it waits for its deployment."""

    def dies() -> None:
        if stage.provision_requests("active"):
            raise SystemExit

    stage.destroy(instance)
    stage.fake.advance(60)
    stage.fake.requests.clear()
    stage.service.on_abort_question = dies
    with pytest.raises(SystemExit):
        stage.spawn(instance)
    stage.service.on_abort_question = None


def carried_on(stage: Stage, instance: virt.Instance) -> None:
    interrupted(stage, instance)
    stage.spawn(instance)


def finished(stage: Stage, instance: virt.Instance) -> None:
    interrupted(stage, instance)
    stage.driver.finish_spawn(instance)


def rescued(stage: Stage, instance: virt.Instance) -> None:
    stage.driver.rescue(instance, "secret of a day")


def powered_off(stage: Stage, instance: virt.Instance) -> None:
    stage.driver.power_off(instance)


WAITS: list[tuple[Act, str, str]] = [
    (Stage.destroy, "tear down", "deleting"),
    (Stage.rebuild, "rebuild", "deploying"),
    (spawned_again, "deploy", "deploying"),
    (carried_on, "deploy", "deploying"),
    (finished, "deploy", "deploying"),
    (rescued, "rescue", "rescuing"),
    (powered_off, "power", "active"),
]


@pytest.mark.parametrize(
    ("act", "kind", "state"), WAITS, ids=[act.__name__ for act, _, _ in WAITS]
)
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
    stage.driver.get_available_nodes(refresh=True)
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


def slow_to_end(
    set_stage: Callable[..., Stage], undeploy: float, timeout: int, console: bool
) -> tuple[Stage, virt.Instance]:
    """An instance whose tear-down takes so many seconds, and its stage."""
    fake = FakeIronic(durations=Durations(deploy=5, undeploy=undeploy, clean=30, power=2))
    stage = set_stage(fake, unprovision_timeout=timeout)
    node = fake.add_node(ports=1, resource_class="gold")
    instance = stage.active(node)
    fake.set_node(node, console_enabled=console)
    return stage, instance


@pytest.mark.parametrize("console", [False, True])
def test_without_a_limit_a_tear_down_is_waited_for_as_long_as_it_takes(
    set_stage: Callable[..., Stage], console: bool
) -> None:
    stage, instance = slow_to_end(set_stage, 60, 0, console)
    # Nobody has to want it.
    stage.service.unwanted = "the server is being deleted"
    stage.destroy(instance)
    assert stage.fake.node(instance.node or "")["instance_uuid"] is None


@pytest.mark.parametrize("console", [False, True])
def test_a_wait_that_is_given_up_names_the_server(
    set_stage: Callable[..., Stage], console: bool
) -> None:
    stage, instance = slow_to_end(set_stage, 200, 20, console)
    began = stage.fake.clock.now()
    with pytest.raises(exceptions.WaitTimeout, match="unprovision_timeout") as caught:
        stage.destroy(instance)
    assert (caught.value.node, caught.value.instance) == (instance.node, INSTANCE)
    assert 20 <= stage.fake.clock.now() - began < 60


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
