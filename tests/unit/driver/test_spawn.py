# SPDX-License-Identifier: Apache-2.0

"""Stories of a deployment: how it goes, what stops it, and what is left then."""

from collections.abc import Callable
from typing import Any

import pytest

from ironic_virt import exceptions, virt
from ironic_virt.baremetal import states
from ironic_virt.testing.fake_ironic import FakeIronic
from tests.config_drives import sent_drive
from tests.unit.driver.stage import (
    IMAGE,
    INSTANCE,
    SECRET,
    STRANGER,
    VIF,
    Stage,
    find_locked,
    meanwhile,
)

ErrorType = type[exceptions.NodeError]
TWO_VIFS = [virt.Vif(VIF), virt.Vif(VIF[:-1] + "2")]


def test_an_instance_goes_onto_its_node_once(stage, fake, node, caplog) -> None:
    caplog.set_level("DEBUG")
    instance = stage.instance(node)
    stage.spawn(instance)
    there = fake.node(node)
    assert there["provision_state"] == "active"
    assert there["instance_uuid"] == INSTANCE
    assert there["instance_info"]["image_source"] == IMAGE.id
    assert fake.vifs(node) == [VIF]
    assert sent_drive(fake)["meta_data"]["admin_pass"] == SECRET
    (request,) = fake.requests.matching("PUT", "/states/provision$")
    assert request.body == {"target": "active"}
    assert caplog.text
    assert SECRET not in caplog.text
    assert stage.service.reports == [
        "reserving: available",
        "configuring: available",
        "deploying: available",
        "deploying: deploying",
        "active: active",
    ]
    assert stage.driver.instance_exists(instance)
    assert stage.driver.list_instance_uuids() == [INSTANCE]
    stage.spawn(instance)
    assert stage.provision_requests("active") == 1


def test_the_look_that_sees_a_node_active_is_the_last_one(stage, fake, node) -> None:
    fake.set_node(node, traits=["CUSTOM_GOLD"])
    assert stage.refresh() == [node]
    stage.spawn(stage.instance(node))
    (request,) = fake.requests.matching("PUT", "/states/provision$")
    later = [entry for entry in fake.requests if entry.when >= request.when + 5]
    assert {entry.path for entry in later} == {f"/v1/nodes/{node}"}
    # The patch protects it.
    assert [entry.method for entry in later] == ["GET", "PATCH"]
    fake.requests.clear()
    assert stage.driver.get_available_resource(node).in_use
    assert "CUSTOM_GOLD" in stage.driver.get_inventory(node).traits
    assert not len(fake.requests)


@pytest.mark.parametrize("state", sorted(states.DEPLOYED - {states.ACTIVE}))
def test_a_rescued_or_serviced_node_spawned_again_is_not_lost(stage, fake, node, state, caplog):
    instance = stage.active(node)
    fake.set_node(node, provision_state=state)
    stage.restarted().spawn(instance)
    assert {entry.method for entry in fake.requests} == {"GET"}
    there = fake.node(node)
    assert (there["provision_state"], there["instance_uuid"]) == (state, INSTANCE)
    (told,) = [one.getMessage() for one in caplog.records if one.levelname == "WARNING"]
    for said in (INSTANCE, node, repr(state)):
        assert said in told


@pytest.mark.parametrize("state", [states.RESCUING, states.SERVICE_WAIT])
def test_a_node_taken_up_as_soon_as_it_is_active_is_deployed(stage, fake, node, state) -> None:
    def taken_up() -> None:
        fake.advance(5)
        assert fake.node(node)["provision_state"] == states.ACTIVE
        fake.set_node(node, provision_state=state)

    stage.while_it_is(states.DEPLOYING, node, taken_up)
    stage.spawn(stage.instance(node))
    assert fake.node(node)["instance_uuid"] == INSTANCE
    assert stage.provision_requests("deleted") == 0


def test_without_a_node_nothing_is_asked_of_ironic(stage: Stage, fake: FakeIronic) -> None:
    with pytest.raises(exceptions.NodeNotGiven, match="schedule it first"):
        stage.spawn(stage.instance(None))
    assert len(fake.requests) == 0


# -- what is refused before the reservation changes nothing --------------------


@pytest.mark.parametrize(
    ("fields", "error", "says"),
    [
        ({"instance_uuid": STRANGER}, exceptions.NodeTaken, STRANGER),
        ({"maintenance": True}, exceptions.NodeNotAvailable, "maintenance"),
        ({"retired": True}, exceptions.NodeNotAvailable, "retired"),
        ({"provision_state": "cleaning"}, exceptions.NodeNotAvailable, "cleaning"),
        ({"provision_state": "manageable"}, exceptions.NodeNotAvailable, "manageable"),
        ({"provision_state": "brand new"}, exceptions.NodeNotAvailable, "brand new"),
        ({"power_state": None}, exceptions.NodeNotAvailable, "power"),
        ({"power_state": "error"}, exceptions.NodeNotAvailable, "power"),
        ({"shard": "elsewhere"}, exceptions.NodeNotOurs, "'elsewhere'"),
    ],
)
def test_a_node_that_can_not_be_had_is_left_as_it_is(our_stage, our_node, fields, error, says):
    fake = our_stage.fake
    fake.set_node(our_node, **fields)
    before = fake.node(our_node)
    with pytest.raises(error, match=says) as caught:
        our_stage.spawn(our_stage.instance(our_node))
    assert fake.node(our_node) == before
    assert fake.requests.mutating() == []
    assert (caught.value.node, caught.value.instance) == (our_node, INSTANCE)
    assert caught.value.retriable


@pytest.mark.parametrize("undoing_fails", [False, True])
def test_a_node_in_maintenance_while_reserved_is_given_back(fake, set_stage, node, undoing_fails):
    stage = set_stage(fake, api_max_retries=0)
    operator = meanwhile(lambda: fake.set_node(node, maintenance=True))
    fake.faults.delay(0, "PATCH", when=operator)
    if undoing_fails:
        fake.faults.status(500, "PATCH", nth=2)
    with pytest.raises(exceptions.NodeNotAvailable, match="maintenance") as caught:
        stage.reserve(stage.instance(node))
    told = "".join(getattr(caught.value, "__notes__", ()))
    assert ("Taking it off its node failed too" in told) is undoing_fails
    assert (caught.value.node, caught.value.instance) == (node, INSTANCE)
    stage.driver.failed_spawn_cleanup(stage.instance(node))
    assert fake.node(node)["instance_uuid"] is None


def test_an_instance_that_has_a_node_gets_no_second_one(stage, fake, node, instance) -> None:
    other = fake.add_node(ports=1)
    with pytest.raises(exceptions.NodeNotAvailable, match="already associated"):
        stage.spawn(stage.instance(other))
    assert fake.node(other)["instance_uuid"] is None
    assert fake.node(node)["instance_uuid"] == INSTANCE


# -- what goes wrong after the reservation is undone ---------------------------


THEIRS = {
    "instance_uuid": STRANGER,
    "instance_info": {"image_source": "https://theirs.example.test/"},
}


def configures(method: str, path: str, body: Any) -> bool:
    """Whether a patch writes what to deploy."""
    return any(change["path"] == "/instance_info/image_source" for change in body)


@pytest.mark.parametrize("moment", ["claimed", "attached", "with a drive", "configured"])
@pytest.mark.parametrize(
    ("fields", "error", "says"),
    [
        (THEIRS, exceptions.NodeTaken, STRANGER),
        ({"shard": "elsewhere"}, exceptions.NodeNotOurs, "'elsewhere'"),
        ({"maintenance": True}, exceptions.NodeNotAvailable, "maintenance"),
    ],
)
def test_a_node_lost_before_its_deployment_is_not_deployed(
    our_stage, our_node, fields, error, says, moment
) -> None:
    fake = our_stage.fake

    def lose(*request: Any) -> bool:
        if moment != "configured" or configures(*request):
            fake.set_node(our_node, **fields)
            fake.requests.clear()
        return False

    our_stage.reserve(our_stage.instance(our_node))
    our_stage.service.has_drive = moment == "with a drive"
    if moment == "claimed":
        lose()
    elif moment == "with a drive":
        our_stage.service.on_config_drive = lose
    elif moment == "attached":
        fake.faults.delay(0, "POST", "/vifs$", when=lose)
    elif moment == "configured":
        fake.faults.delay(0, "PATCH", count=None, when=lose)
    vifs = [] if moment == "with a drive" else [virt.Vif(VIF)]
    with pytest.raises(error, match=says):
        our_stage.driver.spawn(virt.DeployRequest(our_stage.instance(our_node), IMAGE, vifs))
    there = fake.node(our_node)
    assert {name: there[name] for name in fields} == fields
    assert fake.requests.matching("PUT", "/states/provision$") == []
    if "maintenance" not in fields and moment != "configured":
        assert fake.requests.matching("PATCH") == [], "it is not written to"


def test_somebody_takes_the_node_between_two_vifs(stage, fake, two_ports) -> None:
    stranger = meanwhile(lambda: fake.set_node(two_ports, instance_uuid=STRANGER))
    fake.faults.delay(0, "POST", "/vifs$", when=stranger)
    with pytest.raises(exceptions.NodeTaken):
        stage.driver.spawn(virt.DeployRequest(stage.instance(two_ports), IMAGE, TWO_VIFS))
    assert fake.vifs(two_ports) == [VIF]


Fault = Callable[[FakeIronic, str], object]
CHECKSUM = "The supplied image checksum is invalid or does not match."
NOT_VALID = "The requested image is not valid for use."
NO_HREF = "Validation of image href x failed, reason: 404"
NO_RAMDISK = "Validation of image href http://ipa failed, reason: 404"


def deploying(says: str) -> Fault:
    return lambda fake, node: fake.fail_next("deploy", says)


def validating(interface: str, says: str) -> Fault:
    return lambda fake, node: fake.invalidate(node, interface, says)


def asked(fake: FakeIronic, node: str) -> object:
    return fake.faults.status(500, "PUT", "/states/provision$", NOT_VALID)


NO_BMC = "the BMC has no address"
INVALID = exceptions.NodeValidationFailed
FAILURES: dict[str, tuple[Fault, ErrorType, str]] = {
    "deploying": (deploying("Timeout reached"), exceptions.DeployFailed, "Timeout reached"),
    "the image, deploying": (deploying(CHECKSUM), exceptions.ImageRefused, CHECKSUM),
    "the image, asked": (asked, exceptions.ImageRefused, NOT_VALID),
    "the image": (validating("deploy", NO_HREF), exceptions.ImageRefused, NO_HREF),
    "the deploy ramdisk": (validating("deploy", NO_RAMDISK), INVALID, NO_RAMDISK),
    "the deploy interface": (validating("deploy", NO_BMC), INVALID, rf"\(deploy: {NO_BMC}\)"),
    "the power interface": (validating("power", NO_BMC), INVALID, rf"\(power: {NO_BMC}\)"),
    "the storage interface": (validating("storage", NO_BMC), INVALID, rf"\(storage: {NO_BMC}\)"),
}


@pytest.mark.parametrize(("fault", "error", "says"), FAILURES.values(), ids=list(FAILURES))
def test_a_failure_says_what_ironic_said_and_gives_the_node_back(
    stage, fake, node, fault, error, says
) -> None:
    fake.set_node(node, storage_interface="cinder")
    fault(fake, node)
    failure = stage.fail_to_spawn(node, error, says)
    # A bad image burns one node only.
    assert failure.retriable is not isinstance(failure, exceptions.ImageRefused)


def test_a_refusal_is_told_even_if_the_reasons_are_unavailable(fake, set_stage, node) -> None:
    stage = set_stage(fake, api_max_retries=0)
    fake.invalidate(node, "power", "the BMC has no address")
    fake.faults.status(500, "GET", "/validate$")
    with pytest.raises(exceptions.DeployFailed, match="the BMC has no address"):
        stage.spawn(stage.instance(node))


def test_a_failed_validation_of_an_unneeded_interface_is_ignored(stage, fake, node) -> None:
    fake.invalidate(node, "console", "no terminal port")
    stage.spawn(stage.instance(node))


def test_a_fetch_failure_of_ironic_is_not_the_images_fault(set_stage, fake, node) -> None:
    stage = set_stage(fake, api_max_retries=0)
    fake.faults.status(500, "PUT", "/states/provision$", NO_RAMDISK)
    with pytest.raises(exceptions.IronicError, match="image href http://ipa failed"):
        stage.spawn(stage.instance(node))


@pytest.mark.parametrize("state", [states.DEPLOY_FAILED, states.ERROR])
@pytest.mark.parametrize("reason", ["Timeout reached while waiting for callback", None])
def test_a_failed_deployment_is_told_when_ironic_has_said_why(stage, fake, node, reason, state):
    stage.ironic_gives_up(node, "deploying", state, reason)
    with pytest.raises(exceptions.DeployFailed, match=reason or "gives no reason") as caught:
        stage.spawn(stage.instance(node))
    assert caught.value.last_error == reason
    assert stage.service.on_abort_question is None
    assert fake.node(node)["instance_uuid"] is None


def test_a_vif_that_has_no_place_is_named(stage: Stage, node: str) -> None:
    failure = stage.fail_to_spawn(node, exceptions.VifAttachFailed, vifs=TWO_VIFS)
    assert failure.vif == TWO_VIFS[1].id


@pytest.mark.parametrize("when", ["it deploys", "all is ready"])
def test_a_build_that_is_no_longer_wanted_is_ended_and_undone(stage, fake, node, when) -> None:
    def unwanted() -> None:
        stage.service.unwanted = "the instance is being deleted"

    if when == "it deploys":
        stage.while_it_is("deploying", node, unwanted)
    else:
        stage.service.on_config_drive = unwanted
    assert not stage.fail_to_spawn(node, exceptions.BuildAborted, "is being deleted").retriable
    assert stage.provision_requests("active") == (when == "it deploys")


def test_a_deployment_that_takes_too_long_is_ended_and_undone(fake, set_stage, node) -> None:
    stage = set_stage(fake, deploy_timeout=3)
    stage.fail_to_spawn(node, exceptions.WaitTimeout, r"deploy_timeout.*deploying")


def test_a_stopping_service_leaves_the_deployment_to_the_next(stage, fake, node) -> None:
    stage.while_it_is("deploying", node, stage.driver.cleanup_host)
    with pytest.raises(exceptions.WaitCancelled):
        stage.spawn(stage.instance(node))
    assert fake.node(node)["instance_uuid"] == INSTANCE

    stage.service.on_abort_question = None
    restarted = stage.restarted()
    restarted.spawn(stage.instance(node))
    restarted.driver.cleanup_host()
    assert fake.node(node)["provision_state"] == "active"
    assert stage.provision_requests("active") == 1


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        (None, "deleted from Ironic"),
        ({"provision_state": "cleaning", "instance_uuid": None}, "took the server off"),
    ],
    ids=["deleted", "torn down"],
)
def test_what_an_operator_does_while_it_deploys_is_told(stage, fake, node, fields, says) -> None:
    def interferes() -> None:
        if fields is None:
            fake.remove_node(node)
        else:
            fake.set_node(node, **fields)

    stage.while_it_is("deploying", node, interferes)
    with pytest.raises(exceptions.DeployFailed, match=says) as caught:
        stage.spawn(stage.instance(node))
    assert (caught.value.node, caught.value.instance) == (node, INSTANCE)


def test_what_the_service_says_of_a_server_is_on_the_node(stage, fake, node, monkeypatch) -> None:
    def metadata(instance: virt.InstanceLike, networks: virt.NetworkInfo) -> dict[str, str]:
        return {"told": f"{instance.uuid} {[vif.id for vif in networks]}"}

    monkeypatch.setattr(stage.service, "deploy_metadata", metadata)
    stage.spawn(stage.instance(node))
    assert fake.node(node)["instance_info"]["told"] == f"{INSTANCE} {[VIF]}"


# -- errors of any kind ---------------------------------------------------------


def test_an_undoing_that_breaks_does_not_hide_the_first_error(stage, fake, node, monkeypatch):
    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("the disk of this host is full")

    monkeypatch.setattr(stage.driver._teardown, "tear_down", broken)
    fake.fail_next("deploy", "no space left")
    with pytest.raises(exceptions.DeployFailed, match="no space left") as caught:
        stage.spawn(stage.instance(node))
    assert "disk of this host" in str(caught.value.__notes__)


def test_a_claim_that_arrived_late_and_was_refused_is_a_claim(fake, set_stage, node) -> None:
    stage = set_stage(fake, api_max_retries=2)
    fake.faults.lose_reply("PATCH", f"/nodes/{node}$")

    # The looks after it find the node as it was.
    def as_before(method: str, path: str, shown: dict[str, Any]) -> None:
        if method == "GET" and "instance_uuid" in shown and len(patches()) < 3:
            shown["instance_uuid"] = None

    def patches() -> list[Any]:
        return list(fake.requests.matching("PATCH", f"/nodes/{node}$"))

    stage.edits.append(as_before)
    find_locked(fake, "PATCH", f"/nodes/{node}$", count=2)
    stage.reserve(stage.instance(node))
    assert len(patches()) == 3
    assert fake.node(node)["instance_uuid"] == INSTANCE


def test_another_processs_unwanted_build_is_torn_down(stage, instance, node) -> None:
    stage.service.unwanted = "the server is being deleted"
    with pytest.raises(exceptions.BuildAborted):
        stage.driver.finish_spawn(instance)
    assert stage.fake.node(node)["instance_uuid"] is None
