# SPDX-License-Identifier: Apache-2.0

"""An instance's record, also of one whose record is gone."""

import dataclasses
from typing import Any

from ironic_virt.compute.db import Database, records
from ironic_virt.compute.errors import NoSuchInstance
from ironic_virt.compute.states import VmState


def instance_of(db: Database, uuid: str) -> records.Instance:
    """Return an instance's record, or what stands for one that is deleted."""
    try:
        return db.instances.get(uuid)
    except NoSuchInstance:
        empty: dict[str, Any] = dict.fromkeys(
            field.name for field in dataclasses.fields(records.Instance)
        )
        values = {"uuid": uuid, "vm_state": VmState.DELETED, "arguments": {}}
        return records.Instance(**(empty | values))
