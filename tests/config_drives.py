# SPDX-License-Identifier: Apache-2.0

"""The config drives that a fake Ironic was sent."""

from typing import Any

from ironic_virt.testing.fake_ironic import FakeIronic


def sent_drives(fake: FakeIronic) -> list[Any]:
    """Return the config drives in the order sent, from ``instance_info`` or the request."""
    drives = []
    for entry in fake.requests.mutating():
        if entry.method == "PATCH":
            drives += [
                operation["value"]
                for operation in entry.body
                if operation["path"] == "/instance_info/configdrive" and operation["op"] == "add"
            ]
        elif isinstance(entry.body, dict) and entry.body.get("configdrive"):
            drives.append(entry.body["configdrive"])
    return drives


def sent_drive(fake: FakeIronic) -> Any:
    (drive,) = sent_drives(fake)
    return drive
