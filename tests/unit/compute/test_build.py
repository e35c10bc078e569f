# SPDX-License-Identifier: Apache-2.0

"""Stories of builds: what becomes of an instance that somebody wants."""

from typing import Any

import pytest
from oslo_context import context as oslo_context

from ironic_virt import exceptions, virt
from ironic_virt.compute.actions import Settled
from ironic_virt.compute.db import records
from ironic_virt.compute.networks import Network
from ironic_virt.compute.states import TaskState, VmState
from ironic_virt.testing.fake_ironic import Entry, FakeIronic
from tests.config_drives import sent_drive
from tests.unit.compute.conftest import SetStage
from tests.unit.compute.service_stage import GOLD, ServiceStage

VIF = virt.Vif("5f1f0000-0000-4000-8000-000000000001")


def deployment(stage: ServiceStage) -> Entry:
    """The only request to deploy that Ironic has granted."""
    asked = stage.fake.requests.matching("PUT", "/provision$")
    (granted,) = [one for one in asked if (one.status, one.body["target"]) == (202, "active")]
    return granted


def test_an_instance_becomes_active_with_all_it_was_given(stage: ServiceStage, node: str) -> None:
    uuid = stage.build(
        ports=(VIF,),
        user_data="#cloud-config\n",
        key_name="ada",
        public_key="ssh-ed25519 AAAA ada",
        properties={"role": "db"},
        project_id="p1",
    )
    built = stage.instance(uuid)
    assert (built.vm_state, built.task_state, built.node) == ("active", None, node)
    assert built.power_state == virt.PowerState.RUNNING
    assert built.launched_at is not None
    seen = stage.fake.node(node)
    assert (seen["provision_state"], seen["instance_uuid"]) == ("active", uuid)
    assert stage.fake.vifs(node) == [VIF.id]
    drive = sent_drive(stage.fake)
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
    uuid = stage.build(node, networks=networks)
    assert stage.instance(uuid).networks == networks
    dns = [{"type": "dns", "address": "192.0.2.53"}]
    route = {"network": "0.0.0.0", "netmask": "0.0.0.0", "gateway": "192.0.2.1"}
    assert sent_drive(stage.fake)["network_data"] == {
        "links": [
            {
                "id": f"link{number}",
                "type": "phy",
                "ethernet_mac_address": port.address,
                "mtu": 1500,
            }
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
    with pytest.raises(exceptions.IronicVirtError, match="has networks or ports, not both"):
        stage.requests.ask("attach_interface", uuid, vif=VIF.id)


def test_networks_need_as_many_ports(set_stage: SetStage, fake: FakeIronic) -> None:
    small, large = (fake.add_node(**{**GOLD, "ports": number}) for number in (1, 2))
    stage = set_stage().begin()
    uuid = stage.build(small, networks=(Network("192.0.2.10/24"), Network("192.0.2.11/24")))
    assert "2 networks are wanted, and the node has 1 " in stage.fault(uuid)
    stage.look()
    assert (stage.state(uuid), stage.instance(uuid).node) == (("active", None), large)


def test_progress_is_written_down_on_the_way(stage, monkeypatch) -> None:
    steps: list[str] = []
    real = stage.virtapi.report_progress

    def progress(instance: virt.InstanceLike, step: str, detail: str = "") -> None:
        real(instance, step, detail)
        # As the look does that comes next.
        stage.virtapi.write_progress()
        written = stage.instance(instance.uuid)
        steps.append(f"{written.progress_step} {written.progress_detail}".strip())

    monkeypatch.setattr(stage.virtapi, "report_progress", progress)
    uuid = stage.build()
    assert steps[0] == "reserving available"
    assert "deploying available" in steps
    assert steps[-1] == "active active"
    real(stage.instance(uuid), "late")
    stage.look()
    assert stage.instance(uuid).progress_step is None, "nothing is wanted of it any more"


# -- failures ---------------------------------------------------------------------


@pytest.mark.parametrize("at_once", [False, True])
def test_a_node_that_fails_costs_one_attempt_and_is_given_back(stage, nodes, at_once) -> None:
    if at_once:
        path = f"/nodes/{nodes[0]}/states/provision$"
        stage.fake.faults.status(500, "PUT", path, "disk broken")
    else:
        stage.fake.fail_next("deploy", "disk broken", nodes[0])
    uuid = stage.build()
    moved = stage.instance(uuid)
    assert (moved.vm_state, moved.task_state) == ("building", "spawning")
    assert moved.tried_nodes == (nodes[0],)
    assert moved.node in nodes[1:]
    assert moved.attempts == 2
    stage.nobody_has([nodes[0]])
    assert "disk broken" in stage.fault(uuid)
    stage.look()
    assert stage.state(uuid) == ("active", None)


def test_a_node_that_the_guard_refuses_untouched_is_no_attempt(set_stage, fake) -> None:
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


def test_after_the_last_attempt_the_instance_is_in_error(stage, nodes) -> None:
    for node in nodes:
        stage.fake.fail_next("deploy", f"{node} is broken", node)
    uuid = stage.create()
    stage.look(5)
    failed = stage.instance(uuid)
    assert (failed.vm_state, failed.task_state) == ("error", None)
    assert (failed.host, failed.node) == (None, None)
    fault = stage.fault(uuid)
    assert "is broken" in fault
    assert "the last of 3 attempts" in fault
    stage.nobody_has(nodes)
    assert failed.fault is not None
    assert "history of the node: ERROR, deploying, by conductor-1" in (failed.fault.details or "")


def test_a_node_that_somebody_took_is_left_for_another_one(set_stage, stage, nodes) -> None:
    elsewhere = stage.fake.add_node(**GOLD)
    stranger = set_stage("compute2").begin().create(elsewhere)
    # Nobody knows when its service will be up and delete it.
    stage.db.instances.request(stranger, TaskState.DELETING)
    uuid = stage.create()
    stage.fake.set_node(nodes[0], instance_uuid=stranger)
    stage.look(2)
    assert stage.state(uuid) == ("active", None)
    assert stage.instance(uuid).node != nodes[0]
    assert stage.fake.node(nodes[0])["instance_uuid"] == stranger


def test_what_was_rescued_before_it_was_written_down_is_not_lost(stage, nodes) -> None:
    uuid = stage.create()
    instance = stage.instance(uuid)
    # A service that died when the node was active, and an operator who could not know.
    stage.ironic.driver.spawn(virt.DeployRequest(instance, instance.image))
    stage.fake.set_node(nodes[0], provision_state="rescue")
    stage.look()
    assert stage.state(uuid) == ("active", None)
    seen = stage.fake.node(nodes[0])
    assert (seen["provision_state"], seen["instance_uuid"]) == ("rescue", uuid)


@pytest.mark.parametrize("state", ["deploying", "active"])
def test_another_processs_work_goes_on_after_a_general_error(stage, nodes, state) -> None:
    uuid = stage.create()
    instance = stage.instance(uuid)
    stage.ironic.driver.spawn(virt.DeployRequest(instance, instance.image))
    stage.fake.set_node(nodes[0], provision_state=state)
    # A proxy's page.
    stage.fake.faults.status(404, "GET", f"/nodes/{nodes[0]}$", b"<html>Not found</html>")
    stage.look()
    assert stage.state(uuid) == ("building", "spawning")
    stage.fake.set_node(nodes[0], provision_state="active")
    stage.look(2)
    assert stage.state(uuid) == ("active", None)
    assert stage.instance(uuid).node == nodes[0]
    assert not stage.fake.requests.matching("PUT", "/provision$")[1:]


@pytest.mark.parametrize(
    ("strike", "rounds"),
    [
        (lambda faults: faults.reset(count=None), 3),
        (lambda faults: faults.status(503, "PATCH", count=2), 1),
    ],
    ids=["for long", "for one request"],
)
def test_an_outage_of_ironic_is_waited_for_and_costs_no_attempt(set_stage, node, strike, rounds):
    stage = set_stage(ironic={"api_max_retries": 1}).begin()
    uuid = stage.create()
    strike(stage.fake.faults)
    stage.look(rounds)
    assert stage.state(uuid) == ("building", "spawning")
    stage.fake.faults.clear()
    stage.look(2)
    assert stage.state(uuid) == ("active", None)
    assert (stage.instance(uuid).node, stage.instance(uuid).attempts) == (node, 1)
    assert stage.instance(uuid).fault is None


def _takes_off(_method: str, _path: str, body: Any) -> bool:
    return any(operation["op"] == "remove" for operation in body)


@pytest.mark.parametrize(
    "rule",
    [
        # From the validation on nothing gets through, so the reservation stays.
        {"status": 503, "method": "GET", "path": "/nodes$"},
        {
            "status": 409,
            "method": "PATCH",
            "body": "Node x is locked by host conductor-2, please retry",
            "when": _takes_off,
        },
    ],
    ids=["Ironic is away", "somebody holds the node"],
)
def test_a_cleanup_keeps_the_claim_until_it_can(set_stage, node, rule) -> None:
    stage = set_stage(ironic={"api_max_retries": 1}).begin()
    uuid = stage.create()
    stage.fake.invalidate(node, "deploy", "no kernel")
    stage.fake.faults.status(**rule, count=None)
    stage.look()
    assert stage.fake.node(node)["instance_uuid"] == uuid
    assert stage.db.compute_nodes.get(node).instance_uuid == uuid
    assert stage.state(uuid) == ("building", "spawning")
    stage.fake.faults.clear()
    stage.look(3)
    assert stage.state(uuid) == ("active", None)
    assert stage.instance(uuid).node != node
    stage.nobody_has([node])


def test_a_node_that_cannot_be_given_back_stays_claimed(stage, nodes) -> None:
    stage.fake.fail_next("deploy", "disk broken", nodes[0])
    stage.fake.faults.status(
        400, "PUT", "/provision$", count=None, when=lambda *call: call[2]["target"] == "deleted"
    )
    uuid = stage.build()
    failed = stage.instance(uuid)
    assert (failed.vm_state, failed.task_state, failed.node) == ("error", None, nodes[0])
    assert stage.db.compute_nodes.get(nodes[0]).instance_uuid == uuid
    assert "disk broken" in stage.fault(uuid)
    assert "could not be given back" in stage.fault(uuid)


# -- deletes ----------------------------------------------------------------------


def test_a_delete_gives_the_node_back_and_keeps_the_history(stage, nodes) -> None:
    uuid = stage.create()
    stage.fake.requests.clear()
    stage.look()
    assert stage.state(uuid) == ("active", None)
    asked = [one.method for one in stage.fake.requests if nodes[0] in one.path]
    # Read, claim; read again for the config drive, write what to deploy, deploy.
    assert asked[:5] == ["GET", "PATCH", "GET", "PATCH", "PUT"], "no more than needed"
    stage.do(uuid, TaskState.DELETING)
    assert stage.state(uuid) == ("deleted", None)
    stage.nobody_has(nodes)


def test_a_delete_during_the_build_ends_it_and_is_done(stage, nodes, monkeypatch) -> None:
    uuid = stage.create()
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
    stage.look(2)
    stage.nobody_has(nodes, claimed=True)
    assert stage.state(uuid) == ("deleted", None)
    assert stage.instance(uuid).fault is None


def test_a_delete_before_the_build_frees_the_node(stage: ServiceStage, nodes: list[str]) -> None:
    uuid = stage.create()
    stage.do(uuid, TaskState.DELETING)
    assert stage.state(uuid) == ("deleted", None)
    assert stage.fake.requests.matching("PUT", "/provision$") == []
    assert not stage.db.compute_nodes.get(nodes[0]).available
    stage.service.refresh()
    assert stage.db.compute_nodes.get(nodes[0]).available, "nothing happened to it in Ironic"


def test_a_failed_delete_is_in_error_and_can_be_repeated(stage, nodes) -> None:
    uuid = stage.build()
    stage.fake.fail_next("undeploy", "bmc broken", nodes[0])
    stage.do(uuid, TaskState.DELETING)
    assert stage.state(uuid) == ("error", None)
    assert "bmc broken" in stage.fault(uuid)
    assert stage.instance(uuid).node == nodes[0]
    stage.db.instances.request(uuid, TaskState.DELETING)
    stage.fake.set_node(nodes[0], provision_state="active")
    stage.look()
    assert stage.state(uuid) == ("deleted", None)


# -- power ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("provision_state", "vm_state"),
    [("active", "active"), ("deploy failed", "error"), ("rescue", "error")],
)
def test_a_hard_reboot_ends_an_error_only_on_an_active_node(
    stage: ServiceStage, nodes: list[str], provision_state: str, vm_state: str
) -> None:
    uuid = stage.build()
    fault = records.Fault("the rebuild failed")
    stage.db.instances.settle(stage.instance(uuid), Settled(VmState.ERROR, fault=fault))
    stage.fake.set_node(nodes[0], provision_state=provision_state)
    stage.do(uuid, TaskState.REBOOTING_HARD)
    assert stage.state(uuid) == (vm_state, None)


# -- what is logged ---------------------------------------------------------------


def test_a_build_is_logged_with_its_request(stage, monkeypatch) -> None:
    contexts: list[Any] = []
    real = stage.service.driver.spawn

    def spawn(request: virt.DeployRequest) -> None:
        contexts.append(oslo_context.get_current())
        real(request)

    monkeypatch.setattr(stage.service.driver, "spawn", spawn)
    uuid = stage.build(request_id="req-1", user_id="ada", project_id="p1")
    (context,) = contexts
    assert (context.request_id, context.resource_uuid) == ("req-1", uuid)
    assert (context.user_id, context.project_id) == ("ada", "p1")
