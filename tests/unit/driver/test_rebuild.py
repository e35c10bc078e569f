# SPDX-License-Identifier: Apache-2.0

"""Stories of a rebuild: how it goes, what stops it, and what is on the disk then."""

import sys
from typing import Any

import pytest

from ironic_virt import exceptions, virt
from ironic_virt.exceptions import Disk
from ironic_virt.testing.fake_ironic import FakeIronic
from tests.config_drives import sent_drive
from tests.unit.driver.stage import INSTANCE, OTHER_IMAGE, SECRET, STRANGER, VIF, Stage

GLANCE = virt.ImageMeta("0f7bb2a1-0000-4000-8000-000000000000")
PARTITION = virt.ImageMeta(
    "https://images.example.test/p.raw",
    checksum="ef" * 16,
    properties={"kernel_id": "file:///k", "ramdisk_id": "file:///r"},
)


def rebuild(
    stage: Stage,
    instance: virt.Instance,
    image: virt.ImageMeta = OTHER_IMAGE,
    request: str | None = "req-1",
    **more: Any,
) -> None:
    stage.driver.rebuild(
        virt.DeployRequest(
            instance,
            image,
            [virt.Vif(VIF)],
            admin_password=SECRET,
            request_id=request,
            **more,
        )
    )


def fails_untouched(
    stage: Stage, instance: virt.Instance, says: str, *args: Any, asks: bool = False, **more: Any
) -> exceptions.RebuildFailed:
    """A rebuild fails, and all is as it was before.

    :param asks: whether Ironic has been asked for anything.
    """
    before = stage.trace(instance.node or "")
    with pytest.raises(exceptions.RebuildFailed, match=says) as caught:
        rebuild(stage, instance, *args, **more)
    assert caught.value.disk is Disk.UNTOUCHED
    assert "the disk is as it was" in str(caught.value)
    assert caught.value.node == instance.node
    assert bool(sent(stage.fake)) is asks
    assert stage.trace(instance.node or "") == before
    return caught.value


def sent(fake: FakeIronic) -> list[str]:
    """The requests to Ironic, without reads."""
    return [entry.method for entry in fake.requests if entry.method != "GET"]


def test_another_image_goes_onto_the_node(stage, fake, node, instance, caplog) -> None:
    caplog.set_level("DEBUG")
    rebuild(stage, instance)
    there = fake.node(node)
    assert (there["provision_state"], there["instance_uuid"]) == ("active", INSTANCE)
    told = there["instance_info"]
    assert (told["image_source"], told["image_checksum"]) == (OTHER_IMAGE.id, OTHER_IMAGE.checksum)
    assert told["image_type"] == "whole-disk"
    assert "preserve_ephemeral" not in told
    (request,) = fake.requests.matching("PUT", "/states/provision$")
    assert request.body == {"target": "rebuild"}
    assert sent_drive(fake)["meta_data"]["admin_pass"] == SECRET
    assert caplog.text
    assert SECRET not in caplog.text
    assert fake.vifs(node) == [VIF]
    assert stage.service.reports == [
        "configuring: active",
        "rebuilding: active",
        "rebuilding: deploying",
        "active: active",
    ]


@pytest.mark.parametrize("has_drive", [False, True])
def test_it_takes_a_look_a_change_and_a_request(stage, fake, node, instance, has_drive) -> None:
    assert "configdrive" in fake.node(node)["instance_info"]
    stage.service.has_drive = has_drive
    rebuild(stage, instance)
    asked = [entry.method for entry in fake.requests]
    # The node's ports are in the config drive, and when that is made the node is read again.
    looks = ["GET", "GET", "GET"] if has_drive else ["GET"]
    assert asked[: len(looks) + 2] == [*looks, "PATCH", "PUT"]
    # The last ones forget the former image, and protect the instance again.
    assert (set(asked[len(looks) + 2 : -2]), asked[-2:]) == ({"GET"}, ["PATCH", "PATCH"])
    assert ("configdrive" in fake.node(node)["instance_info"]) is has_drive


def test_what_the_last_image_had_of_its_own_does_not_stay(stage, fake, node, instance) -> None:
    rebuild(stage, instance, virt.ImageMeta(f"https://me:{SECRET}@images.test/a", checksum="ab"))
    info = fake.node(node)["instance_info"]
    left = {"image_os_hash_algo": "sha512", "image_url": "******", "preserve_ephemeral": "True"}
    fake.set_node(node, instance_info={**info, **left, "rack.unit": "7"})
    rebuild(stage, instance, GLANCE, "req-2")
    told = fake.node(node)["instance_info"]
    assert SECRET not in str(told | {"configdrive": None})
    assert {"image_os_hash_algo", "image_checksum", "preserve_ephemeral"}.isdisjoint(told)
    assert told["image_url"] == "******", "Ironic hides what it has written itself"
    assert told["rack.unit"] == "7", "Ironic takes no patch of such a name"


def test_without_a_config_drive_the_instance_stays_as_it_is(stage, instance) -> None:
    stage.service.on_config_drive = lambda: 1 / 0
    fails_untouched(stage, instance, "config drive can't be made")


# -- images -------------------------------------------------------------------


def test_an_ephemeral_disk_is_preserved_beside_a_partition_image(stage, fake, node, instance):
    rebuild(stage, instance, PARTITION, preserve_ephemeral=True)
    told = fake.node(node)["instance_info"]
    assert (told["preserve_ephemeral"], told["image_type"]) == ("True", "partition")
    rebuild(stage, instance, PARTITION, "req-2")
    assert "preserve_ephemeral" not in fake.node(node)["instance_info"]


def test_a_whole_disk_image_would_not_preserve_it_and_is_refused(stage, instance) -> None:
    fails_untouched(stage, instance, "use a partition image", preserve_ephemeral=True)
    # Nothing is assumed of an image whose type Ironic can't find out.
    fails_untouched(stage, instance, "auto_lessee", GLANCE, preserve_ephemeral=True, asks=True)


def test_an_image_of_unknown_type_is_taken_for_a_whole_disk(stage, fake, node, instance) -> None:
    rebuild(stage, instance, GLANCE)
    assert fake.node(node)["instance_info"]["image_type"] == "whole-disk"
    assert sent(fake) == ["PATCH", "PUT", "PATCH", "PUT", "PATCH", "PATCH"]
    fake.requests.clear()
    rebuild(stage, instance, GLANCE, "req-2")
    assert sent(fake) == ["PATCH", "PUT", "PATCH", "PATCH"], "it is known by now"


def test_what_is_no_image_of_a_disk_is_taken_for_none(stage, instance, caplog) -> None:
    iso = virt.ImageMeta("https://a/b.iso", properties={"ironic_ramdisk_deploy": "true"})
    fails_untouched(stage, instance, r"ISO image; delete it", iso, asks=True)
    # Nor is a tree of packages an image, whose address Ironic could not look at.
    tree = virt.ImageMeta(f"https://me:{SECRET}@images.test/BaseOS/")
    stage.fake.faults.status(500, "PUT", body="cannot access local variable 'auto_lessee'")
    fails_untouched(stage, instance, "auto_lessee", tree, asks=True)
    assert "whole disk" not in caplog.text


# -- what is refused changes nothing ------------------------------------------


def test_an_instance_that_boots_from_a_volume_is_refused_at_once(stage, fake, instance) -> None:
    root, other = virt.BlockDevice("v0", 0, {}), virt.BlockDevice("v1", 1, {})
    with pytest.raises(exceptions.OperationNotSupported, match="boots from a volume"):
        rebuild(stage, instance, block_devices=[other, root])
    assert not len(fake.requests)
    rebuild(stage, instance, block_devices=[other])
    assert stage.provision_requests("rebuild") == 1


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"maintenance": True, "maintenance_reason": "fan"}, r"maintenance \(fan\)"),
        ({"protected": True, "protected_reason": "runs the till"}, "runs the till"),
        ({"shard": "elsewhere"}, "'elsewhere'"),
        ({"deploy_interface": "anaconda"}, "image https://a/b.raw needs the properties"),
        ({"provision_state": "rescue"}, "unrescue the server first"),
        ({"provision_state": "available"}, "'available', from which nothing can be rebuilt"),
        ({"provision_state": "cleaning"}, "'cleaning'"),
        ({"provision_state": "brand new"}, "'brand new'"),
    ],
)
def test_a_node_that_can_not_be_rebuilt_is_left_as_it_is(our_stage, our_node, fields, says):
    instance = our_stage.active(our_node)
    our_stage.fake.set_node(our_node, **fields)
    fails_untouched(our_stage, instance, says, virt.ImageMeta("https://me:se/cret@a/b.raw"))


@pytest.mark.parametrize("status", [400, 403, 409, 500])
def test_what_ironic_refuses_leaves_the_node_as_it_was(stage, fake, node, instance, status):
    fake.faults.status(status, "PUT", "/states/provision$", body="the node has no kernel")
    fails_untouched(stage, instance, "no kernel", asks=True)
    assert fake.node(node)["protected"]
    rebuild(stage, instance)
    assert stage.trace(node)["instance_info"]["image_source"] == OTHER_IMAGE.id


@pytest.mark.parametrize("wish", ["req-2", None])
@pytest.mark.parametrize(
    "refuse",
    [
        lambda stage, node: stage.fake.faults.status(400, "PUT", "/states/provision$"),
        lambda stage, node: setattr(stage.service, "unwanted", "the instance is deleting"),
        lambda stage, node: stage.fake.set_node(node, deploy_interface="anaconda"),
    ],
)
def test_what_a_dead_process_has_prepared_is_put_back(stage, fake, node, instance, wish, refuse):
    stage.rebuild(instance)
    before = stage.trace(node)
    # It asks for that between the patch and the request.
    stage.service.on_abort_question = sys.exit
    with pytest.raises(SystemExit):
        rebuild(stage, instance, PARTITION, wish)
    assert stage.trace(node)["instance_info"]["image_source"] == PARTITION.id
    assert not fake.node(node)["protected"]
    stage.service.on_abort_question = None
    refuse(stage, node)
    with pytest.raises((exceptions.RebuildFailed, exceptions.BuildAborted)):
        rebuild(stage.restarted(), instance, request=wish)
    assert stage.trace(node) == before
    assert fake.node(node)["protected"]
    assert stage.provision_requests("rebuild") == 1


def test_a_stranger_who_takes_the_node_meanwhile_is_left_alone(stage, fake, node, instance):
    report = stage.service.report_progress

    def taken(whose: virt.InstanceLike, step: str, detail: str = "") -> None:
        report(whose, step, detail)
        if step == "configuring":
            fake.set_node(node, instance_uuid=STRANGER)

    stage.service.report_progress = taken  # type: ignore[method-assign]
    with pytest.raises(exceptions.RebuildFailed, match=STRANGER) as caught:
        rebuild(stage, instance)
    assert caught.value.disk is Disk.UNTOUCHED
    assert stage.provision_requests("rebuild") == 0


@pytest.mark.parametrize(
    "changes", [{"instance_uuid": STRANGER}, {"shard": "theirs"}, {"provision_state": "rescue"}]
)
def test_changes_while_the_config_drive_is_made_are_seen(our_stage, our_node, changes) -> None:
    instance = our_stage.active(our_node)
    our_stage.service.on_config_drive = lambda: our_stage.fake.set_node(our_node, **changes)
    with pytest.raises(exceptions.RebuildFailed) as caught:
        rebuild(our_stage, instance)
    assert caught.value.disk is Disk.UNTOUCHED
    assert sent(our_stage.fake) == []


# -- what goes wrong on the way -----------------------------------------------


@pytest.mark.parametrize(
    ("last_error", "disk"),
    [
        ("Failed to prepare to deploy: no port", Disk.KEPT),
        ("Failed to prepare the configdrive. Exception: disk full", Disk.KEPT),
        ("Deploy step deploy.write_image failed: no space left.", Disk.UNKNOWN),
        ("Timeout reached while waiting for callback for node x", Disk.UNKNOWN),
        ("Deploy step deploy.boot_instance failed: the BMC says no.", Disk.REWRITTEN),
    ],
)
def test_a_failure_says_what_ironic_said_and_what_is_on_the_disk(
    stage, fake, node, instance, last_error, disk
) -> None:
    fake.fail_next("deploy", last_error, node)
    with pytest.raises(exceptions.RebuildFailed) as caught:
        rebuild(stage, instance)
    error = caught.value
    assert (error.disk, error.last_error, error.node) == (disk, last_error, node)
    assert f"{disk.value}: {last_error}" in error.reason
    assert fake.node(node)["provision_state"] == "deploy failed"
    assert fake.node(node)["instance_uuid"] == INSTANCE
    rebuild(stage, instance, request="req-2")
    assert fake.node(node)["provision_state"] == "active"


def test_a_request_that_did_not_arrive_leaves_the_disk_as_it_was(stage, fake, instance) -> None:
    fake.faults.reset("PUT", "/states/provision$", count=None)
    error = fails_untouched(stage, instance, ".", asks=True)
    assert isinstance(error.__cause__, exceptions.IronicUnreachable)


# -- wishes -------------------------------------------------------------------


def test_the_same_request_twice_is_one_rebuild(stage: Stage, instance: virt.Instance) -> None:
    fails_untouched(stage, instance, "interrupted before", asks=True, resumes=True)
    # Each rebuild without a request id is a separate request.
    for request, done in (("1", 1), ("1", 1), ("2", 2), (None, 3), (None, 4)):
        rebuild(stage, instance, request=request)
        if request is not None:
            rebuild(stage, instance, request=request, resumes=True)
        assert stage.provision_requests("rebuild") == done


def test_a_wish_that_failed_stays_so(stage, fake, node, instance) -> None:
    fake.fail_next("deploy", "Deploy step deploy.boot_instance failed", node)
    for _ in range(2):
        with pytest.raises(exceptions.RebuildFailed) as caught:
            rebuild(stage, instance)
        assert caught.value.disk is Disk.REWRITTEN
    assert stage.provision_requests("rebuild") == 1


def test_nothing_is_said_of_the_disk_once_the_node_moved_on(our_stage, our_node) -> None:
    instance = our_stage.active(our_node)
    rebuild(our_stage, instance)
    our_stage.fake.set_node(our_node, shard="theirs")
    with pytest.raises(exceptions.RebuildFailed, match="shard") as caught:
        rebuild(our_stage, instance)
    assert caught.value.disk is Disk.UNKNOWN


@pytest.mark.parametrize("fails", [False, True])
def test_another_rebuild_under_way_ends_first(stage, fake, node, instance, fails) -> None:
    if fails:
        fake.fail_next("deploy", "disk broken", node)
    fake.set_node(node, protected=False)
    stage.driver._site.client.set_provision_state(node, "rebuild", applied=lambda _: True)
    assert fake.node(node)["provision_state"] == "deploying"
    rebuild(stage, instance)
    assert stage.provision_requests("rebuild") == 2
    there = fake.node(node)
    assert (there["provision_state"], there["last_error"]) == ("active", None)
    assert there["instance_info"]["image_source"] == OTHER_IMAGE.id
    assert there["protected"]
