# SPDX-License-Identifier: Apache-2.0

"""Interfaces of an instance that is there: attached, detached, refused."""

from collections.abc import Callable
from typing import Any

import pytest

from ironic_virt import exceptions, virt
from ironic_virt.baremetal import states
from ironic_virt.testing.fake_ironic import FakeIronic, network
from tests.unit.driver.stage import (
    BUSY,
    IMAGE,
    INSTANCE,
    STRANGER,
    VIF,
    Stage,
    find_locked,
    meanwhile,
)

OTHER = virt.Vif("5f1f0000-0000-4000-8000-000000000002", "02:00:00:00:00:02")
THIRD = virt.Vif("5f1f0000-0000-4000-8000-000000000003")


@pytest.fixture
def instance(stage: Stage, two_ports: str, fake: FakeIronic) -> virt.Instance:
    """An instance that is active, with one VIF."""
    return stage.active(two_ports)


def attach(stage: Stage, instance: virt.Instance, vif: virt.Vif = OTHER) -> None:
    stage.driver.attach_interface(instance, vif)


def refused(stage: Stage, instance: virt.Instance, says: str) -> exceptions.VifAttachFailed:
    """The error of an attach."""
    with pytest.raises(exceptions.VifAttachFailed, match=says) as caught:
        attach(stage, instance)
    return caught.value


def detach(stage: Stage, instance: virt.Instance, vif: virt.Vif = OTHER) -> None:
    stage.driver.detach_interface(instance, vif)


def sent(fake: FakeIronic, *methods: str) -> list[str]:
    """What was sent, of these methods only if any are given."""
    return [entry.method for entry in fake.requests if not methods or entry.method in methods]


def test_attached_and_detached_by_a_look_and_a_request(stage, fake, two_ports, instance) -> None:
    attach(stage, instance)
    assert sent(fake) == ["GET", "POST"]
    attach(stage, instance)
    assert fake.vifs(two_ports) == [VIF, OTHER.id], "done already is no error"
    fake.requests.clear()
    detach(stage, instance)
    assert sent(fake) == ["GET", "DELETE"]
    detach(stage, instance)
    assert fake.vifs(two_ports) == [VIF]


def test_without_a_free_port_the_error_names_node_and_vif(stage, fake, two_ports, instance):
    attach(stage, instance)
    fake.requests.clear()
    with pytest.raises(exceptions.NoFreePort) as caught:
        attach(stage, instance, THIRD)
    assert (caught.value.node, caught.value.vif) == (two_ports, THIRD.id)
    assert two_ports in str(caught.value)
    assert "not enough free physical ports" in str(caught.value)
    # At once: no other try can do better.
    assert sent(fake, "POST") == ["POST"]


def test_another_conflict_is_no_success(stage, fake, two_ports, instance) -> None:
    fake.faults.status(409, "POST", "/vifs$", f"Unable to attach VIF {OTHER.id}: another has it")
    error = refused(stage, instance, "another has it")
    assert not isinstance(error, exceptions.NoFreePort)
    assert fake.vifs(two_ports) == [VIF]


STRANGERS, OTHER_SHARDS = {"instance_uuid": STRANGER}, {"shard": "theirs"}


def test_a_node_that_is_cleaned_after_the_lock_gets_no_vif(stage, fake, two_ports, instance):
    when = meanwhile(lambda: fake.set_node(two_ports, provision_state=states.CLEANING), hits=True)
    find_locked(fake, "POST", "/vifs", when=when)
    refused(stage, instance, "'cleaning'")
    assert fake.vifs(two_ports) == [VIF]


def test_a_refusal_for_the_nodes_state_names_it(stage, fake, two_ports, instance) -> None:
    """Which states these are is in the table of provision states."""
    attach(stage, instance)
    fake.set_node(two_ports, provision_state=states.RESCUING)
    fake.requests.clear()
    with pytest.raises(exceptions.VifAttachFailed, match="'rescuing'; try again when"):
        attach(stage, instance, THIRD)
    with pytest.raises(exceptions.VifDetachFailed, match="'rescuing', where Ironic"):
        detach(stage, instance)
    # Detaching a VIF that isn't attached succeeds in any state.
    detach(stage, instance, THIRD)
    assert sent(fake, "POST", "DELETE") == []


def test_a_vif_that_can_not_be_detached_is_told_of(stage, fake, two_ports, instance) -> None:
    attach(stage, instance)
    fake.faults.status(500, "DELETE", "/vifs/", "Neutron is away")
    with pytest.raises(exceptions.VifDetachFailed, match="Neutron is away") as caught:
        detach(stage, instance)
    assert (caught.value.node, caught.value.vif) == (two_ports, OTHER.id)
    assert OTHER.id in fake.vifs(two_ports)


@pytest.mark.parametrize(
    ("state", "says"),
    [
        (states.ACTIVE, "no such segment"),
        (states.RESCUE, "no such segment"),
        (states.ACTIVE, "of another kind"),
    ],
)
def test_what_neutron_refuses_does_not_stay_on_the_node(
    stage, fake, two_ports, instance, state, says
) -> None:
    fake.set_node(two_ports, provision_state=state)
    if says == "no such segment":
        fake.refuse_vif(OTHER.id, says)
    else:
        fake.faults.status(500, "POST", "/vifs$", says, when=noted(fake, two_ports))
    error = refused(stage, instance, says)
    assert error.left is False
    assert f"Node {two_ports} had VIF {OTHER.id} all the same; it was taken off" in str(error)
    assert sent(fake) == ["GET", "POST", "GET", "GET", "DELETE"]
    assert fake.vifs(two_ports) == [VIF]


def noted(fake: FakeIronic, node: str, then: Callable[[], None] = lambda: None) -> Any:
    """Have Ironic keep a VIF whose attach is not answered successfully."""

    def note(method: str, path: str, body: Any) -> bool:
        if body["id"] not in fake.vifs(node):
            network.attach_vif(fake.bm, fake._find(node), body["id"])
        then()
        return True

    return note


def test_a_server_error_that_left_nothing_is_told_as_it_is(stage, fake, two_ports, instance):
    fake.faults.status(500, "POST", "/vifs$", "before anything was done")
    assert refused(stage, instance, r"anything was done$").left is False
    assert sent(fake) == ["GET", "POST", "GET"]


@pytest.mark.parametrize(
    ("status", "method", "left", "says"),
    [(400, "DELETE", True, ""), (500, "GET", None, r"may still.*vif list {}'")],
    ids=["it can't be detached", "nor looked for"],
)
def test_a_vif_that_may_be_left_on_the_node_is_reported(
    stage, fake, two_ports, instance, status, method, left, says
) -> None:
    fake.refuse_vif(OTHER.id, "no such segment")
    fake.faults.status(status, method, "/vifs", "not now", count=None)
    error = refused(stage, instance, "no such segment.*" + says.format(two_ports))
    assert error.left is left
    assert "not now" in str(error)
    assert f"'openstack baremetal node vif detach {two_ports} {OTHER.id}'" in str(error)
    assert fake.vifs(two_ports) == [VIF, OTHER.id]


@pytest.mark.parametrize("changes", [STRANGERS, OTHER_SHARDS])
def test_nothing_is_taken_off_a_node_that_is_no_longer_ours(our_stage, our_node, changes) -> None:
    fake, instance = our_stage.fake, our_stage.active(our_node)
    note = noted(fake, our_node, then=lambda: fake.set_node(our_node, **changes))
    fake.faults.status(500, "POST", "/vifs$", "no such segment", when=note)
    assert refused(our_stage, instance, "no such segment").left is True
    assert sent(fake, "DELETE") == []
    assert fake.vifs(our_node) == [VIF, OTHER.id]


@pytest.mark.parametrize("is_ours", [True, False])
def test_a_lock_is_waited_for_to_detach_what_is_still_ours(
    stage, fake, two_ports, instance, is_ours
) -> None:
    fake.refuse_vif(OTHER.id, "no such segment")
    change = {} if is_ours else STRANGERS
    when = meanwhile(lambda: fake.set_node(two_ports, **change), hits=True)
    find_locked(fake, "DELETE", "/vifs/", count=3 if is_ours else 1, when=when)
    says = "no such segment" + (".*taken off again" if is_ours else "")
    assert refused(stage, instance, says).left is not is_ours
    assert len(sent(fake, "DELETE")) == (4 if is_ours else 1)
    assert fake.vifs(two_ports) == ([VIF] if is_ours else [VIF, OTHER.id])


def unanswered(fake: FakeIronic, node: str, retries: int, status: int | None) -> None:
    """Have all attaches fail but for the last one, which is done and not answered."""
    fake.faults.status(503, "POST", "/vifs$", BUSY, count=retries)
    if status is None:
        fake.faults.lose_reply("POST", "/vifs$")
    else:
        fake.faults.status(status, "POST", "/vifs$", "no answer", when=noted(fake, node))


@pytest.mark.parametrize("retries", [0, 2])
@pytest.mark.parametrize("status", [None, 502, 503, 504])
def test_an_attach_whose_last_reply_is_lost_is_looked_for(
    set_stage, fake, two_ports, instance, status, retries
) -> None:
    unanswered(fake, two_ports, retries, status)
    attach(set_stage(fake, api_max_retries=retries), instance)
    assert len(sent(fake, "POST")) == retries + 1
    assert fake.vifs(two_ports) == [VIF, OTHER.id]


def test_where_ironic_stays_away_nobody_says_that_a_vif_is_gone(
    set_stage, fake, two_ports, instance
):
    stage = set_stage(fake, api_max_retries=2)
    unanswered(fake, two_ports, 2, None)
    looks = fake.faults.reset("GET", "/vifs$", count=None)
    with pytest.raises(exceptions.IronicUnreachable) as caught:
        attach(stage, instance)
    # Once for the change, and once to take it off: all retries have been used up.
    assert looks.hits == 2
    assert caught.value.method == "POST"
    (note,) = caught.value.__notes__
    assert f"Node {two_ports} may still have VIF {OTHER.id} attached" in note
    assert f"vif detach {two_ports} {OTHER.id}'" in note


def test_what_another_node_has_does_not_count_as_attached(stage, fake, two_ports, instance):
    another = fake.add_node(ports=1)
    network.attach_vif(fake.bm, fake._find(another), OTHER.id)
    words = f"Unable to attach VIF because VIF {OTHER.id} is already attached to Ironic Port x"
    fake.faults.reset("POST", "/vifs$")
    fake.faults.status(409, "POST", "/vifs$", words)
    refused(stage, instance, "already attached")
    assert (fake.vifs(two_ports), fake.vifs(another)) == ([VIF], [OTHER.id])


def test_a_refusal_that_can_not_be_looked_into_is_told_of(set_stage, fake, instance) -> None:
    stage = set_stage(fake, api_max_retries=1)
    attach(stage, instance)
    fake.faults.reset("GET", "/vifs$", count=None)
    with pytest.raises(exceptions.IronicUnreachable) as caught:
        attach(stage, instance)
    assert f"VIF {OTHER.id} is already attached" in caught.value.__notes__[0]


def test_a_build_that_neutron_refuses_leaves_nothing(stage, fake, two_ports) -> None:
    untouched = stage.trace(two_ports)
    placed = stage.instance(two_ports)
    fake.refuse_vif(OTHER.id, "no such segment")
    with pytest.raises(exceptions.VifAttachFailed, match=r"no such segment.*taken off"):
        stage.spawn(placed, vifs=[virt.Vif(VIF), OTHER])
    assert stage.trace(two_ports) == untouched
    with pytest.raises(exceptions.VifAttachFailed, match=r"no such segment.*taken off"):
        prepare(stage, placed, virt.Vif(VIF), OTHER)
    # What was attached before it is for whoever gives the node back.
    assert fake.vifs(two_ports) == [VIF]


def test_a_node_that_keeps_a_vif_is_not_given_back(stage, fake, node) -> None:
    instance = stage.instance(node)
    stage.reserve(instance)
    stage.channel.send("POST", f"/nodes/{node}/vifs", json={"id": VIF}, version="1.38")
    fake.faults.status(400, "DELETE", "/vifs/", "The cleaning network is not known")
    with pytest.raises(exceptions.VifDetachFailed, match="cleaning network"):
        stage.driver.failed_spawn_cleanup(instance)
    assert fake.node(node)["instance_uuid"] == INSTANCE
    stage.driver.failed_spawn_cleanup(instance)
    assert fake.node(node)["instance_uuid"] is None
    assert fake.vifs(node) == []


def prepare(stage: Stage, instance: virt.Instance, *vifs: virt.Vif) -> None:
    """What Nova does before it connects volumes."""
    stage.reserve(instance)
    stage.driver.prepare_networks_before_block_device_mapping(instance, vifs)


def spawn(stage: Stage, instance: virt.Instance, *vifs: virt.Vif) -> None:
    stage.driver.spawn(virt.DeployRequest(instance, IMAGE, vifs))


def test_a_vif_attached_before_the_volumes_is_not_attached_again(stage, fake, two_ports) -> None:
    instance = stage.instance(two_ports)
    vifs = [virt.Vif(VIF), OTHER]
    stage.reserve(instance)
    fake.requests.clear()
    stage.driver.prepare_networks_before_block_device_mapping(instance, [])
    assert len(fake.requests) == 0, "without networks nothing is asked"
    prepare(stage, instance, *vifs)
    assert fake.vifs(two_ports) == [VIF, OTHER.id]
    assert fake.node(two_ports)["provision_state"] == "available"
    fake.requests.clear()
    spawn(stage, instance, *vifs)
    assert fake.requests.matching("POST", "/vifs$") == []
    assert fake.node(two_ports)["provision_state"] == "active"
    assert fake.vifs(two_ports) == [VIF, OTHER.id]


def test_what_is_prepared_for_nothing_is_taken_off(stage, fake, two_ports) -> None:
    untouched = stage.trace(two_ports)
    instance = stage.instance(two_ports)
    prepare(stage, instance, virt.Vif(VIF))
    stage.driver.failed_spawn_cleanup(instance)
    assert stage.trace(two_ports) == untouched
    prepare(stage, instance, OTHER)
    assert fake.vifs(two_ports) == [OTHER.id]
    network.detach_vif(fake.bm, fake._find(two_ports), OTHER.id)
    spawn(stage, instance, OTHER)
    assert fake.vifs(two_ports) == [OTHER.id], "what somebody has taken off is attached again"
