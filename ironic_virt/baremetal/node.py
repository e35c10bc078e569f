# SPDX-License-Identifier: Apache-2.0

"""A node as typed data: slotted, frozen, and read from Ironic by :mod:`.node_decoder`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ironic_virt.baremetal.properties import NodeProperties

LIST_FIELDS = (
    "uuid",
    "name",
    "instance_uuid",
    "power_state",
    "target_power_state",
    "provision_state",
    "target_provision_state",
    "last_error",
    "maintenance",
    "properties",
    "resource_class",
    "traits",
)
"""The fields of every list that feeds the inventory."""


class Node(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A bare metal node.  Fields that were not asked for have their default.

    :ivar instance_info: the deployment's parameters; only in a node asked for
        by itself.
    :ivar disable_power_off: it can't be powered off, and Ironic never does it; only in a
        node asked for by itself.
    :ivar extra: what others have written down about it; only in a node asked for by
        itself.
    :ivar provision_state: ``""``: not known, which is never free.
    :ivar provision_updated_at: when the provision state last changed, as Ironic
        writes it; only in a node asked for by itself.
    :ivar malformed: names of fields that could not be read, or were missing.
    :ivar health: what Ironic says of the hardware, such as ``critical``; only in a list that
        asks for it (1.109).
    :ivar hidden: names of fields that Ironic shows to others only.
    :ivar failure_domain: ``""``: it has none; ``None``: ``[ironic] failure_domain`` is not set.
    """

    uuid: str
    name: str | None = None
    instance_uuid: str | None = None
    power_state: str | None = None
    target_power_state: str | None = None
    provision_state: str = ""
    target_provision_state: str | None = None
    last_error: str | None = None
    maintenance: bool = False
    maintenance_reason: str | None = None
    properties: NodeProperties = NodeProperties()
    resource_class: str | None = None
    traits: frozenset[str] = frozenset()
    conductor_group: str | None = None
    shard: str | None = None
    retired: bool = False
    protected: bool = False
    disable_power_off: bool = False
    protected_reason: str | None = None
    owner: str | None = None
    lessee: str | None = None
    reservation: str | None = None
    provision_updated_at: str | None = None
    instance_info: Mapping[str, Any] | None = None
    extra: Mapping[str, Any] | None = None
    instance_name: str | None = None
    health: str | None = None
    deploy_interface: str | None = None
    storage_interface: str | None = None
    console_enabled: bool = False
    malformed: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    failure_domain: str | None = None

    @property
    def is_whole(self) -> bool:
        """Whether it was asked for by itself, with all that the driver looks at."""
        return self.instance_info is not None

    @property
    def domain(self) -> str:
        """Its failure domain; ``""``: it has none."""
        return self.failure_domain or ""

    @property
    def owes_reason(self) -> bool:
        """Whether Ironic may yet say what has failed.

        When Ironic gives up waiting for a node, the node is in a failed state at once, and
        who holds it writes the reason a moment later, or much later where many are given
        up (39.0.0).
        """
        return not self.last_error and self.reservation is not None

    @property
    def has_lost_reason(self) -> bool:
        """Whether Ironic would tell us what has failed, and has nothing to tell."""
        return not self.last_error and "last_error" not in self.hidden

    @property
    def hides_lock(self) -> bool:
        """Whether Ironic hides from us if it is locked."""
        return "reservation" in self.hidden

    @property
    def why(self) -> str:
        """Ironic's reason for the last failure, in words."""
        if "last_error" in self.hidden:
            return "Ironic hides the reason from this service's user (last_error)"
        return self.last_error or "Ironic gives no reason"

    @property
    def states(self) -> str:
        """Its states in words, for errors and logs."""
        text = f"provision state {self.provision_state or 'not known'!r}"
        if self.target_provision_state:
            text += f" (going to {self.target_provision_state!r})"
        text += f", power state {self.power_state or 'not known'}"
        if self.target_power_state:
            text += f" (going to {self.target_power_state!r})"
        return text


def with_former(node: Node, former: Node | None) -> Node:
    """A node with what could not be read as it was last known.

    It still counts as malformed, and so never as free.
    """
    if former is None or not node.malformed:
        return node
    known = {name: getattr(former, name) for name in node.malformed}
    return msgspec.structs.replace(node, **known)
