# SPDX-License-Identifier: Apache-2.0

"""The process dies at any request; called again, it ends as if nothing had happened."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ironic_virt import exceptions
from ironic_virt.testing.fake_ironic import FakeIronic
from tests.crashing import Crash
from tests.unit.driver.conftest import DURATIONS
from tests.unit.driver.stage import Stage, make_conf

Act = Callable[[Stage, str], None]
MOST_REQUESTS = 200


def spawn(stage: Stage, node: str) -> None:
    stage.spawn(stage.instance(node))


def destroy(stage: Stage, node: str) -> None:
    stage.destroy(stage.instance(node))


def clean_up(stage: Stage, node: str) -> None:
    stage.driver.failed_spawn_cleanup(stage.instance(node))


def failing_spawn(stage: Stage, node: str) -> None:
    with pytest.raises(exceptions.DeployFailed):
        spawn(stage, node)


def crashes(directory: Path, before: Act | None, act: Act, prepare: Any, after: bool) -> Any:
    """Every stage on which ``act`` died at a request: at the first, the second, ...

    Ends with the first request at which it no longer dies.
    """
    conf = make_conf(directory)
    for at in range(1, MOST_REQUESTS):
        fake = FakeIronic(durations=DURATIONS)
        node = fake.add_node(ports=1, resource_class="gold")
        prepare(fake, node)
        if before is not None:
            stage = Stage(fake, conf)
            before(stage, node)
            stage.driver.cleanup_host("compute1")
        stage = Stage(fake, conf, crash_at=at, crash_after=after)
        try:
            act(stage, node)
        except Crash as crash:
            yield at, str(crash), stage.restarted(), node
        else:
            assert at > 3, "it should have died in between"
            return
        finally:
            stage.driver.cleanup_host("compute1")
    pytest.fail("it never came to an end")


def nothing(fake: FakeIronic, node: str) -> None:
    pass


def deploy_fails(fake: FakeIronic, node: str) -> None:
    fake.fail_next("deploy", "disk broken", node)


@pytest.fixture
def untouched(stage: Stage, node: str) -> dict[str, Any]:
    """What a free node looks like."""
    return stage.trace(node)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_spawn_goes_on(stage: Stage, node: str, tmp_path: Path, after: bool) -> None:
    spawn(stage, node)
    whole = stage.trace(node)
    assert (whole["provision_state"], len(whole["vifs"])) == ("active", 1)
    for at, where, restarted, again in crashes(tmp_path, None, spawn, nothing, after):
        spawn(restarted, again)
        assert restarted.trace(again) == whole, f"died at request {at}, {where}"
        assert restarted.provision_requests("active") == 1, f"died at request {at}, {where}"
        restarted.driver.cleanup_host("compute1")


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("undo", [destroy, clean_up])
def test_what_spawn_left_can_be_taken_off(
    untouched: dict[str, Any], tmp_path: Path, undo: Act, after: bool
) -> None:
    for at, where, restarted, node in crashes(tmp_path, None, spawn, nothing, after):
        undo(restarted, node)
        assert restarted.trace(node) == untouched, f"died at request {at}, {where}"
        restarted.driver.cleanup_host("compute1")


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_destroy_goes_on(untouched: dict[str, Any], tmp_path: Path, after: bool) -> None:
    for at, where, restarted, node in crashes(tmp_path, spawn, destroy, nothing, after):
        destroy(restarted, node)
        assert restarted.trace(node) == untouched, f"died at request {at}, {where}"
        assert restarted.provision_requests("deleted") == 1, f"died at request {at}, {where}"
        restarted.driver.cleanup_host("compute1")


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_failed_deployment_is_undone_in_the_end(
    untouched: dict[str, Any], tmp_path: Path, after: bool
) -> None:
    for at, where, restarted, node in crashes(tmp_path, None, failing_spawn, deploy_fails, after):
        clean_up(restarted, node)
        assert restarted.trace(node) == untouched, f"died at request {at}, {where}"
        restarted.driver.cleanup_host("compute1")


def reserve(stage: Stage, node: str) -> None:
    stage.driver.prepare_for_spawn(stage.instance(node))


def interrupted_before_deploying(stage: Stage, node: str) -> None:
    """Reserved, configured, a VIF attached, and then no more."""
    reserve(stage, node)
    stage.fake.faults.status(400, "GET", "/validate$", body="not now")
    stage.fake.faults.status(503, "PATCH", count=None, when=_takes_off)
    with pytest.raises(exceptions.BadRequest):
        stage.spawn(stage.instance(node))
    stage.fake.faults.clear()
    assert stage.trace(node)["vifs"] == []
    stage.fake.requests.clear()


def _takes_off(method: str, path: str, body: Any) -> bool:
    return any(operation["op"] == "remove" for operation in body)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("before", [reserve, interrupted_before_deploying])
def test_taking_a_reservation_off_goes_on(
    untouched: dict[str, Any], tmp_path: Path, before: Act, after: bool
) -> None:
    for at, where, restarted, node in crashes(tmp_path, before, destroy, nothing, after):
        destroy(restarted, node)
        assert restarted.trace(node) == untouched, f"died at request {at}, {where}"
        assert restarted.provision_requests("deleted") == 0
        restarted.driver.cleanup_host("compute1")
