# SPDX-License-Identifier: Apache-2.0

"""An instance's volumes: what a storage must know of the node, and the node of them.

A volume is attached as one of Ironic's volume targets, set before Ironic deploys the node.
Ironic connects and disconnects them with the power, so they stay as long as the instance does.
When a node is torn down, Ironic's own deploy interfaces delete them, and the driver deletes
those that are left.

Each target bears the uuid of its instance (:data:`MARK`), so the driver recognizes its targets
after any crash.  Level-triggered: a target that is right already is kept, except one with
credentials, which Ironic shows to nobody.

Ironic deletes a target only of a node that is powered off.
"""

from __future__ import annotations

import ipaddress
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from oslo_log import log as logging

from ironic_virt import exceptions
from ironic_virt.baremetal import states
from ironic_virt.baremetal.node import Node
from ironic_virt.baremetal.ports import Port, Portgroup
from ironic_virt.baremetal.volumes import VolumeTarget
from ironic_virt.driver.held import Held
from ironic_virt.driver.power import change_power
from ironic_virt.driver.site import Site
from ironic_virt.virt import BlockDevice, InstanceLike

LOG = logging.getLogger(__name__)

MARK = "ironic_virt_instance"
"""The key in a target's ``extra`` that says whose it is."""

FORMER_MARK = "instance_uuid"
"""What former versions wrote; others may write it, too."""

BlockDevices = Sequence[BlockDevice]


def can_have_volumes(node: Node) -> bool:
    """Whether a node's storage interface looks at volume targets at all."""
    return node.storage_interface not in (None, "noop")


class Volumes:
    """Gives nodes their volumes and takes them off.  Thread-safe: it keeps nothing."""

    def __init__(self, site: Site) -> None:
        self._site = site

    # -- what a storage must know ---------------------------------------------

    def connector(self, instance: InstanceLike, name: str) -> dict[str, Any]:
        """What a volume service must know to let a node have a volume.

        The address is that of a volume connector of type ``ip``, else of the VIF on a
        port or port group whose MAC address is a connector of type ``mac``, else of any
        VIF, of version 4 rather than of 6.

        :param name: the node's uuid.
        :returns: in Cinder's form: ``host``, ``platform``, ``os_type``, ``multipath``,
            and as far as they are known ``ip``, ``initiator``, ``wwpns``, ``wwnns``.
        :raises NodeNotAvailable: Ironic has no such node.
        """
        node = self._site.nodes.read(name, instance.uuid)
        ids: dict[str, list[str]] = {}
        for connector in self._site.client.volumes.connectors(node.uuid):
            ids.setdefault(connector.type, []).append(connector.connector_id)
        # Only if need be: where the service has to ask for them, they cost a request.
        address = (
            ids["ip"][0] if "ip" in ids else self._address(instance, node.uuid, ids.get("mac"))
        )
        properties: dict[str, Any] = {
            "host": address  # Not all of Nova's instances can make their name.
            or (instance.hostname if hasattr(instance, "hostname") else instance.name),
            "platform": node.properties.cpu_arch,
            "os_type": "baremetal",
            # Nothing in Ironic's targets says that two of them are one volume.
            "multipath": False,
        }
        if address:
            properties["ip"] = address
        if "iqn" in ids:
            properties["initiator"] = ids["iqn"][0]
        properties |= {f"{kind}s": ids[kind] for kind in ("wwpn", "wwnn") if kind in ids}
        LOG.debug("Volume connector of node %s: %s", node.uuid, properties)
        return properties

    def _address(self, instance: InstanceLike, node: str, macs: list[str] | None) -> str | None:
        known = self._site.service.fixed_addresses(instance)
        vif = self._vif_with(node, macs) if macs and known else None
        addresses = known.get(vif, ()) if vif else itertools.chain(*known.values())
        by_version = sorted(addresses, key=lambda address: ipaddress.ip_address(address).version)
        return by_version[0] if by_version else None

    def _vif_with(self, node: str, macs: list[str]) -> str | None:
        places: list[Port | Portgroup] = [
            *self._site.client.ports.groups(node),
            *self._site.client.ports.listed(node),
        ]
        vifs = {place.address.lower(): place.vif for place in reversed(places) if place.address}
        return next((vif for mac in macs if (vif := vifs.get(mac.lower()))), None)

    # -- a deployment ---------------------------------------------------------

    def check(self, held: Held, devices: BlockDevices) -> None:
        """See that a node can have an instance's volumes, before anything is done to it.

        Whether Ironic can connect the node is known only when it has the targets.

        :raises VolumeFailed: it can't.
        """
        for device in devices:
            if not device.connection_info.get("driver_volume_type"):
                reason = "the volume service has not said how to connect to it"
            elif not can_have_volumes(held.node):
                reason = (
                    f"the node's storage interface is {held.node.storage_interface!r}, which "
                    "connects nothing. Set storage_interface of nodes that shall have volumes in "
                    "Ironic, and give them a trait that the flavor requires"
                )
            else:
                continue
            raise held.error(exceptions.VolumeFailed, device.volume_id, reason)

    def attach(self, held: Held, devices: BlockDevices) -> BlockDevice | None:
        """Make an instance's volumes the node's, and all that it has, but for a new one to boot.

        Targets of an earlier instance are deleted; so are targets that others have set, but
        only if this instance has volumes.

        :param held: read just now; nothing is deployed on it.
        :returns: that one, with which Ironic takes a request to deploy: :meth:`create` it last.
        :raises VolumeFailed: naming the volume and Ironic's reason.
        """
        if not can_have_volumes(held.node):
            return None
        targets = self._site.client.volumes.targets(held.uuid)
        superfluous, missing = plan_targets(held.instance.uuid, targets, devices)
        self._delete(held, superfluous)
        for device in (data := [device for device in missing if device.boot_index]):
            if superfluous or device is not data[0]:
                held.refresh()
            self.create(held, device)
        return next((device for device in missing if not device.boot_index), None)

    def create(self, held: Held, device: BlockDevice) -> None:
        """Make a volume the node's, which was read just now."""
        refused = "Ironic refused the volume target"
        with held.refused_as(exceptions.VolumeFailed, refused, device.volume_id):
            held.client.volumes.create_target(
                held.uuid,
                volume_type=device.connection_info["driver_volume_type"],
                volume_id=device.volume_id,
                boot_index=device.boot_index,
                properties=device.connection_info.get("data") or {},
                extra={MARK: held.instance.uuid},
            )
        LOG.info(
            "Instance %s, node %s: volume %s is to be connected, boot index %d",
            *(held.instance.uuid, held.uuid, device.volume_id, device.boot_index),
        )

    # -- the end --------------------------------------------------------------

    def detach_all(self, held: Held) -> None:
        """Take an instance's volumes off its node, on which nothing is deployed.

        :raises TearDownFailed: one is left, so the node must not be given to others.
        """
        try:
            self._delete(held, self._targets_of(held.node, held.instance))
        except exceptions.NodeError as exc:
            raise held.error(
                exceptions.TearDownFailed,
                f"the node still has a volume of the server: {exc.reason}. Power the node off in "
                "Ironic, or if its disable_power_off is set: openstack baremetal node manage "
                f"{held.uuid}; then delete the server again",
            ) from exc

    def detach_left(self, instance: InstanceLike, node: Node | None = None) -> None:
        """Take what is left of an instance's volumes off a node from which it is gone.

        Ironic has deleted them, if its deploy interface does.  What can't be deleted now
        is deleted when the node is free (:mod:`ironic_virt.driver.left_volumes`).  Failures are
        only logged: the node is torn down.

        :param node: read just now; ``None``: the one that the instance's record names.
        """
        if not (uuid := node.uuid if node else instance.node):
            return

        def check_free() -> None:
            self._site.nodes.check_free(self._site.nodes.read(uuid), instance.uuid)

        try:
            node = node or self._site.nodes.read(uuid)
            self._site.nodes.check_free(node, instance.uuid)
            volumes = self._site.client.rechecking(check_free).volumes
            for target in self._targets_of(node, instance):
                volumes.delete_target(target.uuid, uuid)
        except exceptions.NodeError as exc:
            # The node is gone or another's, or the record has named a pool.
            LOG.debug("Volumes of instance %s are left alone: %s", instance.uuid, exc)
        except exceptions.IronicError as exc:
            LOG.warning(
                "[volume-target-left] Node %s may still have volume targets of instance %s: %s. "
                "The driver deletes them when the node is free",
                *(uuid, instance.uuid, exc),
            )

    def _targets_of(self, node: Node, instance: InstanceLike) -> list[VolumeTarget]:
        if not can_have_volumes(node):
            return []
        targets = self._site.client.volumes.targets(node.uuid)
        return [target for target in targets if owner_of(target, instance.uuid) == instance.uuid]

    def _delete(self, held: Held, targets: Sequence[VolumeTarget]) -> None:
        """Delete targets of the node."""
        instance = held.instance
        # Ironic deletes one of a node that is on, too, in "manageable" (39.0.0).
        may_be_off = held.node.power_state == states.POWER_OFF or held.node.disable_power_off
        if targets and not may_be_off:
            change_power(self._site, instance, states.POWER_OFF)
        for target in targets:
            held.refresh()
            if (whose := owner_of(target, instance.uuid)) != instance.uuid:
                LOG.warning(
                    "[volume-target-foreign] Node %s has a volume target that is not of instance "
                    "%s but of %s: volume %s, boot index %s. Deleting it",
                    *(held.uuid, instance.uuid, whose or "somebody else"),
                    *(target.volume_id, target.boot_index),
                )
            refused = f"Ironic did not delete volume target {target.uuid}"
            with held.refused_as(exceptions.VolumeFailed, refused, target.volume_id or ""):
                held.client.volumes.delete_target(target.uuid, held.uuid)


def plan_targets(
    instance: str, targets: Sequence[VolumeTarget], devices: BlockDevices
) -> tuple[list[VolumeTarget], list[BlockDevice]]:
    """What must go from a node, and what must be added, for an instance to have its volumes.

    :param targets: the node's targets.
    :returns: targets and volumes.
    """
    by_index: dict[int | None, BlockDevice] = {device.boot_index: device for device in devices}
    kept = {
        target.boot_index
        for target in targets
        if owner_of(target, instance) == instance
        and (device := by_index.get(target.boot_index))
        and _is_for(target, device)
    }
    others = [target for target in targets if target.boot_index not in kept]
    superfluous = [target for target in others if devices or owner_of(target, instance)]
    return superfluous, [device for device in devices if device.boot_index not in kept]


def owner_of(target: VolumeTarget, instance: str | None = None) -> str | None:
    """The uuid of the instance that a target is of, as far as it bears our mark.

    :param instance: the one that the node has, or had just now; only of that one the mark of
        former versions counts.
    """
    extra = target.extra or {}
    mark = extra.get(FORMER_MARK)
    return extra.get(MARK) or (mark if mark == instance else None)


def _is_for(target: VolumeTarget, device: BlockDevice) -> bool:
    data: Mapping[str, Any] = device.connection_info.get("data") or {}
    return (
        target.volume_id == device.volume_id
        and target.volume_type == device.connection_info.get("driver_volume_type")
        and (target.properties or {}) == data
    )
