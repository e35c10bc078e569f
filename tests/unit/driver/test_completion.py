# SPDX-License-Identifier: Apache-2.0

"""What disturbs a deployment and says nothing of the node does not undo it."""

import contextlib
from collections.abc import Callable
from typing import Any

import pytest

from ironic_virt import exceptions, virt
from ironic_virt.driver.deploy import completion
from ironic_virt.driver.patience import Patience
from ironic_virt.testing.fake_ironic import FakeIronic
from tests.unit.driver.stage import IMAGE, INSTANCE, SetStage, Stage

HTML = b"<html><body>Sign in</body></html>"


@pytest.fixture
def brief(fake: FakeIronic, set_stage: SetStage) -> Stage:
    """A stage whose requests are not repeated, where a deployment is given a minute."""
    return set_stage(fake, api_max_retries=0, deploy_timeout=60)


@pytest.fixture
def begun(brief: Stage, node: str) -> virt.Instance:
    """An instance that is being deployed by a process that has died."""
    brief.die_while_it_deploys(brief.instance(node))
    brief.fake.requests.clear()
    return brief.instance(node)


DISTURBANCES: dict[str, Callable[[FakeIronic], object]] = {
    "500": lambda fake: fake.faults.status(500, "GET", "/nodes"),
    "401": lambda fake: fake.faults.status(401, "GET", "/nodes", count=5),
    "a proxy's 404": lambda fake: fake.faults.status(404, "GET", "/nodes", HTML),
    "a page": lambda fake: fake.faults.status(200, "GET", "/nodes", HTML),
    "half an answer": lambda fake: fake.faults.truncate("GET", "/nodes"),
}


@pytest.mark.parametrize("disturb", DISTURBANCES.values(), ids=list(DISTURBANCES))
def test_a_restart_finishes_a_deployment_past_any_answer(brief, begun, node, disturb) -> None:
    disturb(brief.fake)
    brief.driver.finish_spawn(begun)
    there = brief.fake.node(node)
    assert (there["provision_state"], there["instance_uuid"]) == ("active", INSTANCE)
    assert brief.provision_requests("deleted") == 0


def finish(stage: Stage, instance: virt.Instance) -> None:
    stage.die_while_it_deploys(instance)
    stage.driver.finish_spawn(instance)


@pytest.mark.parametrize("act", [Stage.spawn, finish])
def test_a_host_error_during_a_deployment_is_logged_only(brief, node, monkeypatch, caplog, act):
    report, broken = brief.service.report_progress, iter([True])

    def fail_once(instance: virt.InstanceLike, step: str, detail: str = "") -> None:
        if step == "active" and next(broken, False):
            raise RuntimeError("no memory left")
        report(instance, step, detail)

    monkeypatch.setattr(brief.service, "report_progress", fail_once)
    act(brief, brief.instance(node))
    assert brief.fake.node(node)["provision_state"] == "active"
    assert "[deploy-disturbed]" in caplog.text
    assert "no memory left" in caplog.text
    assert brief.provision_requests("active") == 1


def away_while_deploying(stage: Stage, node: str, seconds: float) -> None:
    """Have Ironic answer nothing for so long from when it deploys."""
    began: list[float] = []

    def is_away(*_: Any) -> bool:
        if not began and stage.fake.node(node)["provision_state"] == "deploying":
            began.append(stage.fake.clock.now())
        return bool(began) and stage.fake.clock.now() < began[0] + seconds

    stage.fake.faults.status(401, count=None, when=is_away)


@pytest.mark.parametrize("seconds", range(60, 200, 12))
def test_a_deployed_node_that_cannot_be_seen_is_not_torn_down(brief, node, seconds) -> None:
    away_while_deploying(brief, node, seconds)
    with contextlib.suppress(exceptions.WaitCancelled):
        brief.spawn(brief.instance(node))
    brief.fake.advance(60)
    there = brief.fake.node(node)
    assert (there["provision_state"], there["instance_uuid"]) == ("active", INSTANCE)


def test_after_a_restart_an_answer_is_waited_for_without_a_limit(brief, begun, node) -> None:
    away_while_deploying(brief, node, 5000)
    brief.driver.finish_spawn(begun)
    assert brief.fake.node(node)["provision_state"] == "active"
    assert max(brief.pauses) == 60


def test_a_node_unseen_for_very_long_is_left_to_a_later_call(brief: Stage, node: str) -> None:
    away_while_deploying(brief, node, 1000)
    instance = brief.instance(node)
    with pytest.raises(exceptions.WaitCancelled, match=f"Node {node}, .* left alone"):
        brief.spawn(instance)
    assert brief.fake.node(node)["instance_uuid"] == INSTANCE
    brief.fake.faults.clear()
    brief.spawn(instance)
    assert brief.fake.node(node)["provision_state"] == "active"
    assert brief.provision_requests("active") == 1


def test_an_unseen_node_is_asked_for_only_while_it_is_wanted(brief: Stage, node: str) -> None:
    away_while_deploying(brief, node, 1000)

    def unwanted() -> None:
        if len(brief.pauses) > 3:
            brief.service.unwanted = "the server is being deleted"

    brief.service.on_abort_question = unwanted
    with pytest.raises(exceptions.BuildAborted, match="being deleted"):
        brief.spawn(brief.instance(node))


def test_a_service_that_stops_asks_no_more(brief: Stage, begun: virt.Instance, node: str) -> None:
    brief.fake.faults.status(503, count=None)
    brief.stopping = True
    with pytest.raises(exceptions.WaitCancelled, match=f"Node {node}, .* service stops") as caught:
        brief.driver.finish_spawn(begun)
    assert isinstance(caught.value.__cause__, exceptions.IronicError)
    assert len(brief.pauses) == 1
    assert brief.fake.node(node)["instance_uuid"] == INSTANCE


@pytest.mark.parametrize("method", ["PATCH", "PUT"])
def test_what_had_not_begun_is_undone_with_the_first_error(brief, node, method) -> None:
    untouched = brief.trace(node)
    instance = brief.instance(node)
    brief.reserve(instance)
    brief.fake.faults.status(500, method, "", "the database is locked")
    with pytest.raises(exceptions.IronicError, match="database is locked"):
        brief.driver.spawn(virt.DeployRequest(instance, IMAGE, []))
    assert brief.trace(node) == untouched


def test_trouble_that_does_not_pass_is_an_error_in_the_end(brief, node, monkeypatch) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("no memory left")

    began = brief.fake.clock.now()
    monkeypatch.setattr(completion, "end_deployment", fail)
    with pytest.raises(RuntimeError, match="no memory left"):
        brief.spawn(brief.instance(node))
    assert 60 <= brief.fake.clock.now() - began < 200
    assert brief.fake.node(node)["instance_uuid"] is None


def test_trouble_that_passes_is_none_however_long_it_lasted(brief, node, monkeypatch) -> None:
    began, deployed = brief.fake.clock.now(), completion.end_deployment

    def fail_for_long(*args: Any, **kwargs: Any) -> Any:
        if brief.fake.clock.now() < began + 100:
            raise exceptions.IronicUnavailable("the API is away")
        return deployed(*args, **kwargs)

    monkeypatch.setattr(completion, "end_deployment", fail_for_long)
    brief.spawn(brief.instance(node))
    assert brief.fake.node(node)["provision_state"] == "active"


def test_a_stop_keeps_what_disturbed_the_deployment(brief, node, monkeypatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        brief.stopping = bool(brief.pauses)
        raise RuntimeError("no memory left")

    monkeypatch.setattr(completion, "end_deployment", fail)
    with pytest.raises(exceptions.WaitCancelled) as caught:
        brief.spawn(brief.instance(node))
    assert isinstance(caught.value.__cause__, RuntimeError)


def test_patience_begins_again_once_ironic_answers(brief: Stage, begun: virt.Instance) -> None:
    patience = Patience(brief.driver._site, begun, gives_up=True)
    patience.begin()
    patience.look()
    brief.fake.advance(30)
    brief.fake.faults.status(503, "GET", "/nodes")
    patience.look()
    brief.fake.advance(59)
    assert not patience.is_over
    brief.fake.advance(1)
    assert patience.is_over
