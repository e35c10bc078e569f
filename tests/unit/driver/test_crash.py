# SPDX-License-Identifier: Apache-2.0

"""The process dies at any request; called again, it ends as if nothing had happened."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ironic_virt import exceptions, virt
from ironic_virt.driver.deploy.rebuild_info import MARK
from ironic_virt.testing.fake_ironic import Durations, FakeIronic
from tests.crashing import Crash
from tests.unit.driver.conftest import DURATIONS
from tests.unit.driver.stage import INSTANCE, OTHER_IMAGE, Stage, make_conf

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


def crashes(
    directory: Path,
    before: Act | None,
    act: Act,
    prepare: Any,
    after: bool,
    *,
    durations: Durations = DURATIONS,
    **options: Any,
) -> Any:
    """Every stage on which ``act`` died at a request: at the first, the second, ...

    Ends with the first request at which it no longer dies.
    """
    conf = make_conf(directory, **options)
    for at in range(1, MOST_REQUESTS):
        fake = FakeIronic(durations=durations)
        node = fake.add_node(ports=1, resource_class="gold")
        prepare(fake, node)
        if before is not None:
            stage = Stage(fake, conf)
            before(stage, node)
            stage.driver.cleanup_host()
        stage = Stage(fake, conf, crash_at=at, crash_after=after)
        try:
            act(stage, node)
        except Crash as crash:
            yield at, str(crash), stage.restarted(), node
        else:
            assert at > 3, "it should have died in between"
            return
        finally:
            stage.driver.cleanup_host()
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
        restarted.driver.cleanup_host()


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("undo", [destroy, clean_up])
def test_what_spawn_left_can_be_taken_off(
    untouched: dict[str, Any], tmp_path: Path, undo: Act, after: bool
) -> None:
    for at, where, restarted, node in crashes(tmp_path, None, spawn, nothing, after):
        undo(restarted, node)
        assert restarted.trace(node) == untouched, f"died at request {at}, {where}"
        restarted.driver.cleanup_host()


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_destroy_goes_on(untouched: dict[str, Any], tmp_path: Path, after: bool) -> None:
    for at, where, restarted, node in crashes(tmp_path, spawn, destroy, nothing, after):
        destroy(restarted, node)
        assert restarted.trace(node) == untouched, f"died at request {at}, {where}"
        assert restarted.provision_requests("deleted") == 1, f"died at request {at}, {where}"
        restarted.driver.cleanup_host()


def rebuild(stage: Stage, node: str) -> None:
    stage.rebuild(stage.instance(node))


def failing_rebuild(stage: Stage, node: str) -> None:
    with pytest.raises(exceptions.RebuildFailed, match="disk broken"):
        rebuild(stage, node)


def without_its_mark(trace: dict[str, Any]) -> dict[str, Any]:
    """A trace, but for the time at which the rebuild began."""
    told = {**trace["instance_info"]}
    assert told.pop(MARK)["wish"] == "req-1"
    return {**trace, "instance_info": told}


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_rebuild_goes_on(stage: Stage, node: str, tmp_path: Path, after: bool) -> None:
    spawn(stage, node)
    rebuild(stage, node)
    whole = without_its_mark(stage.trace(node))
    assert whole["instance_info"]["image_source"] == OTHER_IMAGE.id
    for at, where, restarted, again in crashes(tmp_path, spawn, rebuild, nothing, after):
        rebuild(restarted, again)
        trace = without_its_mark(restarted.trace(again))
        assert trace == whole, f"died at request {at}, {where}"
        assert restarted.provision_requests("rebuild") == 1, f"died at request {at}, {where}"
        restarted.driver.cleanup_host()


POWER_CALLS: dict[str, tuple[str, Act]] = {
    "on": (
        "power off",
        lambda stage, node: stage.driver.power_on(stage.instance(node)),
    ),
    "off": ("power on", lambda stage, node: stage.driver.power_off(stage.instance(node))),
    "soft off": (
        "power on",
        lambda stage, node: stage.driver.power_off(stage.instance(node), timeout=30),
    ),
    "reboot": (
        "power on",
        lambda stage, node: stage.driver.reboot(stage.instance(node), "HARD"),
    ),
    "soft reboot": (
        "power on",
        lambda stage, node: stage.driver.reboot(stage.instance(node), "SOFT"),
    ),
}


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("what", POWER_CALLS)
def test_a_power_call_goes_on(tmp_path: Path, what: str, after: bool) -> None:
    before, act = POWER_CALLS[what]

    def spawned(stage: Stage, node: str) -> None:
        spawn(stage, node)
        stage.fake.set_node(node, power_state=before)

    wanted = "power off" if what.endswith("off") else "power on"
    before_it_waits = 3  # its versions, the node, the change
    for at, where, restarted, node in crashes(tmp_path, spawned, act, nothing, after):
        act(restarted, node)
        now = restarted.fake.node(node)
        assert (now["power_state"], now["target_power_state"]) == (wanted, None)
        asked = restarted.fake.requests.matching("PUT", "/states/power$")
        taken = [entry for entry in asked if entry.status == 202]
        # What had ended when the process died can't be told from what never began.
        most = 1 if at <= before_it_waits else 2
        assert 1 <= len(taken) <= most, f"died at request {at}, {where}"
        restarted.driver.cleanup_host()


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_rebuild_that_fails_has_failed_whoever_asks(tmp_path: Path, after: bool) -> None:
    def spawned(stage: Stage, node: str) -> None:
        spawn(stage, node)
        deploy_fails(stage.fake, node)

    for at, where, restarted, node in crashes(tmp_path, spawned, failing_rebuild, nothing, after):
        failing_rebuild(restarted, node)
        assert restarted.trace(node)["provision_state"] == "deploy failed"
        assert restarted.provision_requests("rebuild") == 1, f"died at request {at}, {where}"
        restarted.driver.cleanup_host()


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_failed_deployment_is_undone_in_the_end(
    untouched: dict[str, Any], tmp_path: Path, after: bool
) -> None:
    for at, where, restarted, node in crashes(tmp_path, None, failing_spawn, deploy_fails, after):
        clean_up(restarted, node)
        assert restarted.trace(node) == untouched, f"died at request {at}, {where}"
        restarted.driver.cleanup_host()


def reserve(stage: Stage, node: str) -> None:
    stage.driver.prepare_for_spawn(stage.instance(node))


def interrupted_before_deploying(stage: Stage, node: str) -> None:
    """Reserved, configured, a VIF attached, and then no more."""
    reserve(stage, node)
    stage.fake.faults.status(400, "PUT", "/provision$", body="not now")
    stage.fake.faults.status(503, "PATCH", count=None, when=_takes_off)
    with pytest.raises(exceptions.DeployFailed, match="not now"):
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
        restarted.driver.cleanup_host()


# -- when Ironic picks the node ------------------------------------------------


def pooled(stage: Stage) -> virt.Instance:
    """Our instance, for which a pool was chosen and no node."""
    flavor = virt.Flavor("bm", extra_specs={"resources:CUSTOM_GOLD": "1"})
    return dataclasses.replace(stage.instance("gold~compute1"), flavor=flavor)


def spawn_anywhere(stage: Stage, node: str) -> None:
    stage.spawn(pooled(stage))


def destroy_anywhere(stage: Stage, node: str) -> None:
    stage.destroy(pooled(stage))


def clean_up_anywhere(stage: Stage, node: str) -> None:
    stage.driver.failed_spawn_cleanup(pooled(stage))


def left(stage: Stage) -> list[tuple[str, str | None]]:
    """The allocations, and every node that carries our instance."""
    stage.fake.settle()
    carried = [one["uuid"] for one in stage.fake.nodes() if one["instance_uuid"] == INSTANCE]
    return [*((one["uuid"], one["node_uuid"]) for one in stage.fake.allocations()), *carried]


def crashes_anywhere(directory: Path, before: Act | None, act: Act, after: bool) -> Any:
    """As :func:`crashes`, with ``node_selection = ironic``, on three nodes."""
    several = dataclasses.replace(DURATIONS, allocate=0.3)
    return crashes(
        directory,
        before,
        act,
        lambda fake, node: [fake.add_node(ports=1, resource_class="gold") for _ in range(2)],
        after,
        durations=several,
        node_selection="ironic",
    )


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_spawn_on_any_node_goes_on(tmp_path: Path, after: bool) -> None:
    for at, where, restarted, _ in crashes_anywhere(tmp_path, None, spawn_anywhere, after):
        spawn_anywhere(restarted, "")
        [(uuid, node), carrier] = left(restarted)
        assert (uuid, node) == (INSTANCE, carrier), f"died at request {at}, {where}"
        assert restarted.trace(carrier)["provision_state"] == "active"
        assert restarted.provision_requests("active") == 1, f"died at request {at}, {where}"
        restarted.driver.cleanup_host()


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("undo", [destroy_anywhere, clean_up_anywhere])
def test_what_spawn_on_any_node_left_can_be_taken_off(
    untouched: dict[str, Any], tmp_path: Path, undo: Act, after: bool
) -> None:
    for at, where, restarted, _ in crashes_anywhere(tmp_path, None, spawn_anywhere, after):
        undo(restarted, "")
        assert left(restarted) == [], f"died at request {at}, {where}"
        for node in restarted.fake.nodes():
            assert restarted.trace(node["uuid"]) == untouched, f"died at request {at}, {where}"
        restarted.driver.cleanup_host()


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_destroy_on_any_node_goes_on(
    untouched: dict[str, Any], tmp_path: Path, after: bool
) -> None:
    for at, where, restarted, _ in crashes_anywhere(
        tmp_path, spawn_anywhere, destroy_anywhere, after
    ):
        destroy_anywhere(restarted, "")
        assert left(restarted) == [], f"died at request {at}, {where}"
        for node in restarted.fake.nodes():
            assert restarted.trace(node["uuid"]) == untouched, f"died at request {at}, {where}"
        restarted.driver.cleanup_host()
