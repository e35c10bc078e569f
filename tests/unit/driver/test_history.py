# SPDX-License-Identifier: Apache-2.0

"""What an error says of a node's history, and what it costs."""

import types
from typing import Any

import pytest

from ironic_virt import exceptions
from ironic_virt.baremetal.history import NodeEvent
from ironic_virt.driver import history
from ironic_virt.testing.fake_ironic import Durations, FakeIronic
from tests.unit.driver.stage import SetStage, Stage

ORIGIN = "Ironic's history of the node: ERROR, {kind}, by conductor-1, at 20"


STEPS = [
    pytest.param((), Stage.spawn, "deploy", "deploying", id="spawn"),
    pytest.param((Stage.spawn,), Stage.rebuild, "deploy", "deploying", id="rebuild"),
    pytest.param((Stage.spawn,), Stage.rescue, "rescue", "rescue", id="rescue"),
    pytest.param((Stage.spawn, Stage.rescue), Stage.unrescue, "unrescue", "rescue", id="unrescue"),
    pytest.param((Stage.spawn,), Stage.destroy, "undeploy", "unprovision", id="destroy"),
]


def history_requests(fake: FakeIronic) -> int:
    return len(fake.requests.matching("GET", "/history$"))


@pytest.mark.parametrize(("before", "act", "operation", "kind"), STEPS)
def test_an_error_ends_with_what_the_history_has_of_the_step(
    stage, fake, node, before, act, operation, kind
) -> None:
    instance = stage.instance(node)
    for one in before:
        one(stage, instance)
    assert history_requests(fake) == 0, "what succeeds costs nothing"
    fake.fail_next(operation, "the disk is gone", count=2)
    with pytest.raises(exceptions.NodeError, match="the disk is gone") as caught:
        act(stage, instance)
    [note] = caught.value.__notes__
    assert note.startswith(ORIGIN.format(kind=kind)), "and the text is not said twice"
    assert history_requests(fake) == 1


def test_an_old_server_that_can_not_sort_is_asked_for_all(stage, fake, node) -> None:
    """Ironic 24.1 refuses ``sort_dir``."""
    fake.fail_next("deploy", "the disk is gone")
    fake.faults.status(400, method="GET", path="/history$")
    with pytest.raises(exceptions.DeployFailed, match="the disk is gone") as caught:
        stage.spawn(stage.instance(node))
    [note] = caught.value.__notes__
    assert note.startswith(ORIGIN.format(kind="deploying"))
    asked = [request.query for request in fake.requests.matching("GET", "/history$")]
    assert ["sort_dir" in query for query in asked] == [True, False]


@pytest.mark.parametrize(
    "trouble",
    [{"status": 403}, {"status": 503}, {"status": 200, "body": b"<html>"}, {"status": 404}],
    ids=lambda trouble: str(trouble["status"]),
)
def test_a_history_that_can_not_be_read_changes_nothing(stage, fake, node, trouble) -> None:
    fake.fail_next("deploy", "the disk is gone")
    fake.faults.status(method="GET", path="/history$", count=None, **trouble)
    before = stage.trace(node)
    with pytest.raises(exceptions.DeployFailed, match="the disk is gone") as caught:
        stage.spawn(stage.instance(node))
    assert not hasattr(caught.value, "__notes__")
    assert history_requests(fake) == 1, "it is asked once, whatever comes of it"
    fake.settle()
    assert stage.trace(node) == before | {"last_error": fake.node(node)["last_error"]}


def test_what_was_refused_has_no_history(stage, fake, instance) -> None:
    fake.faults.status(400, "PUT", "/states/provision$", body="not in this state")
    with pytest.raises(exceptions.RebuildFailed, match="not in this state") as caught:
        stage.rebuild(instance)
    assert history_requests(fake) == 0
    assert not hasattr(caught.value, "__notes__")


def test_a_step_that_takes_too_long_names_the_last_event(set_stage: SetStage) -> None:
    fake = FakeIronic(durations=Durations(deploy=10_000))
    stage = set_stage(fake, deploy_timeout=60, unprovision_timeout=5)
    with pytest.raises(exceptions.WaitTimeout, match="deploy_timeout") as caught:
        stage.spawn(stage.instance(fake.add_node(ports=1)))
    note = caught.value.__notes__[0]
    assert "Starting deployment with steps=[{'step': 'deploy', " in note
    assert "(INFO, deployment_start, by conductor-1, at 20" in note


# -- a reason that Ironic has erased ---------------------------------------------

CHECKSUM = (
    "Deploy step deploy.write_image failed: Agent returned error for command standby.prepare_image"
    ": Error verifying image checksum: Image failed to verify against checksum. location: /dev/vda"
)


def by_virtual_media(set_stage: SetStage) -> tuple[FakeIronic, Stage, str]:
    fake = FakeIronic(durations=Durations(deploy=5, power=40), virtual_media=True)
    return fake, set_stage(fake), fake.add_node(ports=1)


@pytest.mark.parametrize(
    ("act", "said", "kind"),
    [
        (Stage.spawn, CHECKSUM, exceptions.ImageRefused),
        (Stage.spawn, "the disk is gone", exceptions.DeployFailed),
        (Stage.rebuild, CHECKSUM, exceptions.RebuildFailed),
    ],
)
def test_a_reason_that_is_erased_is_read_from_the_history(set_stage, act, said, kind) -> None:
    """On real hardware the power goes off after the failure, and the reason with it."""
    fake, stage, node = by_virtual_media(set_stage)
    instance = stage.active(node) if act is Stage.rebuild else stage.instance(node)
    fake.fail_next("deploy", said)
    with pytest.raises(exceptions.NodeError, match="failed: ") as caught:
        act(stage, instance)
    assert type(caught.value) is kind, "whether another node is tried depends on it"
    assert (caught.value.last_error, said in caught.value.reason) == (said, True)


@pytest.mark.parametrize("trouble", [{"status": 403}, {"status": 200, "body": {"history": []}}])
def test_a_reason_that_is_nowhere_is_said_to_be_lacking(set_stage, trouble) -> None:
    fake, stage, node = by_virtual_media(set_stage)
    fake.fail_next("deploy", "the disk is gone")
    fake.faults.status(method="GET", path="/history$", count=None, **trouble)
    with pytest.raises(exceptions.DeployFailed, match="Ironic gives no reason"):
        stage.spawn(stage.instance(node))


# -- which event, and in which words -------------------------------------------


def event(text: str, severity: str = "ERROR", at: str | None = None, **more: Any) -> NodeEvent:
    return NodeEvent(uuid="e", event=text, severity=severity, created_at=at, **more)


def test_a_failure_has_the_event_that_its_error_was_written_with() -> None:
    older, newer = event("it broke", event_type="old"), event("it broke", event_type="new")
    events = [event("something else"), event("it broke", "INFO"), newer, older]
    newest = types.SimpleNamespace(newest=lambda *_: events)
    client: Any = types.SimpleNamespace(single_try=lambda: types.SimpleNamespace(history=newest))
    broke, other = (
        exceptions.DeployFailed("n", "i", "why", last_error=said) for said in ("it broke", "no")
    )
    history.explain_error(client, broke)
    history.explain_error(client, other)
    assert broke.__notes__ == [history.in_words(newer)]
    assert not hasattr(other, "__notes__")


@pytest.mark.parametrize(
    ("at", "since", "counts"),
    [
        ("2026-11-21T23:08:21.550483+00:00", "2026-11-21T23:08:21+00:00", True),
        ("2026-11-21T23:08:21+00:00", "2026-11-21T23:08:21.900000+00:00", True),
        ("2026-11-21T23:08:20.999999+00:00", "2026-11-21T23:08:21+00:00", False),
        ("2026-11-21T23:08:22", "2026-11-21T23:08:21+00:00", True),
        ("yesterday", "2026-11-21T23:08:21+00:00", False),
        ("2026-11-21T23:08:22+00:00", None, False),
        (None, "2026-11-21T23:08:21+00:00", False),
    ],
)
def test_an_event_of_a_former_step_does_not_count(at, since, counts) -> None:
    newest = event("x", at=at)
    assert (history.newest_since([newest, event("y", at=at)], since) is newest) is counts
    assert history.newest_since([], since) is None


def test_the_reason_is_the_last_error_before_the_failed_state() -> None:
    at = "2026-11-21T23:{}:21+00:00".format
    end, reason = event("aborted", at=at(10), event_type="deployment_end"), event("x", at=at(10))
    former = event("y", at=at("08"))
    vif = event("no free port", at=at(11), event_type="available")
    events = [event("info", "INFO", at=at(11)), vif, end, reason, former]
    assert history.before_clean_up(events, at(11)) is reason
    assert history.before_clean_up(events, at(40)) is None, "they are of a former deployment"
    assert history.before_clean_up(events, None) is None
    assert history.before_clean_up([], at(11)) is None


def test_an_event_is_one_line_and_bounded() -> None:
    told = history.in_words(event("a\nb" + "c" * 5000, conductor="c1", event_type="t", at="then"))
    assert told.startswith("Ironic's history of the node: a bccc")
    assert told.endswith("... (5003 characters) (ERROR, t, by c1, at then)")
    assert len(told) < 400
