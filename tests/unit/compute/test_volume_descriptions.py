# SPDX-License-Identifier: Apache-2.0

"""What is handed over of volumes: the forms that are taken, and what is said of wrong ones."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ironic_virt.compute.errors import InvalidRequest
from ironic_virt.compute.volumes import Description, block_devices

SECRET = "ch4p-s3cret"
ISCSI: dict[str, Any] = {
    "target_portal": "192.0.2.5:3260",
    "target_iqn": "iqn.2026-01.test:root",
    "target_lun": 1,
    "auth_method": "CHAP",
    "auth_username": "user",
    "auth_password": SECRET,
}
INFO = {"driver_volume_type": "iscsi", "data": ISCSI}


def described(told: Any, source: str = "--volume a.json") -> Description:
    return Description(source, told if isinstance(told, str) else json.dumps(told))


def only(told: Any) -> tuple[str, int, Any]:
    (device,) = block_devices(None, [described(told)])
    return device.volume_id, device.boot_index, device.connection_info


@pytest.mark.parametrize(
    "told",
    [
        {**INFO, "volume_id": "v1"},
        {**INFO, "volume_id": "v1", "boot_index": -1, "device_name": "/dev/sdb"},
        {**INFO, "serial": "v1", "multiattach": False},
        {"connection_info": INFO, "volume_id": "v1", "boot_index": None},
        {"connection_info": {**ISCSI, "driver_volume_type": "iscsi"}, "volume_id": "v1"},
        {
            "attachment": {
                "id": "a1",
                "volume_id": "v1",
                "status": "attaching",
                "connection_info": {
                    **ISCSI,
                    "driver_volume_type": "iscsi",
                    "attachment_id": "a1",
                },
            }
        },
    ],
    ids=["bare", "not booted from", "Nova's", "answer", "flat", "attachment"],
)
def test_a_form_that_cinder_answers_in_is_taken(told: Any) -> None:
    assert only(told) == ("v1", 1, INFO)


def test_the_id_may_stand_in_the_data_and_stays_there() -> None:
    told = {**INFO, "data": {**ISCSI, "volume_id": "v1"}}
    assert only(told) == ("v1", 1, told)


@pytest.mark.parametrize(
    "data",
    [
        {"target_wwn": "5001", "target_lun": 1},
        {"target_wwn": ["5001", "5002"]},
    ],
)
def test_fibre_channel(data: dict[str, Any]) -> None:
    told = {"driver_volume_type": "fibre_channel", "data": data}
    assert only({**told, "volume_id": "v1"}) == ("v1", 1, told)


def test_several_paths_to_a_volume() -> None:
    data = {
        "target_portals": ["192.0.2.5:3260", "192.0.2.6:3260"],
        "target_iqns": ["iqn.a", "iqn.b"],
        "target_luns": [1, 1],
    }
    told = {"driver_volume_type": "iscsi", "data": data}
    assert only({**told, "volume_id": "v1"}) == ("v1", 1, told)


def test_they_are_numbered_around_those_that_say_their_index() -> None:
    devices = block_devices(
        described({**INFO, "volume_id": "root"}),
        [
            described({**INFO, "volume_id": "a"}),
            described({**INFO, "volume_id": "b", "boot_index": 1}),
            described({**INFO, "volume_id": "c"}),
        ],
    )
    assert [(one.boot_index, one.volume_id) for one in devices] == [
        *((0, "root"), (1, "b"), (2, "a"), (3, "c")),
    ]


def without(name: str) -> Any:
    return {**INFO, "data": {k: v for k, v in ISCSI.items() if k != name}, "volume_id": "v1"}


def with_data(**more: Any) -> Any:
    return {**INFO, "data": {**ISCSI, **more}, "volume_id": "v1"}


@pytest.mark.parametrize(
    ("told", "complaint"),
    [
        ("", "this is no JSON (Input data was truncated)"),
        (f'{{"a": {SECRET}}}', "this is no JSON (JSON is malformed: invalid character (byte 6))"),
        ("[" * 100_000, "this is no JSON (maximum recursion depth exceeded"),
        (f'["{SECRET}"]', "this is no JSON object"),
        (f'"{SECRET}"', "this is no JSON object"),
        ({"attachment": SECRET}, "attachment is no JSON object"),
        ({"attachment": {}}, "attachment.driver_volume_type is missing"),
        ({"connection_info": None}, "connection_info is missing"),
        ({"connection_info": {"data": {}}}, "connection_info.driver_volume_type is missing"),
        ({}, "driver_volume_type is missing"),
        ({"driver_volume_type": [SECRET]}, "driver_volume_type is no text"),
        ({"driver_volume_type": SECRET}, "driver_volume_type is none that Ironic connects: iscsi"),
        ({"driver_volume_type": "iscsi"}, "data is missing"),
        ({"driver_volume_type": "iscsi", "data": [SECRET]}, "data is no JSON object"),
        (
            {"connection_info": {"driver_volume_type": "iscsi"}, "volume_id": "v1"},
            "connection_info.target_portal is missing",
        ),
        (without("target_portal"), "data.target_portal is missing"),
        (without("target_iqn"), "data.target_iqn is missing"),
        (without("target_lun"), "data.target_lun is missing"),
        (without("auth_username"), "data.auth_username is missing or no text, and there is an"),
        (without("auth_password"), "data.auth_password is missing or no text, and there is an"),
        (with_data(auth_password=[SECRET]), "data.auth_password is missing or no text"),
        (with_data(target_portal=""), "data.target_portal is no text"),
        (with_data(target_iqn=[1]), "data.target_iqn is no text, or a list of texts"),
        (with_data(target_lun="1"), "data.target_lun is no number from 0"),
        (with_data(target_lun=True), "data.target_lun is no number from 0"),
        (with_data(target_lun=None, target_luns=[]), "data.target_luns is no number from 0"),
        (
            {"driver_volume_type": "fibre_channel", "data": {}, "volume_id": "v1"},
            "data.target_wwn is missing",
        ),
        (INFO, "volume_id is missing"),
        ({**INFO, "volume_id": 7}, "volume_id is no text"),
        ({**INFO, "volume_id": " "}, "volume_id is no text"),
        ({**INFO, "volume_id": "a\nb"}, "volume_id is no text"),
        ({**INFO, "volume_id": "v" * 37}, "volume_id has more than 36 characters"),
        (with_data(volume_id="v2"), "data.volume_id is v2, and it is v1 elsewhere"),
        ({**INFO, "volume_id": "v1", "boot_index": "1"}, "boot_index is no number from 0 to"),
        ({**INFO, "volume_id": "v1", "boot_index": -2}, "boot_index is no number from 0 to"),
        ({**INFO, "volume_id": "v1", "boot_index": 2**31}, "boot_index is no number from 0 to"),
        ({**INFO, "volume_id": "v1", "boot_index": 0}, "boot_index is 0, which is to be booted"),
    ],
)
def test_what_is_wrong_is_told_by_its_field_and_without_its_value(
    told: Any, complaint: str
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        only(told)
    assert str(caught.value).startswith(f"--volume a.json: {complaint}")
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None


def test_what_is_booted_from_has_no_other_index() -> None:
    with pytest.raises(InvalidRequest, match=r"^--boot-volume b: boot_index is 3, and what is"):
        block_devices(described({**INFO, "volume_id": "v1", "boot_index": 3}, "--boot-volume b"))


def test_no_volume_comes_twice() -> None:
    boot = described({**INFO, "volume_id": "v1"}, "--boot-volume a")
    other = described({**INFO, "serial": "v1"}, "--volume b")
    with pytest.raises(
        InvalidRequest, match=r"^--volume b: volume_id v1 is that of --boot-volume a"
    ):
        block_devices(boot, [other])


def test_no_index_comes_twice() -> None:
    same = [
        described({**INFO, "volume_id": name, "boot_index": 2}, f"--volume {name}")
        for name in ("a", "b")
    ]
    with pytest.raises(InvalidRequest, match=r"^--volume b: boot_index 2 is that of --volume a"):
        block_devices(None, same)


def test_nothing_shows_what_is_secret() -> None:
    description = described({**INFO, "volume_id": "v1"})
    assert SECRET not in repr([description, block_devices(description)])
