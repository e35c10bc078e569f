# SPDX-License-Identifier: Apache-2.0

"""Virtual interfaces on a node: attach what is missing, detach what is there.

Ironic records which port has which VIF.  Attaching a VIF again is fine, as long as it is
attached to this node.

A request that found the node locked is sent again only after another look at the node:
by then it may be on its way to somebody else, who would get our network.

Ironic (39.0.0) notes a VIF before it asks Neutron, and keeps the note when Neutron
refuses.  So what could not be attached may be there all the same: it is looked for, and
taken off, or its next user would share it with this node.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from oslo_log import log as logging

from ironic_virt import exceptions
from ironic_virt.baremetal import states
from ironic_virt.baremetal.http import answers
from ironic_virt.baremetal.node import Node
from ironic_virt.driver.held import Held, is_refusal
from ironic_virt.driver.network_data import Link, links_of
from ironic_virt.driver.site import Site
from ironic_virt.virt import InstanceLike, NetworkInfo, VifLike

LOG = logging.getLogger(__name__)

# Ironic 39.0.0's NoFreePhysicalPorts; its other refusals of a VIF have the same status.
_NO_FREE_PORT = re.compile(r"not enough free physical ports", re.IGNORECASE)


class Network:
    """Attaches and detaches VIFs.

    Thread-safe: it keeps only on which node an instance has been prepared, which
    spares a question.
    """

    def __init__(self, site: Site) -> None:
        self._site = site
        self._prepared: dict[str, str] = {}

    # -- for a deployment -----------------------------------------------------

    def prepare(self, instance: InstanceLike, network_info: NetworkInfo) -> None:
        """Attach every VIF to the node that is reserved for an instance.

        :raises InstanceNotFound: no node is.
        :raises VifAttachFailed: naming the VIF and Ironic's reason.
        """
        if not network_info:
            return
        held = Held.of(self._site, instance)
        self.attach(held, network_info)
        self._prepared[instance.uuid] = held.uuid

    def attach(self, held: Held, network_info: NetworkInfo) -> bool:
        """Attach every VIF that the node doesn't have yet.

        :param held: read just now.
        :returns: whether there was one, so that time has passed.
        :raises VifAttachFailed: naming the VIF and Ironic's reason.
        """
        missing = [vif.id for vif in network_info]
        if missing and self._prepared.pop(held.instance.uuid, None) == held.uuid:
            # Ironic would note each one that is there already as an error of the node's.
            attached = self._site.client.ports.vifs(held.uuid)
            missing = [vif for vif in missing if vif not in attached]
        for number, vif in enumerate(missing):
            if number:
                held.refresh()
            self._attach(held, vif)
        return bool(missing)

    def links(self, node: str) -> tuple[dict[str, Link], list[Link]]:
        """The physical link of each VIF on a node, by VIF, and those links that have no VIF."""
        ports = self._site.client.ports.listed(node)
        is_bonded = any(port.portgroup_uuid for port in ports)
        groups = self._site.client.ports.groups(node) if is_bonded else []
        return links_of(ports, groups)

    def detach_all(self, held: Held) -> None:
        """Detach every VIF from the node.

        While a node carries an instance, what is attached is the instance's;
        all of it goes, also what a crashed attempt has left.

        :raises VifDetachFailed: the node would keep it, for its next user.
        """
        self._prepared.pop(held.instance.uuid, None)
        for vif in self._site.client.ports.vifs(held.uuid):
            held.refresh()
            self._detach(held, vif)

    # -- at run time ----------------------------------------------------------

    def attach_interface(self, instance: InstanceLike, vif: VifLike) -> None:
        """Attach a VIF to the node of an instance that is deployed.

        :raises VifAttachFailed: naming the VIF and the reason; :class:`NoFreePort` if
            the node has no port for it.
        """
        held = Held.of(self._site, instance)

        def check_state(node: Node) -> None:
            if node.provision_state not in states.TAKES_INTERFACES:
                raise held.error(
                    exceptions.VifAttachFailed,
                    vif.id,
                    f"the node is in {node.provision_state!r}; try again when it is in "
                    f"{states.ACTIVE!r}",
                )

        check_state(held.node)
        self._attach(held, vif.id, check_state)
        is_active = held.node.provision_state == states.ACTIVE
        later = "" if is_active else ", not connected before 'active'"
        LOG.info("VIF %s is on node %s, instance %s%s", vif.id, held.uuid, instance.uuid, later)

    def detach_interface(self, instance: InstanceLike, vif: VifLike) -> None:
        """Detach a VIF from the node of an instance.

        :raises VifDetachFailed: naming the VIF and the reason; the node still has it.
        """
        held = Held.of(self._site, instance)
        if held.node.provision_state in states.GIVES_INTERFACES:
            self._detach(held, vif.id)
        elif vif.id in self._site.client.ports.vifs(held.uuid):
            raise held.error(
                exceptions.VifDetachFailed,
                vif.id,
                f"the node is in {held.node.provision_state!r}, where Ironic would leave it "
                f"connected; try again when it is in {states.ACTIVE!r}",
            )
        LOG.info("VIF %s is off node %s, instance %s", vif.id, held.uuid, instance.uuid)

    # -- one request ----------------------------------------------------------

    def _attach(
        self, held: Held, vif: str, check: Callable[[Node], None] = lambda node: None
    ) -> None:
        """:param check: see :meth:`Held.only_if`."""
        try:
            held.only_if(check).client.ports.attach(held.uuid, vif)
        except exceptions.IronicError as exc:
            kind = exceptions.VifAttachFailed
            if isinstance(exc, exceptions.Conflict | exceptions.BadRequest):
                # A former attempt may have attached it: most have none, so it is asked now.
                if self._is_attached(held.uuid, vif, exc):
                    return
                if _NO_FREE_PORT.search(exc.message):
                    kind = exceptions.NoFreePort
            is_left: bool | None = False
            outcome = ""
            if answers.may_have_been_applied(exc):
                is_left, outcome = self._take_off(held, vif, exc)
            if not _is_refused_vif(exc):
                if outcome:
                    exc.add_note(outcome)
                raise
            reason = f"{exc.message.rstrip('.')}. {outcome}" if outcome else exc.message
            raise held.error(kind, vif, reason, request_id=exc.request_id, left=is_left) from exc

    def _is_attached(self, node: str, vif: str, refusal: exceptions.IronicError) -> bool:
        """Whether the node has a VIF that Ironic has refused."""
        try:
            return vif in self._site.client.ports.vifs(node)
        except exceptions.IronicError as exc:
            exc.add_note(f"Node {node} may have VIF {vif} attached: {refusal}")
            raise

    def _take_off(
        self, held: Held, vif: str, error: exceptions.IronicError
    ) -> tuple[bool | None, str]:
        """Detach a VIF that could not be attached, if the node has it all the same.

        :returns: whether the node still has it, ``None`` if that isn't known; and what has
            come of it, for people, ``""`` if there was nothing to do.
        """
        # Where Ironic could not be asked, all retries have just been used up.
        client = self._site.client if _is_refused_vif(error) else self._site.client.single_try()
        node, instance = held.uuid, held.instance.uuid
        try:
            if vif not in client.ports.vifs(node):
                return False, ""
            held.refresh()
            self._detach(held, vif)
        except (exceptions.NodeError, exceptions.IronicError) as exc:
            # Only after the look there are errors about the node.
            is_left = True if isinstance(exc, exceptions.NodeError) else None
            outcome = (
                f"Node {node} may still have VIF {vif} attached: {exc}. Look with 'openstack "
                f"baremetal node vif list {node}', and take it off with 'openstack baremetal node "
                f"vif detach {node} {vif}'"
            )
            LOG.warning("[vif-left] Instance %s: %s", instance, outcome)
            return is_left, outcome
        outcome = f"Node {node} had VIF {vif} all the same; it was taken off again"
        LOG.info("Instance %s: %s", instance, outcome)
        return False, outcome

    def _detach(self, held: Held, vif: str) -> None:
        try:
            held.client.ports.detach(held.uuid, vif)
        except exceptions.IronicError as exc:
            if not _is_refused_vif(exc):
                raise
            if vif not in self._site.client.ports.vifs(held.uuid):
                LOG.debug("VIF %s is off node %s already: %s", vif, held.uuid, exc)
                return
            raise held.error(
                exceptions.VifDetachFailed, vif, exc.message, request_id=exc.request_id
            ) from exc


def _is_refused_vif(error: exceptions.IronicError) -> bool:
    """Whether Ironic has said no to this one VIF; else it could not be asked."""
    return is_refusal(error) and not isinstance(
        error, exceptions.IronicUnauthorized | exceptions.NodeNotFound
    )
