# SPDX-License-Identifier: Apache-2.0

"""Virtual interfaces on a node: attach what is missing, detach what is there.

Ironic keeps which VIF has which port.  A VIF that is attached already is no
error here, as long as it is attached to this node.
"""

from __future__ import annotations

from oslo_log import log as logging

from ironic_virt import exceptions
from ironic_virt.baremetal.client import IronicClient
from ironic_virt.baremetal.node import Node
from ironic_virt.driver.access import NodeAccess
from ironic_virt.driver.links import Link, links
from ironic_virt.virt import InstanceLike, NetworkInfo

LOG = logging.getLogger(__name__)


class Network:
    """Attaches and detaches VIFs.  Thread-safe: it keeps nothing."""

    def __init__(self, client: IronicClient, access: NodeAccess) -> None:
        self._client = client
        self._access = access

    def attach(self, node: Node, instance: InstanceLike, network_info: NetworkInfo) -> None:
        """Attach every VIF that the node doesn't have yet.

        :param node: past the guard, read just now.
        :raises VifAttachFailed: naming the VIF and Ironic's reason.
        """
        for number, vif in enumerate(network_info):
            if number:
                self._access.held(instance, node.uuid)
            try:
                self._client.attach_vif(node.uuid, vif.id)
            except (exceptions.Conflict, exceptions.BadRequest) as exc:
                # A former attempt may have attached it: most have none, so it is asked now.
                if vif.id in self._client.list_vifs(node.uuid):
                    continue
                raise exceptions.VifAttachFailed(
                    node.uuid, instance.uuid, vif.id, exc.message
                ) from exc

    def links(self, node: str) -> dict[str, Link]:
        """The physical link of each VIF on a node, by VIF."""
        ports = self._client.list_ports(node)
        bonded = any(port.portgroup_uuid for port in ports)
        return links(ports, self._client.list_portgroups(node) if bonded else ())

    def detach_all(self, node: Node, instance: InstanceLike) -> None:
        """Detach every VIF from a node that carries the instance.

        While a node carries an instance, what is attached is the instance's;
        all of it goes, also what a crashed attempt has left.
        """
        for vif in self._client.list_vifs(node.uuid):
            self._access.held(instance, node.uuid)
            try:
                self._client.detach_vif(node.uuid, vif)
            except (exceptions.BadRequest, exceptions.NotFound) as exc:
                LOG.debug("VIF %s is off node %s already: %s", vif, node.uuid, exc)
