# SPDX-License-Identifier: Apache-2.0

"""Volumes as their storage says how to connect to them, checked before anything is written down.

What is taken is JSON in the forms that Cinder answers with: what ``os-initialize_connection``
or an attachment has, alone or in the whole answer.  What Ironic would stumble over in the
middle of a deployment is refused here at once, and the error names the field.

It holds credentials: no value but a volume's id and its index is ever shown.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ironic_virt import virt
from ironic_virt.compute.errors import InvalidRequest

KINDS = ("iscsi", "fibre_channel")
"""The kinds of volumes that Ironic connects a node to."""

_LARGEST_INDEX = 2**31 - 1
# Ironic's column.
_ID_LENGTH = 36
# What a target must say, in one of its forms: for one path to the volume, or for several.
_NEEDED = {
    "iscsi": (
        ("target_portal", "target_portals"),
        ("target_iqn", "target_iqns"),
        ("target_lun", "target_luns"),
    ),
    "fibre_channel": (("target_wwn", "target_wwns"),),
}
_NUMBERS = ("target_lun", "target_luns")
# As Cinder calls it, and as Nova keeps it.
_IDS = ("volume_id", "serial")
# What is not of the volume, where all is on one level.
_NOT_DATA = ("driver_volume_type", "attachment_id", "boot_index", "serial")


@dataclasses.dataclass(frozen=True, slots=True)
class Description:
    """What somebody hands over of a volume.

    :param source: where it is from, for errors: an option and a file's name.
    :param text: JSON.
    """

    source: str
    text: str = dataclasses.field(repr=False)


@dataclasses.dataclass(frozen=True, slots=True)
class _Volume:
    source: str
    volume_id: str
    index: int | None
    info: Mapping[str, Any] = dataclasses.field(repr=False)


def block_devices(
    boot: Description | None, others: Sequence[Description] = ()
) -> tuple[virt.BlockDevice, ...]:
    """The volumes of a new instance, in the order of their boot indexes.

    :param boot: of the one to boot from, whose boot index is 0.
    :param others: those that don't say their boot index are numbered from 1, as they come.
    :raises InvalidRequest: there can't be such ones; says where and which field.
    """
    root = [_read(boot)] if boot else []
    for volume in root:
        if volume.index not in (None, 0):
            raise InvalidRequest(
                f"{volume.source}: boot_index is {volume.index}, and what is booted from has 0"
            )
    rest = [_read(one) for one in others]
    for volume in rest:
        if volume.index == 0:
            raise InvalidRequest(
                f"{volume.source}: boot_index is 0, which is to be booted from; say --boot-volume"
            )
    _see_that_they_differ([*root, *rest])
    taken = {volume.index for volume in rest}
    numbers = (number for number in itertools.count(1) if number not in taken)
    devices = [virt.BlockDevice(volume.volume_id, 0, volume.info) for volume in root]
    for volume in rest:
        index = next(numbers) if volume.index is None else volume.index
        devices.append(virt.BlockDevice(volume.volume_id, index, volume.info))
    return tuple(sorted(devices, key=lambda device: device.boot_index))


def _see_that_they_differ(volumes: Sequence[_Volume]) -> None:
    for former, volume in itertools.combinations(volumes, 2):
        if volume.volume_id == former.volume_id:
            raise InvalidRequest(
                f"{volume.source}: volume_id {volume.volume_id} is that of {former.source} too"
            )
        if volume.index is not None and volume.index == former.index:
            raise InvalidRequest(
                f"{volume.source}: boot_index {volume.index} is that of {former.source} too"
            )


# -- one of them --------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class _Part:
    """An object in a description, and where in it that is."""

    source: str
    path: str
    fields: Mapping[str, Any] = dataclasses.field(repr=False)

    def part(self, name: str) -> _Part:
        """The object in a field."""
        found = self.fields.get(name)
        if not isinstance(found, dict):
            raise self.error(name, "is missing" if found is None else "is no JSON object")
        return _Part(self.source, f"{self.path}{name}.", found)

    def error(self, name: str, what: str) -> InvalidRequest:
        """What is wrong with a field."""
        return InvalidRequest(f"{self.source}: {self.path}{name} {what}")


def _read(description: Description) -> _Volume:
    try:
        told = msgspec.json.decode(description.text)
    except (msgspec.DecodeError, RecursionError) as error:
        # Nothing of the text is in these messages.
        raise InvalidRequest(f"{description.source}: this is no JSON ({error})") from None
    if not isinstance(told, dict):
        raise InvalidRequest(f"{description.source}: this is no JSON object")
    whole = _Part(description.source, "", told)
    if "attachment" in told:
        whole = whole.part("attachment")
    is_wrapped = "connection_info" in whole.fields
    info = whole.part("connection_info") if is_wrapped else whole
    kind = info.fields.get("driver_volume_type")
    if not isinstance(kind, str):
        raise info.error("driver_volume_type", "is missing" if kind is None else "is no text")
    if kind not in KINDS:
        raise info.error("driver_volume_type", f"is none that Ironic connects: {', '.join(KINDS)}")
    # An attachment of Cinder's has no data of its own: all is on one level.
    data = info if is_wrapped and "data" not in info.fields else info.part("data")
    _check_data(data, kind)
    kept = {key: value for key, value in data.fields.items() if key not in _NOT_DATA}
    return _Volume(
        description.source,
        _volume_id([(whole, "volume_id"), *((info, name) for name in _IDS), (data, "volume_id")]),
        _index([whole, info]),
        {"driver_volume_type": kind, "data": kept},
    )


def _check_data(data: _Part, kind: str) -> None:
    for one, several in _NEEDED[kind]:
        name = several if data.fields.get(one) is None else one
        value = data.fields.get(name)
        if value is None:
            raise data.error(one, "is missing")
        values = value if isinstance(value, list) else [value]
        if name in _NUMBERS:
            if not values or not all(_is_number(each) for each in values):
                raise data.error(name, "is no number from 0, or a list of them")
        elif not values or not all(isinstance(each, str) and each for each in values):
            raise data.error(name, "is no text, or a list of texts")
    if data.fields.get("auth_method") is not None:
        for name in ("auth_username", "auth_password"):
            if not isinstance(data.fields.get(name), str):
                raise data.error(name, "is missing or no text, and there is an auth_method")


def _volume_id(places: Sequence[tuple[_Part, str]]) -> str:
    """The volume's id, on which all places where it may stand have to agree."""
    found: str | None = None
    for part, name in places:
        value = part.fields.get(name)
        if value is None:
            continue
        if not isinstance(value, str) or not value.strip() or not value.isprintable():
            raise part.error(name, "is no text")
        if len(value) > _ID_LENGTH:
            raise part.error(name, f"has more than {_ID_LENGTH} characters")
        if found not in (None, value):
            raise part.error(name, f"is {value}, and it is {found} elsewhere")
        found = value
    if found is None:
        raise places[0][0].error("volume_id", "is missing")
    return found


def _index(parts: Sequence[_Part]) -> int | None:
    for part in parts:
        value = part.fields.get("boot_index")
        # Of Nova's forms, -1 is one that isn't booted from.
        if value is None or value == -1:
            continue
        if not _is_number(value):
            raise part.error("boot_index", f"is no number from 0 to {_LARGEST_INDEX}")
        return int(value)
    return None


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _LARGEST_INDEX
