# SPDX-License-Identifier: Apache-2.0

"""The volumes of servers: those that they have, and those that Ironic connects to their nodes."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from ironic_virt import virt
from ironic_virt.driver.volumes import MARK
from ironic_virt.testing.fake_ironic.records import Node, VolumeTarget

if TYPE_CHECKING:
    from tests.simulation.world import World


class Volumes:
    """The volumes of a run, and their laws.

    :ivar of: those of each server; one of index 0 is booted from.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._rng = random.Random(f"volume {world.seed}")
        self.are_used = self._rng.random() < 0.25
        self.of: dict[str, tuple[virt.BlockDevice, ...]] = {}

    def node_fields(self) -> dict[str, Any]:
        """What makes a node able to have volumes."""
        able = {"storage_interface": "cinder", "properties": {"capabilities": "iscsi_boot:true"}}
        return able if self.are_used else {}

    def connect(self, node: str) -> None:
        """Tell Ironic who a node is to the storage."""
        if self.are_used:
            body = {"node_uuid": node, "type": "iqn", "connector_id": f"iqn.of.{node}"}
            self._world.ironic.send("POST", "/volume/connectors", json=body, version="1.80")

    def give(self, uuid: str) -> str | None:
        """Draw a server's volumes; returns the one that it boots from."""
        indices = self._rng.choice([(), (), (0,), (0, 1), (1,)]) if self.are_used else ()
        self.of[uuid] = tuple(
            virt.BlockDevice(
                *(f"{index}-of-{uuid}", index),
                {"driver_volume_type": "iscsi", "data": {"target_lun": index}},
            )
            for index in indices
        )
        return self.boots(uuid)

    def boots(self, uuid: str) -> str | None:
        """The volume that a server boots from."""
        return next((one.volume_id for one in self.of[uuid] if one.boot_index == 0), None)

    def targets(self, node: str) -> list[VolumeTarget]:
        """What a node has in Ironic."""
        return [one for one in self._world.fake.bm.store.targets if one.node.uuid == node]

    def torn_down(self, node: str) -> None:
        """Let Ironic take off what a node boots from, with which it could be deployed again."""
        for one in [one for one in self.targets(node) if one.boot_index == 0]:
            self._world.fake.bm.store.targets.remove(one)

    def system_of(self, node: Node) -> str | None:
        """What a node boots when it is deployed."""
        volumes = (one.volume_id for one in self.targets(node.uuid) if one.boot_index == 0)
        return node.instance_info.get("image_source") or next(volumes, None)

    # -- laws -----------------------------------------------------------------

    def is_taken(self, host: str, uuid: str) -> None:
        """No volume is taken from a server that is to have it (7)."""
        target = self._world.fake.bm.store.targets.get(uuid)
        row = target and self._world.instances.rows.get(target.node.instance_uuid or "")
        is_told = row and row.task_state is None and row.vm_state != "error"
        if is_told and target.extra[MARK] == row.uuid:
            what = f"{host} takes {target.volume_id} from {target.node.uuid}"
            self._world.laws.found("7 foreign", what)

    def deployed(self, node: Node) -> None:
        """A node has the volumes of its server, and no others (16)."""
        wanted = {one.volume_id for one in self.of.get(node.instance_uuid or "", ())}
        connected = {one.volume_id for one in self.targets(node.uuid)}
        known = node.instance_uuid in self.of and node.uuid not in self._world.laws.late_targets
        if known and connected != wanted:
            what = f"{node.uuid} of {node.instance_uuid} has the volumes {sorted(connected)}"
            self._world.laws.found("16 volumes", what)
