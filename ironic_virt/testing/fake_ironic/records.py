# SPDX-License-Identifier: Apache-2.0

"""The rows of the fake Ironic's store.

Field names are Ironic's.  Times are kept as Ironic shows them (ISO 8601, whole
seconds), because they are read far more often than they are set.  JSON values
(``properties``, ``extra``, ...) are replaced, never changed in place: rows
share one empty dict, and answers may still be being written from the old one.
"""

import dataclasses
from typing import Any

Json = dict[str, Any]

EMPTY: Json = {}


@dataclasses.dataclass(slots=True, eq=False)
class Row:
    """What every resource has."""

    id: int
    uuid: str
    created_at: str


@dataclasses.dataclass(slots=True, eq=False)
class PartOfNode(Row):
    """What every resource of a node has."""

    node: "Node"

    @property
    def node_uuid(self) -> str:
        return self.node.uuid


@dataclasses.dataclass(slots=True, eq=False)
class Node(Row):
    driver: str = "fake-hardware"
    updated_at: str | None = None
    allocation_id: int | None = None
    automated_clean: bool | None = None
    bios_interface: str | None = None
    boot_interface: str | None = None
    boot_mode: str | None = None
    chassis_uuid: str | None = None
    clean_step: Json = dataclasses.field(default_factory=lambda: EMPTY)
    conductor_group: str = ""
    console_enabled: bool = False
    console_interface: str | None = None
    deploy_interface: str | None = None
    deploy_step: Json = dataclasses.field(default_factory=lambda: EMPTY)
    description: str | None = None
    disable_power_off: bool = False
    driver_info: Json = dataclasses.field(default_factory=lambda: EMPTY)
    driver_internal_info: Json = dataclasses.field(default_factory=lambda: EMPTY)
    extra: Json = dataclasses.field(default_factory=lambda: EMPTY)
    fault: str | None = None
    firmware_interface: str | None = None
    health: str | None = None
    inspect_interface: str | None = None
    inspection_finished_at: str | None = None
    inspection_started_at: str | None = None
    instance_info: Json = dataclasses.field(default_factory=lambda: EMPTY)
    instance_name: str | None = None
    instance_uuid: str | None = None
    last_error: str | None = None
    lessee: str | None = None
    maintenance: bool = False
    maintenance_reason: str | None = None
    management_interface: str | None = None
    name: str | None = None
    network_data: Json = dataclasses.field(default_factory=lambda: EMPTY)
    network_interface: str | None = None
    owner: str | None = None
    parent_node: str | None = None
    power_interface: str | None = None
    power_state: str | None = None
    properties: Json = dataclasses.field(default_factory=lambda: EMPTY)
    protected: bool = False
    protected_reason: str | None = None
    provision_state: str = "enroll"
    provision_updated_at: str | None = None
    raid_config: Json = dataclasses.field(default_factory=lambda: EMPTY)
    raid_interface: str | None = None
    rescue_interface: str | None = None
    reservation: str | None = None
    resource_class: str | None = None
    retired: bool | None = False
    retired_reason: str | None = None
    secure_boot: bool | None = None
    service_step: Json = dataclasses.field(default_factory=lambda: EMPTY)
    shard: str | None = None
    storage_interface: str | None = None
    target_power_state: str | None = None
    target_provision_state: str | None = None
    target_raid_config: Json = dataclasses.field(default_factory=lambda: EMPTY)
    traits: tuple[str, ...] = ()
    vendor_interface: str | None = None
    # What Ironic has no field for:
    boot_device: str = "pxe"
    boot_device_persistent: bool = False
    #: Identifies the transition under way; a timer of another one is void.
    operation: object | None = None


@dataclasses.dataclass(slots=True, eq=False)
class Chassis(Row):
    description: str | None = None
    extra: Json = dataclasses.field(default_factory=lambda: EMPTY)
    updated_at: str | None = None


@dataclasses.dataclass(slots=True, eq=False)
class Port(PartOfNode):
    address: str | None = None
    updated_at: str | None = None
    extra: Json = dataclasses.field(default_factory=lambda: EMPTY)
    internal_info: Json = dataclasses.field(default_factory=lambda: EMPTY)
    is_smartnic: bool = False
    local_link_connection: Json = dataclasses.field(default_factory=lambda: EMPTY)
    physical_network: str | None = None
    portgroup: "Portgroup | None" = None
    pxe_enabled: bool = True
    name: str | None = None
    description: str | None = None
    vendor: str | None = None
    category: str | None = None
    available_for_dynamic_portgroup: bool = True

    @property
    def portgroup_uuid(self) -> str | None:
        return self.portgroup.uuid if self.portgroup else None


@dataclasses.dataclass(slots=True, eq=False)
class Portgroup(PartOfNode):
    address: str | None = None
    updated_at: str | None = None
    extra: Json = dataclasses.field(default_factory=lambda: EMPTY)
    internal_info: Json = dataclasses.field(default_factory=lambda: EMPTY)
    mode: str | None = "active-backup"
    name: str | None = None
    physical_network: str | None = None
    category: str | None = None
    dynamic_portgroup: bool = False
    properties: Json = dataclasses.field(default_factory=lambda: EMPTY)
    standalone_ports_supported: bool = True


@dataclasses.dataclass(slots=True, eq=False)
class VolumeConnector(PartOfNode):
    type: str
    connector_id: str
    updated_at: str | None = None
    extra: Json = dataclasses.field(default_factory=lambda: EMPTY)


@dataclasses.dataclass(slots=True, eq=False)
class VolumeTarget(PartOfNode):
    volume_type: str
    volume_id: str
    boot_index: int
    updated_at: str | None = None
    extra: Json = dataclasses.field(default_factory=lambda: EMPTY)
    properties: Json = dataclasses.field(default_factory=lambda: EMPTY)


@dataclasses.dataclass(slots=True, eq=False)
class Allocation(Row):
    state: str = "allocating"
    updated_at: str | None = None
    candidate_nodes: list[str] = dataclasses.field(default_factory=list)
    extra: Json = dataclasses.field(default_factory=lambda: EMPTY)
    last_error: str | None = None
    name: str | None = None
    node: Node | None = None
    owner: str | None = None
    resource_class: str | None = None
    traits: list[str] = dataclasses.field(default_factory=list)

    @property
    def node_uuid(self) -> str | None:
        return self.node.uuid if self.node else None


@dataclasses.dataclass(slots=True, eq=False)
class HistoryEvent:
    uuid: str
    created_at: str
    node: Node
    event: str
    event_type: str
    severity: str
    conductor: str
    state: str | None = None
    target_provision_state: str | None = None
    user: str | None = None
    project: str | None = None
    duration_seconds: int | None = None
