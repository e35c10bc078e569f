# SPDX-License-Identifier: Apache-2.0

"""Stories of a tear-down: from every state, repeatable, and never of another's node."""

import dataclasses
from typing import Any

import msgspec
import pytest

from ironic_virt import exceptions, virt
from ironic_virt.testing.fake_ironic import FakeIronic
from tests.unit.driver.conftest import DURATIONS
from tests.unit.driver.stage import (
    INSTANCE,
    STRANGER,
    Act,
    SetStage,
    Stage,
    find_locked,
    meanwhile,
)


def test_an_instance_leaves_its_node_without_a_trace_once(stage, fake, node) -> None:
    untouched = stage.trace(node)
    placed = stage.active(node)
    stage.destroy(placed)
    assert fake.node(node)["instance_uuid"] is None
    assert stage.service.reports == ["tearing down: active"]
    fake.requests.clear()
    stage.destroy(placed)
    assert fake.requests.mutating() == [], "it is gone already"
    assert stage.trace(node) == untouched
    stage.reserve(placed)
    stage.service.reports.clear()
    stage.destroy(placed)
    assert stage.service.reports == ["released: available"]


@pytest.mark.parametrize("undeploy", [0, 3, 60])
def test_a_request_whose_reply_is_lost_is_not_sent_again(set_stage, undeploy) -> None:
    fake = FakeIronic(durations=dataclasses.replace(DURATIONS, undeploy=undeploy))
    stage = set_stage(fake)
    placed = stage.active(fake.add_node(ports=1, resource_class="gold"))
    fake.faults.lose_reply("PUT", "/states/provision$")
    stage.destroy(placed)
    assert len(fake.requests.matching("PUT", "/states/provision$")) == 1


def test_a_refusal_is_no_failure_if_the_instance_left_its_node(stage, fake, node, instance):
    gone = meanwhile(lambda: fake.set_node(node, instance_uuid=None), hits=True)
    fake.faults.status(400, "PUT", "/states/provision$", when=gone)
    stage.destroy(instance)
    assert fake.node(node)["instance_uuid"] is None


def test_a_deployment_that_runs_is_torn_down_too(stage, fake, node) -> None:
    stage.reserve(stage.instance(node))
    fake.set_node(node, provision_state="deploying")

    # Ironic takes no other request in this state: it has to be waited for.
    def deployed(method: str, path: str, body: Any) -> bool:
        if fake.node(node)["provision_state"] == "deploying":
            fake.set_node(node, provision_state="active")
        return False

    fake.faults.delay(0, "GET", f"/nodes/{node}$", when=deployed)
    stage.destroy(stage.instance(node))
    assert fake.node(node)["instance_uuid"] is None
    assert stage.provision_requests("deleted") == 1


def test_a_node_that_is_freed_between_two_steps_ends_it(stage, fake, node) -> None:
    fake.set_node(node, instance_uuid=INSTANCE, provision_state="service hold")
    looks: list[str] = []

    def freed(*_: object) -> bool:
        looks.append(fake.node(node)["provision_state"])
        # The wait for the first step has ended by then.
        if looks.count("active") == 2:
            fake.set_node(node, instance_uuid=None)
        return False

    fake.faults.delay(0, "GET", when=freed, count=None)
    stage.destroy(stage.instance(node))
    assert looks.count("active") == 2
    assert [entry.method for entry in fake.requests if entry.method != "GET"] == ["PUT"]


def test_in_an_unknown_state_ironic_decides(stage: Stage, fake: FakeIronic, node: str) -> None:
    fake.set_node(
        node, instance_uuid=INSTANCE, provision_state="brand new", instance_info={"a": "b"}
    )
    with pytest.raises(exceptions.TearDownFailed, match=r"refused 'deleted'.*'brand new'"):
        stage.destroy(stage.instance(node))
    there = fake.node(node)
    assert (there["instance_uuid"], there["instance_info"]) == (INSTANCE, {"a": "b"})


def test_a_tear_down_that_fails_is_not_passed_off_as_done(stage, fake, node, instance) -> None:
    fake.fail_next("undeploy", "the BMC does not answer")
    with pytest.raises(exceptions.TearDownFailed, match="the BMC does not answer") as caught:
        stage.destroy(instance)
    assert (caught.value.node, caught.value.instance) == (node, INSTANCE)
    assert caught.value.last_error == fake.node(node)["last_error"]
    # Ironic has given the instance up and keeps the node for its operator.
    assert fake.node(node)["provision_state"] == "error"
    assert stage.driver.get_inventory(node).reserved == 1
    stage.destroy(instance)


@pytest.mark.parametrize(("state", "locked"), [("active", False), ("active", True), ("error", 0)])
def test_a_node_that_comes_back_with_its_server_is_asked_again(
    stage, fake, node, instance, state, locked
) -> None:
    """Not if it failed: then Ironic has said why."""
    record = fake.bm.store.nodes.get(node)

    def comes_back() -> None:
        # As after a conductor's death, or when an operator interferes.
        fake.bm.update(record, provision_state=state, last_error="no BMC", reservation=None)

    fake.bm.timeline.after(1, comes_back)
    if locked:
        find_locked(fake, "PUT", "/states/provision$")
    if state == "error":
        with pytest.raises(exceptions.TearDownFailed, match="no BMC"):
            stage.destroy(instance)
    else:
        stage.destroy(instance)
    assert stage.provision_requests("deleted") == (2 if state == "active" and not locked else 1)
    assert fake.node(node)["instance_uuid"] == (INSTANCE if state == "error" else None)


def test_maintenance_and_a_failed_cleaning_are_the_operators(stage, fake, node, instance) -> None:
    fake.set_node(node, maintenance=True)
    fake.fail_next("clean", "disk is stuck")
    stage.destroy(instance)
    assert fake.node(node)["instance_uuid"] is None
    fake.settle()
    assert fake.node(node)["provision_state"] == "clean failed"
    assert fake.node(node)["instance_uuid"] is None


OTHER_VIF = virt.Vif("5f1f0000-0000-4000-8000-000000000002")
ACTS: dict[str, Act] = {
    "unrescue": Stage.unrescue,
    "reboot": lambda stage, instance: stage.driver.reboot(instance, "HARD"),
    "power off": lambda stage, instance: stage.driver.power_off(instance),
    "power on": lambda stage, instance: stage.driver.power_on(instance),
    "NMI": lambda stage, instance: stage.driver.trigger_crash_dump(instance),
    "attach": lambda stage, instance: stage.driver.attach_interface(instance, OTHER_VIF),
    "detach": lambda stage, instance: stage.driver.detach_interface(instance, OTHER_VIF),
    "serial console": lambda stage, instance: stage.driver.get_serial_console(instance),
    "VNC console": lambda stage, instance: stage.driver.get_vnc_console(instance),
}


CLEANUPS: dict[str, Act] = {
    "destroy": Stage.destroy,
    "clean up": lambda stage, instance: stage.driver.failed_spawn_cleanup(instance),
}
GUARDED = {"spawn": Stage.spawn, **CLEANUPS, **ACTS}


@pytest.mark.parametrize("act", GUARDED.values(), ids=GUARDED)
def test_a_node_of_another_shard_is_never_acted_on(our_stage, our_node, act) -> None:
    instance = our_stage.active(our_node)
    our_stage.fake.set_node(our_node, shard="theirs")
    says = r"'theirs'.*move the node's record"
    with pytest.raises(exceptions.NodeNotOurs, match=says) as caught:
        act(our_stage, instance)
    assert caught.value.instance == INSTANCE
    assert our_stage.fake.requests.mutating() == []


def prepare_networks(stage: Stage, instance: virt.Instance) -> None:
    stage.driver.prepare_networks_before_block_device_mapping(instance, [OTHER_VIF])


NOT_FOUND: dict[str, Act] = {
    "rebuild": Stage.rebuild,
    "rescue": Stage.rescue,
    **ACTS,
    "diagnostics": lambda stage, instance: stage.driver.get_instance_diagnostics(instance),
    "networks": prepare_networks,
}


@pytest.mark.parametrize("carries", [STRANGER, None], ids=["a stranger", "nothing"])
def test_a_node_without_the_instance_is_never_touched(stage, fake, node, instance, carries):
    fake.set_node(node, instance_uuid=carries)
    before = fake.node(node)
    for act in CLEANUPS.values():
        act(stage, instance)
    for name, act in NOT_FOUND.items():
        with pytest.raises(exceptions.InstanceNotFound):
            act(stage, instance)
        assert fake.requests.mutating() == [], name
    assert fake.node(node) == before


def test_a_node_that_changes_hands_while_released_is_left_alone(stage, fake, node) -> None:
    stage.reserve(stage.instance(node))
    stranger = meanwhile(lambda: fake.set_node(node, instance_uuid=STRANGER))
    fake.faults.delay(0, "GET", "/vifs$", when=stranger)
    stage.destroy(stage.instance(node))
    assert fake.node(node)["instance_uuid"] == STRANGER


@pytest.mark.parametrize("begin", [Stage.reserve, Stage.spawn])
def test_a_node_that_is_deleted_meanwhile_is_left(set_stage, fake, node, begin) -> None:
    stage = set_stage(fake, project_fields="lessee")
    placed = stage.instance(node, project_id="project-one")
    begin(stage, placed)
    fake.add_node()
    fake.faults.delay(0, "PATCH", when=meanwhile(lambda: fake.remove_node(node)))
    stage.destroy(placed)
    assert [one["instance_uuid"] for one in fake.nodes()] == [None]


def test_a_node_that_goes_on_while_released_is_read_again(stage, fake, node) -> None:
    stage.reserve(stage.instance(node))
    looks = 0

    def goes_on(method: str, path: str, shown: dict[str, Any]) -> None:
        nonlocal looks
        if method == "GET" and path.endswith(node):
            # A service that was taken for dead asks for its deployment, again and again.
            looks += 1
            shown["provision_state"] = "deploying"

    stage.edits.append(goes_on)
    with pytest.raises(exceptions.TearDownFailed, match="went on to 'deploying'"):
        stage.destroy(stage.instance(node))
    assert looks == 2
    assert not stage.provision_requests("deleted")
    assert fake.node(node)["instance_uuid"] == INSTANCE


OTHERS_LOCK: dict[str, Any] = {}
NO_NODES = {"status": 200, "method": "GET", "path": "/nodes$", "body": b'{"nodes": []}'}
REFUSAL = {"status": 409, "method": "PATCH", "body": "Not in this state."}
STOPS: dict[str, tuple[Act, dict[str, Any], type[Exception], str | None]] = {
    "refused": (Stage.reserve, REFUSAL, exceptions.Conflict, "Not in this state"),
    "unanswered": (Stage.spawn, {"status": 503}, exceptions.IronicUnavailable, None),
    # What a project's role does not show is not listed, and said to be not found.
    "hidden": (Stage.spawn, NO_NODES, exceptions.TearDownFailed, "shows the user of .* no node"),
    "reserved": (Stage.reserve, OTHERS_LOCK, exceptions.NodeLocked, "another-conductor"),
    "locked": (Stage.spawn, OTHERS_LOCK, exceptions.NodeLocked, "another-conductor"),
}


@pytest.mark.parametrize(("begin", "fault", "error", "says"), STOPS.values(), ids=STOPS)
def test_a_destroy_that_is_stopped_is_done_later(
    fake, set_stage, node, begin, fault, error, says
) -> None:
    stage = set_stage(fake, api_max_retries=1, unprovision_timeout=60)
    instance = stage.instance(node)
    begin(stage, instance)
    if fault is OTHERS_LOCK:
        fake.lock_node(node)
    else:
        fake.faults.status(**fault, count=None)
    fake.requests.clear()
    with pytest.raises(error, match=says) as caught:
        stage.destroy(instance)
    if fault is OTHERS_LOCK and begin is Stage.spawn:
        assert "unprovision_timeout" in str(caught.value.__cause__)
    elif fault is OTHERS_LOCK:
        assert not fake.requests.matching("GET", "/allocations/")
    assert fake.node(node)["instance_uuid"] == INSTANCE
    assert stage.provision_requests("deleted") == 0
    fake.faults.clear()
    fake.unlock_node(node)
    stage.destroy(instance)
    assert fake.node(node)["instance_uuid"] is None


def test_a_locked_node_is_waited_for(fake: FakeIronic, set_stage: SetStage, node: str) -> None:
    stage = set_stage(fake, api_max_retries=2)
    stage.spawn(stage.instance(node))
    fake.lock_node(node)
    locked_at = fake.clock.now()

    def let_go(method: str, path: str, shown: dict[str, Any]) -> None:
        if fake.clock.now() - locked_at > 100:
            fake.unlock_node(node)
            stage.edits.clear()

    stage.edits.append(let_go)
    stage.destroy(stage.instance(node))
    assert fake.clock.now() - locked_at > 100
    assert fake.node(node)["instance_uuid"] is None


def test_a_failed_tear_down_of_an_unreadable_node_is_reported(fake, set_stage, node) -> None:
    stage = set_stage(fake, api_max_retries=1)
    stage.spawn(stage.instance(node))
    fake.fail_next("undeploy", "the BMC does not answer")
    # The wait sees it in a list; what comes after that is not answered.
    wait = stage.driver._site.watcher.wait

    def away(*args: Any, **more: Any) -> Any:
        is_off, node = wait(*args, **more)
        fake.faults.status(503, "GET", count=None)
        return is_off, msgspec.structs.replace(node, instance_info=None)

    stage.driver._site.watcher.wait = away  # type: ignore[method-assign]
    with pytest.raises(exceptions.TearDownFailed, match="the BMC does not answer"):
        stage.destroy(stage.instance(node))
