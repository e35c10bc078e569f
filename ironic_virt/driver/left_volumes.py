# SPDX-License-Identifier: Apache-2.0

"""Deletes the volume targets that an instance has left on a node that is free.

A target holds the credentials of its volume.  Ironic deletes one only of a node that is
powered off and not locked, so one that outlives its instance may have to stay until the
node is cleaned.  Now and then all targets are listed; one that bears our mark, on a free node
of the target set, is left if the records have no such instance, or have it on no node, or if
another node carries it.  A node that is on is powered off, as Ironic does when it tears one
down; its targets go with the next look.

Others' targets are never touched: those without our mark, and those of nodes elsewhere.
"""

from __future__ import annotations

from oslo_log import log as logging

from ironic_virt import exceptions
from ironic_virt.baremetal import states
from ironic_virt.baremetal.http.requests import hurry_requests
from ironic_virt.baremetal.inventory.snapshot import may_be_free
from ironic_virt.baremetal.node import Node
from ironic_virt.baremetal.volumes import VolumeTarget
from ironic_virt.driver.site import LONGEST_LOOK, Site
from ironic_virt.driver.volumes import owner_of

LOG = logging.getLogger(__name__)


class LeftVolumes:
    """Looks for volume targets that were left.

    Between two looks is ``[ironic] inventory_full_resync_period``, and as much before the
    first one.  Called by one thread at a time.
    """

    def __init__(self, site: Site) -> None:
        self._site = site
        self._period: float = site.conf.ironic.inventory_full_resync_period
        self._looked_at = site.clock()
        self._failed: set[str] = set()

    def look(self) -> None:
        """Look if it is time; a failure is put off to the next time."""
        if self._site.clock() - self._looked_at < self._period:
            return
        self._looked_at = self._site.clock()
        deadline = self._looked_at + LONGEST_LOOK
        try:
            with hurry_requests(deadline):
                self._look(deadline)
        except Exception as exc:
            LOG.warning(
                "[volume-target-left] Volume targets that instances have left can't be looked "
                "for: %s",
                exc,
            )

    def _look(self, deadline: float) -> None:
        snapshot = self._site.nodes.snapshot()
        targets = self._site.client.volumes.targets()
        self._failed &= {target.uuid for target in targets}
        leftovers = [
            (target, whose, node.uuid)
            for target in sorted(targets, key=lambda target: target.uuid in self._failed)
            if (node := snapshot.get(target.node_uuid or "")) and may_be_free(node)
            if (whose := owner_of(target))
        ]
        service, owners = self._site.service, {whose for _, whose, _ in leftovers}
        known = {*service.existing_instances(owners)} - {*service.placeless(owners)}
        for target, whose, uuid in leftovers:
            if self._site.clock() >= deadline:
                return
            if whose not in known or snapshot.by_instance(whose):
                self._delete(target, whose, uuid)

    def _delete(self, target: VolumeTarget, instance: str, uuid: str) -> None:
        self._failed.discard(target.uuid)

        def read_free() -> Node:
            node = self._site.nodes.read(uuid)
            self._site.nodes.check_free(node, instance)
            if not may_be_free(node):
                raise exceptions.NodeNotAvailable(uuid, instance, "the node is in use")
            return node

        client = self._site.client.rechecking(read_free)
        try:
            node = read_free()
            if node.power_state != states.POWER_OFF and not node.disable_power_off:
                LOG.info(
                    "Node %s is free but on: powering it off to delete volume target %s, which "
                    "instance %s has left",
                    *(uuid, target.uuid, instance),
                )
                client.set_power_state(
                    uuid,
                    states.POWER_OFF,
                    applied=lambda node: (
                        states.POWER_OFF in (node.power_state, node.target_power_state)
                    ),
                )
            elif client.volumes.delete_target(target.uuid, uuid):
                LOG.info(
                    "Node %s: volume target %s, which instance %s left behind, is deleted",
                    *(uuid, target.uuid, instance),
                )
        except exceptions.NodeError as exc:
            LOG.debug("Volume target %s stays for now: %s", target.uuid, exc)
        except exceptions.IronicError as exc:
            self._failed.add(target.uuid)
            LOG.warning(
                "[volume-target-left] Node %s still has volume target %s of instance %s, which "
                "is gone: %s. The next try is in %.0f s",
                *(uuid, target.uuid, instance, exc, self._period),
            )
