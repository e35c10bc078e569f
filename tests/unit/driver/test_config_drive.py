# SPDX-License-Identifier: Apache-2.0

"""Config drives: in which form they go to Ironic, what is in them, how large they may be."""

import json
from typing import Any

import pytest

from ironic_virt import exceptions, virt
from ironic_virt.driver.deploy import config_drive, iso_image
from ironic_virt.testing.fake_ironic import FakeIronic
from tests import iso_images
from tests.config_drives import sent_drive, sent_drives
from tests.unit.driver.stage import INSTANCE, SECRET, Stage

NODE = "a1b2c3d4-0000-4000-8000-000000000000"
MIB = 1024**2


def unpacked(form: object) -> dict[str, bytes]:
    """The files on an image."""
    return iso_images.contents(iso_images.unpacked(form))


# -- the form -----------------------------------------------------------------


WHOLE = {
    "meta_data": {"name": "web"},
    "network_data": {"links": []},
    "user_data": "#!/bin/sh",
    "vendor_data": {"v": 1},
}
EMPTY = {"network_data": {}, "user_data": "", "vendor_data": {}}


@pytest.mark.parametrize(
    ("drive", "form"),
    [
        (WHOLE, WHOLE),
        (EMPTY, {"meta_data": {}}),
        ({"user_data": "grüße".encode()}, {"meta_data": {}, "user_data": "grüße"}),
        ({"meta_data": {"a": 1}, "make_image": lambda _: b"ours"}, {"meta_data": {"a": 1}}),
    ],
    ids=["whole", "empty", "bytes of text", "an image that is not needed"],
)
def test_json_has_what_there_is_and_nothing_empty(drive, form) -> None:
    assert config_drive.in_form(virt.ConfigDrive(**drive), INSTANCE)[0] == form


def test_a_service_makes_the_image_in_its_own_way() -> None:
    drive = virt.ConfigDrive(no_json="it has files", make_image=lambda given: b"ours")
    form, size = config_drive.in_form(drive, INSTANCE)
    assert (iso_images.unpacked(form), size) == (b"ours", 4)


@pytest.mark.parametrize(
    ("drive", "no_json"),
    [
        ({"user_data": b"\x1f\x8b\x08 gzipped"}, None),
        ({"vendor_data": {"v": 1}}, "it is not wanted"),
    ],
    ids=["binary user data", "not wanted"],
)
def test_what_json_cannot_carry_is_sent_as_an_image(drive, no_json) -> None:
    whole = virt.ConfigDrive(meta_data={"name": "web"}, **drive)
    form, size = config_drive.in_form(whole, INSTANCE, no_json=no_json)
    assert size == len(iso_images.unpacked(form))
    files = unpacked(form)
    for version in ("2012-08-10", "latest"):
        there = json.loads(files[f"openstack/{version}/meta_data.json"])
        assert (there["name"], there["uuid"]) == ("web", INSTANCE)
        if "user_data" in drive:
            assert files[f"openstack/{version}/user_data"] == drive["user_data"]
        if "vendor_data" in drive:
            told = files[f"openstack/{version}/vendor_data2.json"]
            assert json.loads(told) == drive["vendor_data"]


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("/etc/passwd", "leads out of the image"),
        ("../out", "leads out of the image"),
        ("x" * 300, "no place in an ISO 9660 image"),
    ],
)
def test_no_file_leaves_the_image_nor_the_error_has_its_contents(path: str, says: str) -> None:
    with pytest.raises(iso_image.NotMade, match=says) as caught:
        iso_image.make_image({path: b"secret"})
    assert "secret" not in str(caught.value)


def test_names_that_are_alike_in_capitals_stay_apart() -> None:
    files = {"ec2/meta-data.json": b"1", "ec2/meta_data.json": b"2", "EC2/Meta-data.json": b"3"}
    files |= {f"{'long' * 10}-{number}": b"%d" % number for number in range(3)}
    image = iso_image.make_image(files)
    assert iso_images.contents(image) == files
    assert iso_images.contents(image, "joliet_path") == files


# -- size ---------------------------------------------------------------------


def too_large(form: config_drive.Form, image: int) -> exceptions.ConfigDriveTooLarge:
    with pytest.raises(exceptions.ConfigDriveTooLarge) as caught:
        config_drive.check_size(form, image, NODE, INSTANCE)
    return caught.value


def test_an_image_counts_unpacked() -> None:
    config_drive.check_size("A", 64 * MIB, NODE, INSTANCE)
    error = too_large("A", 64 * MIB + 1)
    assert error.limit == 64 * MIB < error.size
    for said in (NODE, INSTANCE, "64.1 MiB", "64.0 MiB"):
        assert said in str(error)


def test_the_request_counts_too_and_json_twice() -> None:
    assert "as a request to Ironic" in str(too_large("A" * 65 * MIB, 1))
    # Each of these characters takes six in JSON.
    form = {"meta_data": {}, "user_data": "\x01" * (11 * MIB)}
    assert "as a request to Ironic" in str(too_large(form, 1))
    drive = virt.ConfigDrive(user_data="x" * 31 * MIB)
    config_drive.check_size(*config_drive.in_form(drive, INSTANCE), NODE, INSTANCE)
    drive = virt.ConfigDrive(user_data="x" * 32 * MIB)
    assert "as an image" in str(too_large(*config_drive.in_form(drive, INSTANCE)))


@pytest.mark.parametrize("size", [0, 5_000, 3 * MIB])
def test_the_image_is_no_larger_than_reckoned_nor_much_smaller(size: int) -> None:
    drive = virt.ConfigDrive(
        meta_data={"name": "web"}, user_data="x" * size, network_data={"links": []}
    )
    made = iso_image.make_image(config_drive.list_files(drive, INSTANCE))
    reckoned = config_drive.image_size(drive)
    # Ironic pads its own with 300 KiB.
    assert len(made) <= reckoned <= len(made) + 384 * 1024


# -- the whole driver ---------------------------------------------------------


def test_a_node_that_anaconda_installs_gets_an_image(stage, fake, node) -> None:
    fake.set_node(node, deploy_interface="anaconda")
    instance = stage.instance(node)
    parts = dict.fromkeys(("kernel_id", "ramdisk_id", "stage2_id"), "https://a/part")
    image = virt.ImageMeta("https://a/live.tar", properties=parts)
    stage.spawn(instance, image)
    assert "openstack/latest/meta_data.json" in unpacked(sent_drive(fake))
    fake.requests.clear()
    stage.rebuild(instance, image)
    assert "openstack/latest/meta_data.json" in unpacked(sent_drive(fake))


def test_without_an_image_nothing_is_sent_and_the_error_says_why(stage, fake, node, monkeypatch):
    stage.service.drive = virt.ConfigDrive(no_json="it is not wanted")
    monkeypatch.setattr(config_drive, "list_files", lambda *args: {"../out": b""})
    stage.fail_to_spawn(node, exceptions.ConfigDriveFailed, r"can't be made: .* leads out")


# More than Ironic takes.
GROWN = virt.ConfigDrive(user_data=SECRET * (2 * MIB))


def test_one_that_is_too_large_is_never_sent(stage, fake, node, caplog) -> None:
    caplog.set_level("DEBUG")
    stage.service.drive = GROWN
    failure = stage.fail_to_spawn(node, exceptions.ConfigDriveTooLarge)
    assert not failure.retriable
    assert not any("instance_info/image_source" in str(entry.body) for entry in fake.requests)
    assert fake.requests.matching("PUT", "/states/provision$") == []
    assert SECRET not in caplog.text + str(failure)


def test_a_rebuild_with_one_leaves_the_instance_as_it_is(stage, fake, node, instance) -> None:
    before = stage.trace(node)
    stage.service.drive = GROWN
    with pytest.raises(exceptions.RebuildFailed, match="too large") as caught:
        stage.rebuild(instance)
    assert caught.value.disk is exceptions.Disk.UNTOUCHED
    assert {entry.method for entry in fake.requests} == {"GET"}
    assert stage.trace(node) == before


def test_a_server_that_takes_less_is_quoted(stage: Stage, fake: FakeIronic, node: str) -> None:
    stage.service.drive = virt.ConfigDrive(user_data="x" * MIB)
    fake.faults.status(413, "PUT", "/states/provision$", "Request body is too large.")
    says = r"too large\. \(its limit is \[api\] max_json"
    assert not stage.fail_to_spawn(node, exceptions.ConfigDriveFailed, says).retriable


# -- depth --------------------------------------------------------------------


def nested(levels: int) -> dict[str, Any]:
    """JSON of objects within objects."""
    return {"v": nested(levels - 1)} if levels > 1 else {"v": 1}


def with_drive(method: str, path: str, body: Any) -> bool:
    return any(change["path"] == "/instance_info/configdrive" for change in body)


@pytest.mark.parametrize("act", ["spawn", "rebuild"])
@pytest.mark.parametrize(("levels", "form"), [(22, dict), (23, str), (40, str)])
def test_what_is_nested_deeply_is_sent_as_an_image(stage, fake, node, act, levels, form) -> None:
    if act == "rebuild":
        stage.active(node)
    stage.service.drive = virt.ConfigDrive(vendor_data=nested(levels))
    getattr(stage, act)(stage.instance(node))
    drive = sent_drive(fake)
    assert type(drive) is form
    assert 400 not in {entry.status for entry in fake.requests}
    if form is str:
        told = unpacked(drive)["openstack/latest/vendor_data2.json"]
        assert json.loads(told) == nested(levels)


TOO_DEEP = "Request body JSON is nested too deeply. Please contact the service administrator."


@pytest.mark.parametrize("act", ["spawn", "rebuild"])
def test_an_ironic_that_takes_less_depth_gets_the_image_once(stage, fake, node, act, caplog):
    if act == "rebuild":
        stage.active(node)
    fake.faults.status(400, "PATCH", body=TOO_DEEP, when=with_drive)
    getattr(stage, act)(stage.instance(node))
    json_form, image = sent_drives(fake)
    assert json_form["meta_data"]["admin_pass"] == SECRET
    told = json.loads(unpacked(image)["openstack/latest/meta_data.json"])
    assert told == {"uuid": INSTANCE, "admin_pass": SECRET}
    assert SECRET not in caplog.text


def test_an_ironic_that_takes_neither_form_fails_the_build(stage, fake, node) -> None:
    fake.faults.status(400, "PATCH", body=TOO_DEEP, when=with_drive, count=None)
    failure = stage.fail_to_spawn(node, exceptions.ConfigDriveFailed, "nested too deeply")
    assert not failure.retriable
    assert len(sent_drives(fake)) == 2
