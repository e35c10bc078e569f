# SPDX-License-Identifier: Apache-2.0

"""Stories of builds: what becomes of an instance that somebody wants."""

from __future__ import annotations

from typing import Any

import pytest
from oslo_context import context as oslo_context

from ironic_virt import exceptions, virt
from ironic_virt.compute.db import records
from ironic_virt.compute.networks import Network
from ironic_virt.compute.states import TaskState
from ironic_virt.testing.fake_ironic import FakeIronic
from tests.unit.compute.conftest import SetStage
from tests.unit.compute.service_stage import ServiceStage

GOLD = {"resource_class": "gold", "ports": 1}
VIF = virt.Vif("5f1f0000-0000-4000-8000-000000000001")


@pytest.fixture
def nodes(fake: FakeIronic) -> list[str]:
    return fake.add_nodes(3, **GOLD)


@pytest.fixture
def stage(set_stage: SetStage, nodes: list[str]) -> ServiceStage:
    return set_stage().begin()


def test_an_instance_that_is_wanted_becomes_active(
    stage: ServiceStage, nodes: list[str], fake: FakeIronic
) -> None:
    uuid = stage.create(nodes[0], ports=(VIF,))
    stage.look()
    built = stage.instance(uuid)
    assert (built.vm_state, built.task_state, built.node) == ("active", None, nodes[0])
    assert built.power_state == virt.PowerState.RUNNING
    assert built.launched_at is not None
    node = fake.node(nodes[0])
    assert (node["provision_state"], node["instance_uuid"]) == ("active", uuid)
    assert fake.vifs(nodes[0]) == [VIF.id]
    (action,) = stage.db.actions.list(uuid)
    assert (action.action, action.message) == ("create", None)
    assert action.finish_time is not None


def test_its_config_drive_has_what_was_given(
    stage: ServiceStage, nodes: list[str], fake: FakeIronic
) -> None:
    uuid = stage.create(
        nodes[0],
        user_data="#cloud-config\n",
        key_name="ada",
        public_key="ssh-ed25519 AAAA ada",
        properties={"role": "db"},
        project_id="p1",
    )
    stage.look()
    (request,) = [
        entry for entry in fake.requests.matching("PUT", "/provision$") if entry.status == 202
    ]
    drive = request.body["configdrive"]
    assert drive["user_data"] == "#cloud-config\n"
    assert drive["meta_data"] == {
        "uuid": uuid,
        "name": "web",
        "hostname": "web",
        "launch_index": 0,
        "meta": {"role": "db"},
        "project_id": "p1",
        "public_keys": {"ada": "ssh-ed25519 AAAA ada"},
        "keys": [{"name": "ada", "type": "ssh", "data": "ssh-ed25519 AAAA ada"}],
    }


def test_networks_are_on_the_free_ports_of_its_node(set_stage: SetStage, fake: FakeIronic) -> None:
    node = fake.add_node(resource_class="gold", ports=2)
    networks = (
        Network("192.0.2.10/24", "192.0.2.1", ("192.0.2.53",)),
        Network("2001:db8::a/64"),
    )
    stage = set_stage().begin()
    uuid = stage.create(node, networks=networks)
    stage.look()
    assert stage.instance(uuid).networks == networks
    (request,) = [
        entry for entry in fake.requests.matching("PUT", "/provision$") if entry.status == 202
    ]
    dns = [{"type": "dns", "address": "192.0.2.53"}]
    route = {"network": "0.0.0.0", "netmask": "0.0.0.0", "gateway": "192.0.2.1"}
    assert request.body["configdrive"]["network_data"] == {
        "links": [
            {"id": f"link{number}", "type": "phy", "ethernet_mac_address": port.address}
            for number, port in enumerate(fake.bm.store.ports)
        ],
        "networks": [
            {
                "id": "network0",
                "link": "link0",
                "type": "ipv4",
                "ip_address": "192.0.2.10",
                "netmask": "255.255.255.0",
                "routes": [route],
                "services": dns,
            },
            {
                "id": "network1",
                "link": "link1",
                "type": "ipv6",
                "ip_address": "2001:db8::a",
                "netmask": "ffff:ffff:ffff:ffff::",
                "routes": [],
                "services": [],
            },
        ],
        "services": dns,
    }


def test_networks_need_as_many_ports(stage: ServiceStage, nodes: list[str]) -> None:
    networks = tuple(Network(f"192.0.2.{number}/24") for number in range(1, 10))
    uuid = stage.create(nodes[0], networks=networks)
    stage.look()
    fault = stage.db.faults.latest(uuid)
    assert fault is not None
    assert "9 networks are wanted, and the node has " in fault.message


def test_a_build_asks_for_its_node_no_more_than_needed(
    stage: ServiceStage, nodes: list[str], fake: FakeIronic
) -> None:
    uuid = stage.create(nodes[0])
    fake.requests.clear()
    stage.look()
    assert stage.state(uuid) == ("active", None)
    asked = [one.method for one in fake.requests if nodes[0] in one.path]
    # Free, claimed; still there when the config drive is made, told what to deploy, and to deploy.
    assert asked[:5] == ["GET", "PATCH", "GET", "PATCH", "PUT"]


def test_progress_is_written_down_on_the_way(
    set_stage: SetStage, nodes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = set_stage().begin()
    steps: list[str] = []
    real = stage.virtapi.report_progress

    def progress(instance: virt.InstanceLike, step: str, detail: str = "") -> None:
        real(instance, step, detail)
        # As the look does that comes next.
        stage.virtapi.write_progress()
        written = stage.instance(instance.uuid)
        steps.append(f"{written.progress_step} {written.progress_detail}".strip())

    monkeypatch.setattr(stage.virtapi, "report_progress", progress)
    uuid = stage.create(nodes[0])
    stage.look()
    assert steps[0] == "reserving available"
    assert "deploying available" in steps
    assert steps[-1] == "active active"
    real(stage.instance(uuid), "late")
    stage.look()
    assert stage.instance(uuid).progress_step is None, "nothing is wanted of it any more"


# -- failures ---------------------------------------------------------------------


def test_a_node_that_fails_costs_one_attempt_and_is_given_back(
    stage: ServiceStage, nodes: list[str], fake: FakeIronic
) -> None:
    fake.fail_next("deploy", "disk broken", nodes[0])
    uuid = stage.create(nodes[0])
    stage.look()
    moved = stage.instance(uuid)
    assert (moved.vm_state, moved.task_state) == ("building", "spawning")
    assert moved.tried_nodes == (nodes[0],)
    assert moved.node in nodes[1:]
    assert moved.attempts == 2
    stage.nobody_has([nodes[0]])
    assert "disk broken" in stage.fault(uuid)
    stage.look()
    assert stage.state(uuid) == ("active", None)


def test_a_node_that_the_guard_refuses_untouched_is_no_attempt(
    set_stage: SetStage, fake: FakeIronic
) -> None:
    leaving = [fake.add_node(shard="a", **GOLD) for _ in range(4)]
    staying = fake.add_node(shard="a", **GOLD)
    stage = set_stage(ironic={"shard_key": "a"}, scheduler={"max_attempts": 1}).begin()
    for node in leaving:
        fake.set_node(node, shard="b")
    uuid = stage.create(leaving[0])
    stage.look(9)
    assert stage.state(uuid) == ("active", None)
    built = stage.instance(uuid)
    assert (built.node, built.refusals) == (staying, len(built.tried_nodes))
    assert leaving[0] in built.tried_nodes


def test_after_the_last_attempt_the_instance_is_in_error_with_the_reason(
    stage: ServiceStage, nodes: list[str], fake: FakeIronic
) -> None:
    for node in nodes:
        fake.fail_next("deploy", f"{node} is broken", node)
    uuid = stage.create(nodes[0])
    stage.look(5)
    failed = stage.instance(uuid)
    assert (failed.vm_state, failed.task_state) == ("error", None)
    assert (failed.host, failed.node) == (None, None)
    fault = stage.fault(uuid)
    assert "is broken" in fault
    assert "the last of 3 attempts" in fault
    stage.nobody_has(nodes)
    (action,) = stage.db.actions.list(uuid)
    assert action.message == fault
    newest = stage.db.faults.latest(uuid)
    assert newest is not None
    assert "history of the node: ERROR, deploying, by conductor-1" in (newest.details or "")


def test_without_another_node_the_reason_has_both(
    stage: ServiceStage, nodes: list[str], fake: FakeIronic
) -> None:
    fake.fail_next("deploy", "disk broken", nodes[0])
    for node in nodes[1:]:
        fake.set_node(node, maintenance=True)
    stage.service.refresh()
    uuid = stage.create(nodes[0])
    stage.look()
    assert stage.state(uuid) == ("error", None)
    assert "disk broken" in stage.fault(uuid)
    assert "No valid host" in stage.fault(uuid)
    stage.nobody_has(nodes)


def test_a_server_error_of_ironics_costs_one_attempt(
    stage: ServiceStage, nodes: list[str], fake: FakeIronic
) -> None:
    fake.faults.status(500, "PUT", f"/nodes/{nodes[0]}/states/provision$")
    uuid = stage.create(nodes[0])
    stage.look(2)
    assert stage.state(uuid) == ("active", None)
    assert stage.instance(uuid).node in nodes[1:]
    stage.nobody_has([nodes[0]])


def test_an_image_at_fault_burns_no_further_node(
    stage: ServiceStage, nodes: list[str], fake: FakeIronic
) -> None:
    fake.fail_next("deploy", "The supplied image checksum is wrong", nodes[0])
    uuid = stage.create(nodes[0])
    stage.look(3)
    assert stage.state(uuid) == ("error", None)
    assert "checksum" in stage.fault(uuid)
    deployed = [e for e in fake.requests.matching("PUT", "/provision$") if e.status == 202]
    assert {entry.path.split("/")[3] for entry in deployed} == {nodes[0]}
    stage.nobody_has(nodes)


def test_a_node_that_somebody_took_is_left_alone_and_another_one_serves(
    stage: ServiceStage, nodes: list[str], fake: FakeIronic
) -> None:
    uuid = stage.create(nodes[0])
    fake.set_node(nodes[0], instance_uuid="6d2b4f02-0000-4000-8000-00000000beef")
    stage.look(2)
    assert stage.state(uuid) == ("active", None)
    assert stage.instance(uuid).node != nodes[0]
    assert fake.node(nodes[0])["instance_uuid"] == "6d2b4f02-0000-4000-8000-00000000beef"


def test_what_was_rescued_before_it_was_written_down_is_not_lost(
    stage: ServiceStage, nodes: list[str], fake: FakeIronic
) -> None:
    uuid = stage.create(nodes[0])
    instance = stage.instance(uuid)
    # A service that died when the node was active, and an operator who could not know.
    stage.ironic.driver.spawn(virt.DeployRequest(instance, instance.image))
    fake.set_node(nodes[0], provision_state="rescue")
    stage.look()
    assert stage.state(uuid) == ("active", None)
    assert (fake.node(nodes[0])["provision_state"], fake.node(nodes[0])["instance_uuid"]) == (
        "rescue",
        uuid,
    )


def test_an_ironic_that_is_away_is_waited_for(
    set_stage: SetStage, nodes: list[str], fake: FakeIronic
) -> None:
    stage = set_stage(ironic={"api_max_retries": 1}).begin()
    uuid = stage.create(nodes[0])
    fake.faults.reset(count=None)
    stage.look(3)
    assert stage.state(uuid) == ("building", "spawning")
    assert stage.db.faults.latest(uuid) is None
    fake.faults.clear()
    stage.look(2)
    assert stage.state(uuid) == ("active", None)


def test_an_ironic_that_is_away_for_one_request_costs_no_attempt(
    set_stage: SetStage, nodes: list[str], fake: FakeIronic
) -> None:
    stage = set_stage(ironic={"api_max_retries": 1}).begin()
    uuid = stage.create(nodes[0])
    fake.faults.status(503, "PATCH", count=2)
    stage.look()
    assert stage.state(uuid) == ("building", "spawning")
    stage.look(2)
    assert stage.state(uuid) == ("active", None)
    assert (stage.instance(uuid).node, stage.instance(uuid).attempts) == (nodes[0], 1)
    assert stage.db.faults.latest(uuid) is None


def test_a_cleanup_that_cannot_reach_ironic_keeps_the_claim_until_it_can(
    set_stage: SetStage, nodes: list[str], fake: FakeIronic
) -> None:
    stage = set_stage(ironic={"api_max_retries": 1}).begin()
    uuid = stage.create(nodes[0])
    fake.invalidate(nodes[0], "deploy", "no kernel")
    # From the validation on nothing gets through, so the reservation stays.
    fake.faults.status(503, "GET", "/nodes$", count=None)
    stage.look()
    assert fake.node(nodes[0])["instance_uuid"] == uuid
    assert stage.db.compute_nodes.get(nodes[0]).instance_uuid == uuid
    assert stage.state(uuid) == ("building", "spawning")
    fake.faults.clear()
    stage.look(3)
    assert stage.state(uuid) == ("active", None)
    assert stage.instance(uuid).node != nodes[0]
    stage.nobody_has([nodes[0]])


def test_a_cleanup_waits_for_whoever_holds_the_node(
    set_stage: SetStage, nodes: list[str], fake: FakeIronic
) -> None:
    stage = set_stage(ironic={"api_max_retries": 1}).begin()
    uuid = stage.create(nodes[0])
    fake.invalidate(nodes[0], "deploy", "no kernel")
    locked = f"Node {nodes[0]} is locked by host conductor-2, please retry"
    fake.faults.status(409, "PATCH", count=None, body=locked, when=_takes_off)
    stage.look()
    assert stage.state(uuid) == ("building", "spawning")
    assert stage.db.compute_nodes.get(nodes[0]).instance_uuid == uuid
    fake.faults.clear()
    stage.look(3)
    assert stage.state(uuid) == ("active", None)
    stage.nobody_has([nodes[0]])


def test_a_node_that_cannot_be_given_back_stays_claimed(
    stage: ServiceStage, nodes: list[str], fake: FakeIronic
) -> None:
    fake.fail_next("deploy", "disk broken", nodes[0])
    fake.faults.status(400, "PUT", "/provision$", count=None, when=_tears_down)
    uuid = stage.create(nodes[0])
    stage.look()
    failed = stage.instance(uuid)
    assert (failed.vm_state, failed.task_state, failed.node) == ("error", None, nodes[0])
    assert stage.db.compute_nodes.get(nodes[0]).instance_uuid == uuid
    assert "disk broken" in stage.fault(uuid)
    assert "could not be given back" in stage.fault(uuid)


def _takes_off(method: str, path: str, body: Any) -> bool:
    return any(operation["op"] == "remove" for operation in body)


def _tears_down(method: str, path: str, body: Any) -> bool:
    return bool(body["target"] == "deleted")


# -- deletes ----------------------------------------------------------------------


def test_a_delete_gives_the_node_back_and_keeps_the_history(
    stage: ServiceStage, nodes: list[str]
) -> None:
    uuid = stage.create(nodes[0])
    stage.look()
    stage.db.instances.request(uuid, TaskState.DELETING)
    stage.look()
    assert stage.state(uuid) == ("deleted", None)
    stage.nobody_has(nodes)
    assert [action.action for action in stage.db.actions.list(uuid)] == ["create", "delete"]


def test_a_delete_during_the_build_ends_the_build_and_is_carried_out(
    stage: ServiceStage, nodes: list[str], fake: FakeIronic, monkeypatch: pytest.MonkeyPatch
) -> None:
    uuid = stage.create(nodes[0])
    asked = 0
    real = stage.virtapi.abort_reason

    def abort_reason(instance: virt.InstanceLike) -> str | None:
        nonlocal asked
        asked += 1
        if asked == 3:
            stage.db.instances.request(uuid, TaskState.DELETING)
            stage.service.look()
        return real(instance)

    monkeypatch.setattr(stage.virtapi, "abort_reason", abort_reason)
    stage.look()
    stage.nobody_has(nodes, claimed=True)
    assert stage.state(uuid) == ("deleted", None)
    assert stage.db.faults.latest(uuid) is None


def test_a_delete_before_the_build_frees_the_node_with_the_next_refresh(
    stage: ServiceStage, nodes: list[str], fake: FakeIronic
) -> None:
    uuid = stage.create(nodes[0])
    stage.db.instances.request(uuid, TaskState.DELETING)
    stage.look()
    assert stage.state(uuid) == ("deleted", None)
    assert fake.requests.matching("PUT", "/provision$") == []
    assert not stage.db.compute_nodes.get(nodes[0]).available
    stage.service.refresh()
    assert stage.db.compute_nodes.get(nodes[0]).available, "nothing happened to it in Ironic"


def test_a_delete_that_fails_leaves_the_instance_in_error_and_can_be_repeated(
    stage: ServiceStage, nodes: list[str], fake: FakeIronic
) -> None:
    uuid = stage.create(nodes[0])
    stage.look()
    fake.fail_next("undeploy", "bmc broken", nodes[0])
    stage.db.instances.request(uuid, TaskState.DELETING)
    stage.look()
    assert stage.state(uuid) == ("error", None)
    assert "bmc broken" in stage.fault(uuid)
    assert stage.instance(uuid).node == nodes[0]
    stage.db.instances.request(uuid, TaskState.DELETING)
    fake.set_node(nodes[0], provision_state="active")
    stage.look()
    assert stage.state(uuid) == ("deleted", None)


# -- power ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "vm_state", "power_state"),
    [
        ([TaskState.POWERING_OFF], "stopped", virt.PowerState.SHUTDOWN),
        ([TaskState.POWERING_OFF, TaskState.POWERING_ON], "active", virt.PowerState.RUNNING),
        ([TaskState.REBOOTING], "active", virt.PowerState.RUNNING),
        ([TaskState.REBOOTING_HARD], "active", virt.PowerState.RUNNING),
    ],
)
def test_power_is_as_asked_for(
    stage: ServiceStage,
    nodes: list[str],
    asked: list[TaskState],
    vm_state: str,
    power_state: virt.PowerState,
) -> None:
    uuid = stage.create(nodes[0])
    stage.look()
    for task in asked:
        stage.db.instances.request(uuid, task)
        stage.look()
    now = stage.instance(uuid)
    assert (now.vm_state, now.task_state, now.power_state) == (vm_state, None, power_state)


@pytest.mark.parametrize(
    ("provision_state", "vm_state"),
    [("active", "active"), ("deploy failed", "error"), ("rescue", "error")],
)
def test_a_hard_reboot_ends_an_error_only_where_the_node_is_active(
    stage: ServiceStage, nodes: list[str], provision_state: str, vm_state: str
) -> None:
    uuid = stage.create(nodes[0])
    stage.look()
    stage.db.instances.fail(uuid, None, records.FaultReport("the rebuild failed"))
    stage.fake.set_node(nodes[0], provision_state=provision_state)
    stage.db.instances.request(uuid, TaskState.REBOOTING_HARD)
    stage.look()
    assert stage.state(uuid) == (vm_state, None)
    assert stage.db.actions.list(uuid)[-1].message is None


def test_a_power_change_that_fails_leaves_the_instance_as_it_was(
    stage: ServiceStage, nodes: list[str], fake: FakeIronic
) -> None:
    uuid = stage.create(nodes[0])
    stage.look()
    fake.fail_next("power", "bmc does not answer", nodes[0])
    stage.db.instances.request(uuid, TaskState.POWERING_OFF)
    stage.look()
    assert stage.state(uuid) == ("active", None)
    assert "bmc does not answer" in stage.fault(uuid)
    assert stage.db.actions.list(uuid)[-1].message == stage.fault(uuid)


# -- what is logged ---------------------------------------------------------------


def test_a_build_is_logged_with_its_request(
    stage: ServiceStage, nodes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    contexts: list[Any] = []
    real = stage.service.driver.spawn

    def spawn(request: virt.DeployRequest) -> None:
        contexts.append(oslo_context.get_current())
        real(request)

    monkeypatch.setattr(stage.service.driver, "spawn", spawn)
    uuid = stage.create(nodes[0], request_id="req-1", user_id="ada", project_id="p1")
    stage.look()
    (context,) = contexts
    assert (context.request_id, context.resource_uuid) == ("req-1", uuid)
    assert (context.user_id, context.project_id) == ("ada", "p1")


def test_one_that_meets_an_instance_being_deleted_is_put_off(
    stage: ServiceStage, nodes: list[str], fake: FakeIronic, monkeypatch: pytest.MonkeyPatch
) -> None:
    leaving = stage.create(nodes[1])
    stage.look()
    fake.faults.status(503, "PUT", "/states/provision$", count=None)
    stage.db.instances.request(leaving, TaskState.DELETING)
    stage.look()
    uuid = stage.create(nodes[0])

    def taken(_request: virt.DeployRequest) -> None:
        raise exceptions.NodeTaken(nodes[0], uuid, leaving)

    with monkeypatch.context() as patch:
        patch.setattr(stage.service.driver, "spawn", taken)
        stage.look()
    waiting = stage.instance(uuid)
    assert (waiting.task_state, waiting.attempts, waiting.node) == ("spawning", 1, nodes[0])
    assert stage.db.faults.latest(uuid) is None
    fake.faults.clear()
    stage.look(3)
    assert (stage.state(uuid), stage.instance(uuid).attempts) == (("active", None), 1)
