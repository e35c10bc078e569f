# SPDX-License-Identifier: Apache-2.0

"""The provision state machine of the fake Ironic, seen from its API."""

import uuid

import pytest

from ironic_virt.testing.fake_ironic import Durations, FakeIronic
from tests.unit.testing.fake_ironic.conftest import Client

INSTANCE = str(uuid.UUID(int=7))


def states(fake: FakeIronic, node: str) -> tuple[str, str | None]:
    values = fake.node(node)
    return values["provision_state"], values["target_provision_state"]


def test_a_new_node_is_verified_cleaned_and_available(fake: FakeIronic, api: Client) -> None:
    node = api.send("POST", "/nodes", {"driver": "fake-hardware"}).json()["uuid"]
    assert states(fake, node) == ("enroll", None)
    api.provision(node, "manage")
    assert states(fake, node) == ("verifying", "manageable")
    fake.advance(10)
    assert states(fake, node) == ("manageable", None)
    api.provision(node, "provide")
    assert states(fake, node) == ("cleaning", "available")
    fake.advance(10)
    assert states(fake, node) == ("available", None)


def test_a_deployment_locks_the_node_until_it_is_active(fake: FakeIronic, api: Client) -> None:
    node = fake.add_node()
    api.provision(node, "active")
    assert states(fake, node) == ("deploying", "active")
    assert fake.node(node)["reservation"] == "conductor-1"
    fake.advance(9.9)
    assert states(fake, node) == ("deploying", "active")
    fake.advance(0.1)
    assert states(fake, node) == ("active", None)
    assert fake.node(node)["reservation"] is None


def test_a_locked_node_refuses_changes_with_the_name_of_its_lock(
    fake: FakeIronic, api: Client
) -> None:
    node = fake.add_node()
    fake.lock_node(node, "conductor-9")
    refusal = (
        409,
        f"Node {node} is locked by host conductor-9, please retry after the current operation is"
        " completed.",
    )
    change = [{"op": "add", "path": "/extra/a", "value": 1}]
    assert api.refused("PATCH", f"/nodes/{node}", change) == refusal
    assert api.refused("DELETE", f"/nodes/{node}") == refusal
    assert api.refused("PUT", f"/nodes/{node}/states/power", {"target": "power on"}) == refusal
    target = {"target": "active"}
    assert api.refused("PUT", f"/nodes/{node}/states/provision", target) == refusal
    assert api.refused("PUT", f"/nodes/{node}/maintenance", {}) == refusal
    assert api.refused("POST", f"/nodes/{node}/vifs", {"id": INSTANCE}) == refusal
    fake.unlock_node(node)
    assert api.send("PATCH", f"/nodes/{node}", change).status_code == 200


def test_with_wait_states_the_second_half_is_not_locked() -> None:
    fake = FakeIronic(durations=Durations(deploy=10), wait_states=True)
    api = Client(fake)
    node = fake.add_node()
    api.provision(node, "active")
    fake.advance(5)
    assert states(fake, node) == ("wait call-back", "active")
    assert fake.node(node)["reservation"] is None
    fake.advance(5)
    assert states(fake, node) == ("active", None)


def test_deleting_a_waiting_deployment_ends_it(fake: FakeIronic, api: Client) -> None:
    fake = FakeIronic(durations=Durations(deploy=10, undeploy=2, clean=2), wait_states=True)
    api = Client(fake)
    node = fake.add_node()
    api.provision(node, "active")
    fake.advance(6)
    api.provision(node, "deleted")
    assert states(fake, node) == ("deleting", "available")
    fake.settle()
    assert states(fake, node) == ("available", None)


def test_tear_down_wipes_the_instance_and_its_allocation(fake: FakeIronic, api: Client) -> None:
    node = fake.add_node(resource_class="gold")
    body = {"resource_class": "gold", "uuid": INSTANCE}
    assert api.send("POST", "/allocations", body).json()["state"] == "allocating"
    assert api.get(f"/allocations/{INSTANCE}")["node_uuid"] == node
    api.send("POST", f"/nodes/{node}/vifs", {"id": INSTANCE})
    api.provision(node, "active")
    fake.advance(10)
    api.provision(node, "deleted")
    assert fake.node(node)["instance_uuid"] == INSTANCE
    fake.advance(10)
    assert states(fake, node) == ("cleaning", "available")
    values = fake.node(node)
    assert values["instance_uuid"] is None
    assert values["instance_info"] == {}
    assert values["allocation_uuid"] is None
    assert fake.allocations() == []
    assert fake.vifs(node) == []
    fake.advance(10)
    assert states(fake, node) == ("available", None)


def test_a_failed_deployment_says_why_and_can_be_torn_down(fake: FakeIronic, api: Client) -> None:
    node = fake.add_node()
    fake.fail_next("deploy", "the disk is on fire")
    api.provision(node, "active")
    fake.settle()
    assert states(fake, node) == ("deploy failed", "active")
    assert fake.node(node)["last_error"] == "the disk is on fire"
    event = api.get(f"/nodes/{node}/history")["history"][-1]
    assert (event["severity"], event["event"]) == ("ERROR", "the disk is on fire")
    api.provision(node, "deleted")
    assert fake.node(node)["last_error"] is None
    fake.settle()
    assert states(fake, node) == ("available", None)


def test_failed_cleaning_puts_the_node_in_maintenance(fake: FakeIronic, api: Client) -> None:
    node = fake.add_node(provision_state="active")
    fake.fail_next("clean", "no ramdisk", node=node)
    api.provision(node, "deleted")
    fake.settle()
    values = fake.node(node)
    assert states(fake, node) == ("clean failed", "available")
    assert (values["maintenance"], values["fault"]) == (True, "clean failure")


@pytest.mark.parametrize(
    ("state", "target"),
    [
        ("available", "provide"),
        ("available", "rebuild"),
        ("active", "active"),
        ("active", "manage"),
        ("enroll", "active"),
        ("manageable", "active"),
        ("cleaning", "deleted"),
        ("servicing", "deleted"),
        ("deploy hold", "deleted"),
        ("available", "nonsense"),
    ],
)
def test_verbs_that_mean_nothing_in_a_state_are_refused(
    fake: FakeIronic, api: Client, state: str, target: str
) -> None:
    node = fake.add_node(provision_state=state)
    status, message = api.refused("PUT", f"/nodes/{node}/states/provision", {"target": target})
    assert status == 400
    assert message == (
        f'The requested action "{target}" can not be performed on node "{node}" while it is in'
        f' state "{state}".'
    )


def test_rescue_needs_a_password_and_unrescue_leads_back(fake: FakeIronic, api: Client) -> None:
    node = fake.add_node(provision_state="active")
    status, _ = api.refused("PUT", f"/nodes/{node}/states/provision", {"target": "rescue"})
    assert status == 400
    api.provision(node, "rescue", rescue_password="secret")
    assert states(fake, node) == ("rescuing", "rescue")
    fake.advance(10)
    assert states(fake, node) == ("rescue", None)
    assert api.get(f"/nodes/{node}")["instance_info"]["rescue_password"] == "******"
    api.provision(node, "unrescue")
    assert states(fake, node) == ("unrescuing", "active")
    fake.advance(10)
    assert states(fake, node) == ("active", None)


def test_a_held_node_is_let_go_to_wait(fake: FakeIronic, api: Client) -> None:
    node = fake.add_node(provision_state="deploy hold", target_provision_state="active")
    api.provision(node, "unhold")
    assert states(fake, node) == ("wait call-back", "active")


def test_servicing_that_waits_is_torn_down_with_its_instance(
    fake: FakeIronic, api: Client
) -> None:
    node = fake.add_node(provision_state="active")
    step = {"interface": "vendor", "step": "trigger_servicewait"}
    api.provision(node, "service", service_steps=[step])
    fake.settle()
    assert states(fake, node) == ("service wait", "active")
    api.provision(node, "deleted")
    fake.settle()
    assert states(fake, node) == ("available", None)


def test_a_retired_node_is_not_given_away_again(fake: FakeIronic, api: Client) -> None:
    node = fake.add_node(provision_state="active", retired=True)
    api.provision(node, "deleted")
    fake.settle()
    assert states(fake, node) == ("manageable", None)


def test_power_actions_change_the_state_at_their_end(fake: FakeIronic, api: Client) -> None:
    node = fake.add_node()
    api.power(node, "power on")
    values = fake.node(node)
    assert (values["power_state"], values["target_power_state"]) == ("power off", "power on")
    fake.advance(10)
    values = fake.node(node)
    assert (values["power_state"], values["target_power_state"]) == ("power on", None)


def test_an_instance_can_ignore_a_soft_power_off(fake: FakeIronic, api: Client) -> None:
    node = fake.add_node(power_state="power on")
    fake.ignore_soft_power(node)
    api.power(node, "soft power off", timeout=30)
    fake.advance(29)
    assert fake.node(node)["target_power_state"] == "power off"
    fake.advance(1)
    values = fake.node(node)
    assert values["power_state"] == "power on"
    assert "soft power off" in values["last_error"]
    api.power(node, "power off")
    fake.settle()
    assert fake.node(node)["power_state"] == "power off"


def test_durations_out_of_a_range_repeat_with_the_seed() -> None:
    def moments(seed: int) -> list[float]:
        fake = FakeIronic(durations=Durations(deploy=(5, 30)), seed=seed)
        api = Client(fake)
        for node in fake.add_nodes(5):
            api.provision(node, "active")
        due = []
        start = fake.clock.now()
        while (moment := fake.bm.timeline.next_due()) is not None:
            due.append(moment - start)
            fake.advance(moment - fake.clock.now())
        return due

    assert moments(1) == moments(1) != moments(2)
    assert all(5 <= moment <= 30 for moment in moments(1))


def test_what_follows_starts_when_what_it_follows_ended_not_when_somebody_looks(
    fake: FakeIronic, api: Client
) -> None:
    node = fake.add_node(provision_state="active")
    api.provision(node, "deleted")
    fake.advance(20)
    assert states(fake, node) == ("available", None)
    assert fake.node(node)["provision_updated_at"] == "2026-01-01T00:00:20+00:00"
