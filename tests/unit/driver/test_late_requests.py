# SPDX-License-Identifier: Apache-2.0

"""Requests of a former instance that arrive when its node is another's, or free."""

import dataclasses
import json
from typing import Any

import pytest

from ironic_virt import exceptions, virt
from ironic_virt.driver.claim import KEY_PREFIX
from ironic_virt.driver.deploy import steps
from ironic_virt.testing.fake_ironic import FakeIronic
from ironic_virt.testing.fake_ironic.journal import Entry
from tests.crashing import Crash
from tests.unit.driver.stage import IMAGE, INSTANCE, SetStage, Stage, find_locked, just_before
from tests.unit.driver.stories import PLAIN, releases

OTHER = "6d2b4f02-0000-4000-8000-00000000000f"
# More than a patch has room for.
LARGE = virt.ConfigDrive(meta_data={"uuid": INSTANCE}, user_data="x" * 1024**2)
STEP = {"interface": "bios", "step": "apply_configuration", "args": {}, "priority": 150}
WITH_STEPS = virt.Flavor("bm", extra_specs={steps.EXTRA_SPEC: json.dumps([STEP])})
GOLD = virt.Flavor("bm", extra_specs={"resources:CUSTOM_GOLD": "1"})
PATCH = ("PATCH", "/nodes/[^/]+$")
PROVISION = ("PUT", "/states/provision$")


def arrive(stage: Stage, *entries: Entry) -> list[int]:
    """Have requests arrive once more; the statuses of their answers."""
    return [
        stage.channel.send(
            entry.method, entry.path.removeprefix("/v1"), json=entry.body, version=entry.version
        ).status
        for entry in entries
    ]


def asked(fake: FakeIronic, verb: str) -> list[Entry]:
    return [one for one in fake.requests.matching(*PROVISION) if one.body["target"] == verb]


def somebody_asks(stage: Stage, node: str, verb: str, **body: Any) -> None:
    path = f"/nodes/{node}/states/provision"
    answer = stage.channel.send("PUT", path, json={"target": verb, **body}, version="1.90")
    assert answer.status == 202, answer.body


def arrive_in_vain(stage: Stage, node: str, *entries: Entry) -> set[int]:
    """Have requests arrive once more, which change nothing of a node; the statuses."""
    before = stage.fake.node(node)
    statuses = set(arrive(stage, *entries))
    # But for when its lock was asked for.
    assert stage.fake.node(node) | {"updated_at": before["updated_at"]} == before
    return statuses


def others(stage: Stage, node: str) -> virt.Instance:
    """Another instance, that is active on the node."""
    instance = stage.instance(node, uuid=OTHER)
    stage.spawn(instance)
    stage.fake.advance(60)
    return instance


def gone(stage: Stage, node: str) -> list[Entry]:
    """The patches of our instance, which was on the node and is gone."""
    instance = stage.instance(node)
    stage.spawn(instance)
    stage.fake.advance(60)
    stage.rebuild(instance)
    stage.fake.advance(60)
    stage.destroy(instance)
    stage.fake.settle()
    stage.reserve(instance)
    stage.driver.failed_spawn_cleanup(instance)
    return stage.fake.requests.matching(*PATCH)


# -- deployments --------------------------------------------------------------


def test_a_late_deployment_is_of_what_its_instance_asked_for(stage, fake, node) -> None:
    instance = stage.instance(node)
    stage.spawn(instance)
    (late,) = asked(fake, "active")
    stage.destroy(instance)
    fake.settle()
    answers: list[int] = []
    just_before(fake, lambda: answers.extend(arrive(stage, late)))
    others(stage, node)
    assert answers == [202]
    there = fake.node(node)
    assert (there["provision_state"], there["instance_uuid"]) == ("active", OTHER)
    assert there["instance_info"]["configdrive"]["meta_data"]["uuid"] == OTHER


def test_what_fits_into_no_patch_goes_with_the_request(stage, fake, node) -> None:
    stage.service.drive = LARGE
    instance = stage.active(node)
    there = fake.node(node)["instance_info"]
    assert there["configdrive"]["user_data"] == LARGE.user_data
    stage.rebuild(instance)
    (request,) = asked(fake, "rebuild")
    assert request.body["configdrive"]["user_data"] == LARGE.user_data


def test_where_less_fits_into_a_patch_it_goes_with_the_request(stage, fake, node) -> None:
    def has_drive(method: str, path: str, body: Any) -> bool:
        return any(change["path"] == "/instance_info/configdrive" for change in body)

    fake.faults.status(413, *PATCH, body="Request body is too large.", when=has_drive)
    stage.spawn(stage.instance(node))
    (request,) = asked(fake, "active")
    assert request.body["configdrive"]["meta_data"]["uuid"] == INSTANCE


@pytest.mark.parametrize("way", ["locked", "lose_reply", "never answered", "500"])
@pytest.mark.parametrize("carries", ["a drive", "steps"])
def test_a_deployment_that_may_be_another_s_is_undone(set_stage, fake, node, carries, way) -> None:
    stage = set_stage(fake, api_max_retries=60 if way in ("locked", "lose_reply") else 0)
    if carries == "a drive":
        stage.service.drive = LARGE
    instance = stage.instance(node, **({"flavor": WITH_STEPS} if carries == "steps" else {}))
    if way == "locked":
        drive = {"meta_data": {"uuid": OTHER}}
        just_before(fake, lambda: somebody_asks(stage, node, "active", configdrive=drive))
    elif way == "500":
        fake.faults.status(500, *PROVISION)
    else:
        fake.faults.lose_reply(*PROVISION)
    says = "can't tell" if way == "500" else "not known"
    with pytest.raises(exceptions.DeployFailed, match=says) as caught:
        stage.spawn(instance)
    assert caught.value.retriable
    assert fake.node(node)["instance_uuid"] is None
    assert len(asked(fake, "deleted")) == (way != "500")


@pytest.mark.parametrize("way", ["locked", "lose_reply"])
def test_a_rebuild_that_may_be_another_s_fails(stage, fake, node, way) -> None:
    instance = stage.active(node)
    stage.service.drive = LARGE
    if way == "locked":
        drive = {"meta_data": {"uuid": OTHER}}
        just_before(fake, lambda: somebody_asks(stage, node, "rebuild", configdrive=drive))
    else:
        fake.faults.lose_reply(*PROVISION)
    with pytest.raises(exceptions.RebuildFailed, match="not known") as caught:
        stage.rebuild(instance)
    assert caught.value.disk is exceptions.Disk.UNKNOWN


@pytest.mark.parametrize("finish", [False, True])
def test_a_late_deployment_of_a_reserved_node_is_not_its_servers(stage, fake, node, finish):
    instance = stage.instance(node)
    stage.reserve(instance)
    somebody_asks(stage, node, "active")
    with pytest.raises(exceptions.DeployFailed, match="before it was configured"):
        (stage.driver.finish_spawn if finish else stage.spawn)(instance)
    assert fake.node(node)["instance_uuid"] is None


@pytest.mark.parametrize("answered", [True, False])
@pytest.mark.parametrize("way", ["rescue", "rescue and back"])
def test_what_is_another_s_is_not_taken_for_a_rebuild(set_stage, answered, way) -> None:
    fake, node = PLAIN.ironic()
    stage = set_stage(fake)
    instance = stage.active(node)

    def there() -> None:
        somebody_asks(stage, node, "rescue", rescue_password="another's")
        if way != "rescue":
            fake.settle()
            somebody_asks(stage, node, "unrescue")
            fake.settle()

    just_before(fake, there)
    if not answered:
        fake.faults.status(504, *PROVISION, nth=2 if way == "rescue" else 3)
    elif way != "rescue":
        find_locked(fake, *PROVISION, nth=3)
    with pytest.raises(exceptions.RebuildFailed) as caught:
        stage.rebuild(instance)
    assert stage.provision_requests("rebuild") == 0
    assert caught.value.disk is exceptions.Disk.UNKNOWN


def test_a_rescue_that_is_another_s_is_not_taken_for_ours(set_stage: SetStage) -> None:
    fake, node = PLAIN.ironic()
    stage = set_stage(fake)
    instance = stage.active(node)
    just_before(fake, lambda: somebody_asks(stage, node, "rescue", rescue_password="another's"))
    with pytest.raises(exceptions.RescueFailed, match="not known"):
        stage.rescue(instance)
    fake.settle()
    stage.unrescue(instance)
    # One whose reply was lost is looked for.
    fake.faults.lose_reply(*PROVISION)
    stage.rescue(instance)
    assert fake.node(node)["provision_state"] == "rescue"


# -- the deletion of an allocation --------------------------------------------


@pytest.mark.parametrize("another", [None, OTHER])
def test_a_build_that_loses_its_node_leaves_nothing(fake, set_stage, node, another) -> None:
    """Ironic takes the instance's uuid off, and nothing else of the instance."""
    stage = set_stage(fake, node_selection="ironic")
    untouched = stage.trace(node)
    there: dict[str, Any] = {}

    def late() -> None:
        answer = stage.channel.send("DELETE", f"/allocations/{INSTANCE}", version="1.90")
        assert (answer.status, fake.node(node)["instance_uuid"]) == (204, None)
        fake.set_node(node, instance_uuid=another)
        there.update(stage.trace(node))

    fake.faults.status(503, *PROVISION)
    just_before(fake, late)
    with pytest.raises(exceptions.NodeError):
        stage.spawn(stage.instance("gold~compute1", flavor=GOLD))
    assert there["vifs"]
    assert stage.trace(node) == (there if another else untouched)
    keys = [
        operation["path"]
        for entry in fake.requests.matching(*PATCH)
        for operation in entry.body
        if operation["op"] == "add" and KEY_PREFIX in operation["path"]
    ]
    # What was asked for before the node was lost is refused.
    assert len(set(keys)) == (1 if another else 2)


@pytest.mark.parametrize("is_told", [True, False])
def test_a_failed_build_that_loses_its_node_is_torn_down(fake, set_stage, node, is_told) -> None:
    stage = set_stage(fake, node_selection="ironic", api_max_retries=1)
    instance = stage.instance("gold~compute1", flavor=GOLD)

    def late() -> None:
        stage.channel.send("DELETE", f"/allocations/{INSTANCE}", version="1.90")
        assert fake.node(node)["instance_uuid"] is None

    fake.fail_next("deploy", "disk broken", node)
    just_before(fake, lambda: just_before(fake, late))
    fake.faults.status(503, *PROVISION, nth=2, count=1 if is_told else 2)
    with pytest.raises(exceptions.DeployFailed, match="disk broken"):
        stage.spawn(instance)
    if not is_told:
        stage.destroy(dataclasses.replace(instance, node=node))
    fake.settle()
    left = fake.node(node)
    assert (left["provision_state"], left["instance_info"]) == ("available", {})


# -- patches ------------------------------------------------------------------


@pytest.mark.parametrize("is_others", [False, True])
def test_no_late_patch_changes_another_s_node_or_one_got_again(stage, fake, node, is_others):
    late = gone(stage, node)
    if is_others:
        others(stage, node)
    else:
        # Those for a free node look like ones that come in time.
        late = [entry for entry in late if entry.body[0]["op"] == "remove"]
        stage.active(node)
    assert len(late) > 3
    assert arrive_in_vain(stage, node, *late) == {400, *[409] * is_others}


def test_only_a_late_reservation_changes_a_free_node(stage, fake, node) -> None:
    late = gone(stage, node)
    # A late reservation looks like one that comes in time.
    rest = [entry for entry in late if len(entry.body) > 2]
    assert len(rest) == len(late) - 2
    assert arrive_in_vain(stage, node, *rest) == {400}


def test_a_late_release_leaves_the_next_server_on_the_node(fake, set_stage, node) -> None:
    stage = set_stage(fake, node_selection="ironic")
    instance = stage.instance("gold~compute1", flavor=GOLD)
    stage.reserve(instance)
    stage.driver.failed_spawn_cleanup(instance)
    late = fake.requests.matching(*PATCH)
    assert fake.node(node)["instance_uuid"] is None
    stage.reserve(dataclasses.replace(instance, uuid=OTHER))
    assert arrive_in_vain(stage, node, *late) <= {400, 409}


def test_a_late_release_leaves_a_server_whose_build_went_on(stage, fake, node) -> None:
    instance = stage.instance(node)
    stage.reserve(instance)
    fake.faults.status(503, *PATCH, count=None)
    with pytest.raises(exceptions.IronicVirtError):
        stage.driver.failed_spawn_cleanup(instance)
    late = [one for one in fake.requests.matching(*PATCH) if releases("PATCH", one.path, one.body)]
    fake.faults.clear()
    stage.spawn(instance)
    fake.advance(60)
    assert arrive_in_vain(stage, node, *late) == {400}


def test_no_late_patch_changes_what_a_later_rebuild_wrote(stage, fake, node) -> None:
    instance = stage.active(node)
    stage.rebuild(instance)
    late = fake.requests.matching(*PATCH)
    fake.advance(60)
    stage.driver.rebuild(virt.DeployRequest(instance, IMAGE, request_id="req-2"))
    assert arrive_in_vain(stage, node, *late) == {400}


@pytest.mark.parametrize("dies", [False, True])
def test_no_late_patch_begins_a_rebuild_that_has_failed(set_stage, fake, node, dies) -> None:
    stage = set_stage(fake, api_max_retries=0)
    instance = stage.active(node)
    fake.faults.hang(*PATCH, when=lambda *_, at=stage.channel: not setattr(at, "dead", dies))
    with pytest.raises(Crash if dies else exceptions.RebuildFailed):
        stage.rebuild(instance)
    if dies:
        stage = set_stage(fake)
        with pytest.raises(exceptions.RebuildFailed, match="interrupted"):
            stage.rebuild(instance, resumes=True)
    assert arrive_in_vain(stage, node, fake.requests.matching(*PATCH)[0]) == {400}
    assert fake.node(node)["protected"]


def test_a_release_that_was_carried_out_already_is_no_error(stage, fake, node) -> None:
    instance = stage.instance(node)
    stage.reserve(instance)
    stage.refresh()
    handle = fake.handle

    def twice(method: str, path: str, *more: Any) -> Any:
        if method == "PATCH":
            assert handle(method, path, *more).status == 200
        return handle(method, path, *more)

    fake.handle = twice  # type: ignore[method-assign]
    stage.destroy(instance)
    assert [entry.status for entry in fake.requests.matching(*PATCH)] == [200, 200, 400]
    assert fake.node(node)["instance_uuid"] is None
    assert stage.driver._site.nodes.inventory.snapshot.nodes[node].instance_uuid is None


def test_a_claim_of_an_older_version_is_rebuilt_and_released(stage, fake, node) -> None:
    instance = stage.active(node)

    def forget() -> None:
        info = fake.node(node)["instance_info"]
        kept = {name: value for name, value in info.items() if not name.startswith(KEY_PREFIX)}
        fake.set_node(node, instance_info=kept)

    forget()
    stage.rebuild(instance)
    fake.advance(60)
    info = fake.node(node)["instance_info"]
    assert [key for key in info if key.startswith(KEY_PREFIX + INSTANCE)]
    stage.destroy(instance)
    fake.settle()
    stage.reserve(instance)
    forget()
    stage.destroy(instance)
    assert (fake.node(node)["instance_uuid"], fake.node(node)["instance_info"]) == (None, {})


def test_a_hidden_config_drive_alone_proves_no_patch(stage, fake, node) -> None:
    instance = stage.instance(node)
    stage.reserve(instance)
    fake.faults.status(400, *PROVISION, body="not now")
    fake.faults.status(503, *PATCH, count=None, when=releases)
    with pytest.raises(exceptions.DeployFailed, match="not now"):
        stage.spawn(instance)
    fake.faults.clear()
    stage.service.drive = virt.ConfigDrive(meta_data={"uuid": "the next one"})
    fake.faults.reset(*PATCH)
    stage.spawn(instance)
    assert fake.node(node)["instance_info"]["configdrive"]["meta_data"]["uuid"] == "the next one"
