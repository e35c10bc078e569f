# SPDX-License-Identifier: Apache-2.0

"""An instance's volumes: what a storage must know of the node, and the node of them.

A node has its volumes by Ironic's volume targets, set while nothing is deployed, before
Ironic is told to deploy.  Ironic connects and disconnects them with the power, so they
stay as long as the instance does; when a node is torn down, Ironic's own deploy
interfaces delete them, and what is left after that is deleted here.

Each target bears the uuid of its instance (:data:`MARK`), so what is ours is known
whatever has crashed in between.  Level-triggered: what is as wanted is kept.  One that
holds credentials never is, because Ironic shows them to nobody.

Ironic deletes a target only of a node that is powered off.
"""

from __future__ import annotations

import ipaddress
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from oslo_log import log as logging

from ironic_virt import exceptions
from ironic_virt.baremetal import states
from ironic_virt.baremetal.node import Node
from ironic_virt.baremetal.ports import Port, Portgroup
from ironic_virt.baremetal.volumes import VolumeTarget
from ironic_virt.driver.change import Change
from ironic_virt.driver.power import Power
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

    def __init__(self, site: Site, power: Power) -> None:
        self._site = site
        self._power = power

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
        node = self._site.access.fresh(name, instance.uuid)
        ids: dict[str, list[str]] = {}
        for connector in self._site.client.volumes.connectors(node.uuid):
            ids.setdefault(connector.type, []).append(connector.connector_id)
        # Only if need be: where the service has to ask for them, they cost a request.
        address = (
            ids["ip"][0] if "ip" in ids else self._address(instance, node.uuid, ids.get("mac"))
        )
        found: dict[str, Any] = {
            "host": address or _hostname(instance),
            "platform": node.properties.cpu_arch,
            "os_type": "baremetal",
            # Nothing in Ironic's targets says that two of them are one volume.
            "multipath": False,
        }
        if address:
            found["ip"] = address
        if "iqn" in ids:
            found["initiator"] = ids["iqn"][0]
        for kind in ("wwpn", "wwnn"):
            if kind in ids:
                found[f"{kind}s"] = ids[kind]
        LOG.debug("Volume connector of node %s: %s", node.uuid, found)
        return found

    def _address(self, instance: InstanceLike, node: str, macs: list[str] | None) -> str | None:
        known = self._site.service.fixed_addresses(instance)
        vif = self._vif_with(node, macs) if macs and known else None
        addresses = known.get(vif, ()) if vif else [one for some in known.values() for one in some]
        by_version = sorted(addresses, key=lambda one: ipaddress.ip_address(one).version)
        return by_version[0] if by_version else None

    def _vif_with(self, node: str, macs: list[str]) -> str | None:
        places: list[Port | Portgroup] = [
            *self._site.client.ports.groups(node),
            *self._site.client.ports.listed(node),
        ]
        vifs = {place.address.lower(): place.vif for place in reversed(places) if place.address}
        return next((vif for mac in macs if (vif := vifs.get(mac.lower()))), None)

    # -- a deployment ---------------------------------------------------------

    def check(self, node: Node, instance: InstanceLike, devices: BlockDevices) -> None:
        """See that a node can have an instance's volumes, before anything is done to it.

        Whether Ironic can connect the node is known only when it has the targets.

        :raises VolumeFailed: it can't.
        """
        for device in devices:
            if not device.connection_info.get("driver_volume_type"):
                raise exceptions.VolumeFailed(
                    node.uuid,
                    instance.uuid,
                    device.volume_id,
                    "the volume service has not said how to connect to it",
                )
            if not can_have_volumes(node):
                raise exceptions.VolumeFailed(
                    node.uuid,
                    instance.uuid,
                    device.volume_id,
                    f"the node's storage interface is {node.storage_interface!r}, which connects "
                    "nothing. Set storage_interface of nodes that shall have volumes in Ironic, "
                    "and give them a trait that the flavor requires",
                )

    def attach(self, node: Node, instance: InstanceLike, devices: BlockDevices) -> None:
        """Make an instance's volumes the node's, and all that it has.

        What an instance before it has left goes; so does what somebody else has set, but
        only if the instance has volumes of its own.

        :param node: past the guard, read just now; nothing is deployed on it.
        :raises VolumeFailed: naming the volume and Ironic's reason.
        """
        if not can_have_volumes(node):
            return
        there = self._site.client.volumes.targets(node.uuid)
        superfluous, missing = plan(instance.uuid, there, devices)
        self._delete(node, instance, superfluous)
        for number, device in enumerate(missing):
            if number or superfluous:
                self._site.access.held(instance, node.uuid)
            self._create(node, instance, device)

    def _create(self, node: Node, instance: InstanceLike, device: BlockDevice) -> None:
        change = Change(self._site, instance, node)
        refused = "Ironic refused the volume target"
        with change.refused_as(exceptions.VolumeFailed, refused, device.volume_id):
            self._site.client.volumes.create_target(
                node.uuid,
                volume_type=device.connection_info["driver_volume_type"],
                volume_id=device.volume_id,
                boot_index=device.boot_index,
                properties=device.connection_info.get("data") or {},
                extra={MARK: instance.uuid},
                again=change.again,
            )
        LOG.info(
            "Instance %s, node %s: volume %s is to be connected, boot index %d",
            instance.uuid,
            node.uuid,
            device.volume_id,
            device.boot_index,
        )

    # -- the end --------------------------------------------------------------

    def detach_all(self, node: Node, instance: InstanceLike) -> None:
        """Take an instance's volumes off a node that carries it and has nothing deployed.

        :raises TearDownFailed: one is left, so the node must not be given to others.
        """
        try:
            self._delete(node, instance, self._targets_of(node, instance))
        except exceptions.NodeError as exc:
            raise exceptions.TearDownFailed(
                node.uuid,
                instance.uuid,
                f"the node still has a volume of the server: {exc.reason}. Power the node off "
                "in Ironic, then delete the server again",
            ) from exc

    def detach_left(self, node: Node, instance: InstanceLike) -> None:
        """Take what is left of an instance's volumes off a node from which it is gone.

        Ironic has deleted them, if its deploy interface does.  What can't be deleted now
        is deleted when the node is free (:mod:`ironic_virt.driver.left_volumes`).  It is
        no error: the node is torn down.

        :param node: read just now.
        """
        try:
            self._site.access.guard_free(node, instance)
        except exceptions.NodeError as exc:
            LOG.debug("Volumes that instance %s may have left stay: %s", instance.uuid, exc)
            return

        def again() -> None:
            self._site.access.guard_free(self._site.access.fresh(node.uuid), instance)

        try:
            left = self._targets_of(node, instance)
        except exceptions.IronicError as exc:
            LOG.warning(
                "[volume-target-left] Node %s: can't ask Ironic for volume targets of instance "
                "%s: %s. They are looked for again from time to time",
                *(node.uuid, instance.uuid, exc),
            )
            return
        for target in left:
            try:
                self._site.client.volumes.delete_target(target.uuid, node.uuid, again=again)
            except (exceptions.IronicError, exceptions.NodeError) as exc:
                LOG.warning(
                    "[volume-target-left] Node %s still has volume target %s of instance %s: %s. "
                    "It is deleted when the node is free",
                    node.uuid,
                    target.uuid,
                    instance.uuid,
                    exc,
                )

    def detach_forgotten(self, instance: InstanceLike) -> None:
        """The same, of an instance that no node carries, by the node that its record names."""
        name = instance.node or ""
        try:
            uuid.UUID(name)
        except ValueError:
            # The name of a pool: it is not known which node it was.
            return
        try:
            self.detach_left(self._site.client.get_node(name), instance)
        except exceptions.NodeNotFound as exc:
            LOG.debug("Instance %s has left no volumes: %s", instance.uuid, exc)
        except exceptions.IronicError as exc:
            LOG.warning(
                "[volume-target-left] Can't ask Ironic whether instance %s has left volume "
                "targets on node %s: %s. They are looked for again from time to time",
                *(instance.uuid, name, exc),
            )

    def _targets_of(self, node: Node, instance: InstanceLike) -> list[VolumeTarget]:
        if not can_have_volumes(node):
            return []
        there = self._site.client.volumes.targets(node.uuid)
        return [target for target in there if owner(target, instance.uuid) == instance.uuid]

    def _delete(self, node: Node, instance: InstanceLike, targets: Sequence[VolumeTarget]) -> None:
        """Delete targets of a node that carries the instance."""
        if targets and node.power_state != states.POWER_OFF:
            self._power.off(instance)
        change = Change(self._site, instance, node)
        for target in targets:
            change.again()
            if (whose := owner(target, instance.uuid)) != instance.uuid:
                LOG.warning(
                    "[volume-target-foreign] Node %s has a volume target that is not of instance "
                    "%s but of %s: volume %s, boot index %s. Deleting it",
                    node.uuid,
                    instance.uuid,
                    whose or "somebody else",
                    target.volume_id,
                    target.boot_index,
                )
            refused = f"Ironic did not delete volume target {target.uuid}"
            with change.refused_as(exceptions.VolumeFailed, refused, target.volume_id or ""):
                self._site.client.volumes.delete_target(target.uuid, node.uuid, again=change.again)


def plan(
    instance: str, there: Sequence[VolumeTarget], devices: BlockDevices
) -> tuple[list[VolumeTarget], list[BlockDevice]]:
    """What must go from a node, and what must be added, for an instance to have its volumes.

    :param there: the node's targets.
    :returns: targets and volumes.
    """
    wanted = {device.boot_index: device for device in devices}
    kept: set[int] = set()
    superfluous: list[VolumeTarget] = []
    for target in there:
        whose, index = owner(target, instance), target.boot_index
        if whose is None and not devices:
            continue
        if whose == instance and index in wanted and _is_for(target, wanted[index]):
            kept.add(index)
        else:
            superfluous.append(target)
    return superfluous, [device for device in devices if device.boot_index not in kept]


def _hostname(instance: InstanceLike) -> str:
    # Nova's instances have one.
    return instance.hostname if hasattr(instance, "hostname") else instance.name


def owner(target: VolumeTarget, instance: str | None = None) -> str | None:
    """The uuid of the instance that a target is of, as far as it bears our mark.

    :param instance: the one that the node has, or had just now; only of that one the mark of
        former versions counts.
    """
    extra = target.extra or {}
    former = extra.get(FORMER_MARK)
    return extra.get(MARK) or (former if former == instance else None)


def _is_for(target: VolumeTarget, device: BlockDevice) -> bool:
    data: Mapping[str, Any] = device.connection_info.get("data") or {}
    return (
        target.volume_id == device.volume_id
        and target.volume_type == device.connection_info.get("driver_volume_type")
        and (target.properties or {}) == data
    )
