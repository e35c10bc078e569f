# SPDX-License-Identifier: Apache-2.0

"""Nodes of running instances that Ironic protects for us."""

import contextlib
import functools
import re
import sys
from typing import Any

import pytest

from ironic_virt import exceptions
from ironic_virt.driver import resources
from ironic_virt.driver.held import Held
from ironic_virt.driver.protection import protect_node
from ironic_virt.testing.fake_ironic import Durations, FakeIronic
from tests.unit.driver.stage import INSTANCE, STRANGER, SetStage, Stage, just_before, meanwhile
from tests.unit.driver.test_late_requests import arrive

PATCH = ("PATCH", "/nodes/[^/]+$")
PROVISION = ("PUT", "/states/provision$")


def is_protected(fake: FakeIronic, node: str) -> bool:
    there = fake.node(node)
    if there["protected"]:
        assert there["protected_reason"] == resources.protection_of(INSTANCE)
        assert "node unset --protected" in there["protected_reason"]
    return bool(there["protected"])


def late(stage: Stage, node: str, verb: str) -> int:
    """The status of a request that nobody waits for any more."""
    path = f"/nodes/{node}/states/provision"
    return stage.channel.send("PUT", path, json={"target": verb}, version="1.90").status


def protecting(method: str, path: str, body: Any) -> bool:
    return {"op": "add", "path": "/protected", "value": True} in body


def unprotecting(method: str, path: str, body: Any) -> bool:
    return {"op": "add", "path": "/protected", "value": False} in body


def test_a_late_request_changes_nothing_on_a_running_instance(stage, fake, node, instance) -> None:
    assert is_protected(fake, node)
    assert [late(stage, node, verb) for verb in ("deleted", "rebuild")] == [403, 403]
    assert fake.node(node)["provision_state"] == "active"
    stage.rescue(instance)
    assert is_protected(fake, node)
    assert late(stage, node, "deleted") == 403
    stage.unrescue(instance)
    stage.rebuild(instance)
    fake.advance(60)
    assert is_protected(fake, node)
    stage.destroy(instance)
    fake.settle()
    there = fake.node(node)
    assert (there["provision_state"], there["protected_reason"]) == ("available", None)


@pytest.mark.parametrize("does", ["rescue", "service"])
def test_an_instance_in_a_state_without_patches_is_deleted(set_stage: SetStage, does: str) -> None:
    fake = FakeIronic(durations=Durations(rescue=60, service=60), wait_states=True)
    node = fake.add_node(ports=1)
    stage = set_stage(fake, protect_instances=True)
    instance = stage.active(node)
    step = {"interface": "firmware", "step": "update"}
    more = {"rescue": {"rescue_password": "x"}, "service": {"service_steps": [step]}}[does]
    path = f"/nodes/{node}/states/provision"
    body = {"target": does, **more}
    assert stage.channel.send("PUT", path, json=body, version="1.90").status == 202
    fake.advance(40)
    assert fake.node(node)["provision_state"] == f"{does} wait"
    began = fake.clock.now()
    stage.destroy(instance)
    assert fake.node(node)["instance_uuid"] is None
    # One that never ends must not keep a server for as long as Ironic waits.
    assert (fake.clock.now() - began < 15) == (does == "rescue")
    fake.settle()
    assert fake.node(node)["provision_state"] == "available"
    assert not any(one.status == 409 for one in fake.requests)


def test_each_way_costs_one_request_more(stage, fake, node, set_stage) -> None:
    def methods(on: Stage) -> list[list[str]]:
        found = []
        instance = on.instance(node)
        for act in (on.spawn, on.rebuild, on.destroy):
            fake.requests.clear()
            act(instance)
            found.append([entry.method for entry in fake.requests if entry.method != "GET"])
            fake.settle()
        return found

    spawned, rebuilt, destroyed = methods(set_stage(fake, protect_instances=False))
    assert methods(stage) == [[*spawned, "PATCH"], [*rebuilt, "PATCH"], ["PATCH", *destroyed]]


def test_a_node_that_left_the_shard_meanwhile_is_protected(our_stage, fake, our_node) -> None:
    leaves = meanwhile(lambda: fake.set_node(our_node, shard="theirs"))
    fake.faults.status(500, *PATCH, when=lambda *sent: protecting(*sent) and leaves())
    our_stage.active(our_node)
    assert is_protected(fake, our_node)


@pytest.mark.parametrize("state", ["clean failed", "available"])
def test_a_node_that_goes_on_while_it_is_unprotected_is_released(
    stage, fake, node, instance, state
) -> None:
    goes_on = meanwhile(lambda: fake.set_node(node, provision_state=state, protected=False))
    fake.faults.status(500, *PATCH, when=lambda *sent: unprotecting(*sent) and goes_on())
    stage.destroy(instance)
    assert fake.node(node)["instance_uuid"] is None


def test_what_is_another_s_meanwhile_is_not_asked_for_again(stage, fake, node, instance) -> None:
    taken = meanwhile(lambda: fake.set_node(node, instance_uuid=STRANGER), hits=True)
    fake.faults.status(503, *PATCH, when=lambda *sent: unprotecting(*sent) and taken())
    stage.destroy(instance)
    sent = [entry.body for entry in fake.requests.matching(*PATCH)]
    assert [unprotecting("", "", body) for body in sent] == [True]
    assert fake.node(node)["protected"]


def test_who_goes_on_after_a_failed_delete_is_protected_again(stage, fake, node, instance) -> None:
    reboot = functools.partial(stage.driver.reboot, reboot_type="HARD")
    for use in (stage.rescue, stage.unrescue, reboot, stage.driver.power_on):
        fake.faults.status(401, "PUT", f"/nodes/{node}/states/provision", count=1)
        with pytest.raises(exceptions.TearDownFailed):
            stage.destroy(instance)
        assert not is_protected(fake, node)
        use(instance)
        sent = [one for one in fake.requests.matching(*PATCH) if unprotecting("", "", one.body)]
        assert set(arrive(stage, *sent)) == {400}
        assert is_protected(fake, node)


@pytest.mark.parametrize("status", [400, 403, 409, 500])
def test_where_ironic_does_not_protect_it_runs_all_the_same(stage, fake, node, status, caplog):
    fake.faults.status(status, *PATCH, body="not you", when=protecting, count=None)
    instance = stage.active(node)
    assert fake.node(node)["provision_state"] == "active"
    assert not is_protected(fake, node)
    assert "[node-unprotected]" in caplog.text
    stage.rebuild(instance)
    fake.advance(60)
    stage.destroy(instance)
    assert fake.node(node)["instance_uuid"] is None


@pytest.mark.parametrize("verb", ["deleted", "rebuild"])
def test_what_is_late_but_before_the_protection_is_noticed(stage, fake, node, verb, monkeypatch):
    handle = fake.handle

    def comes(method: str, path: str, query: str, headers: Any, body: bytes, url: str) -> Any:
        if b'"/protected"' in body:
            monkeypatch.setattr(fake, "handle", handle)
            assert late(stage, node, verb) == 202
        return handle(method, path, query, headers, body, url)

    monkeypatch.setattr(fake, "handle", comes)
    is_gone = verb == "deleted"
    with pytest.raises(exceptions.DeployFailed) if is_gone else contextlib.nullcontext():
        stage.spawn(stage.instance(node))
    assert is_protected(fake, node) != is_gone
    assert stage.service.steps.count("active") != is_gone
    fake.settle()
    assert fake.node(node)["instance_uuid"] == (None if is_gone else INSTANCE)


@pytest.mark.parametrize("way", ["no answer", "rescued", "too slow", "begun by a dead process"])
def test_a_rebuild_of_unknown_end_leaves_it_protected_or_says_so(
    stage, fake, node, instance, set_stage, way, caplog
) -> None:
    resumes = False
    if way == "no answer":
        stage = set_stage(fake, protect_instances=True, api_max_retries=2)
        fake.faults.reset(*PROVISION, count=None)
        asked = fake.requests.matching
        fake.faults.reset("GET", "/nodes/", count=None, when=lambda *_: bool(asked(*PROVISION)))
    elif way == "rescued":
        just_before(fake, lambda: fake.set_node(node, provision_state="rescue"))
        fake.faults.status(409, *PROVISION, body="locked")
    elif way == "too slow":
        stage = set_stage(fake, protect_instances=True, deploy_timeout=1)
    else:
        stage.service.on_abort_question = sys.exit
        with pytest.raises(SystemExit):
            stage.rebuild(instance)
        stage, resumes = set_stage(fake, protect_instances=True), True
    with pytest.raises(exceptions.RebuildFailed) as caught:
        stage.rebuild(instance, resumes=resumes)
    assert (caught.value.disk is exceptions.Disk.UNKNOWN) != way.startswith("begun")
    assert is_protected(fake, node) != (f"--protected-reason 'Server {INSTANCE}" in caplog.text)


@pytest.mark.parametrize("reason", ["the payroll", resources.protection_of(STRANGER), None])
def test_what_somebody_else_protects_stays_so(stage, fake, node, instance, reason) -> None:
    fake.set_node(node, protected_reason=reason)
    told = rf"\({re.escape(reason)}\)" if reason else "protected"
    says = f"{told}; .* unset --protected {node}"
    with pytest.raises(exceptions.TearDownFailed, match=says):
        stage.destroy(instance)
    assert stage.provision_requests("deleted") == 0
    with pytest.raises(exceptions.RebuildFailed, match="node unset --protected"):
        stage.rebuild(instance)
    protect_node(stage.driver._site, Held.of(stage.driver._site, instance))
    assert fake.node(node)["protected"]
    assert fake.node(node)["protected_reason"] == reason
    fake.set_node(node, protected=False, protected_reason=None)
    stage.destroy(instance)


def test_without_the_option_ours_is_taken_off_and_none_put_on(
    stage, fake, node, instance, set_stage
) -> None:
    without = set_stage(fake, protect_instances=False)
    without.rebuild(instance)
    fake.advance(60)
    assert not is_protected(fake, node)
    without.destroy(instance)
    assert fake.node(node)["instance_uuid"] is None
