# SPDX-License-Identifier: Apache-2.0

"""Putting an instance onto its node: check, reserve, configure, deploy, wait.

Level-triggered: :meth:`Spawn.spawn` reads the node and does what is missing,
so that a call after a crash goes on where the former one ended.

Checks stand before the reservation: what they refuse was never ours and is not
touched.  From the reservation on there is one undo path
(:mod:`ironic_virt.driver.deploy.completion`), which takes off only what carries our
instance's uuid.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools

from oslo_log import log as logging

from ironic_virt import exceptions
from ironic_virt.baremetal import states
from ironic_virt.baremetal.node import Node
from ironic_virt.driver import resources
from ironic_virt.driver.deploy import (
    completion,
    config_drive,
    instance_info,
    project_fields,
    steps,
)
from ironic_virt.driver.deploy.claiming import claim_node
from ironic_virt.driver.deploy.completion import Completion
from ironic_virt.driver.deploy.config_drive import ConfigDrives
from ironic_virt.driver.groups import Groups
from ironic_virt.driver.held import REFUSALS, Held
from ironic_virt.driver.hooks import Calls, Hooks
from ironic_virt.driver.network import Network
from ironic_virt.driver.pools.reservation import Reservation
from ironic_virt.driver.site import Site
from ironic_virt.driver.volumes import Volumes, can_have_volumes
from ironic_virt.virt import DeployRequest, ImageLike, InstanceLike

LOG = logging.getLogger(__name__)

VALIDATED_INTERFACES = ("deploy", "power", "storage")


@dataclasses.dataclass(eq=False)
class Spawn:
    """Deploys instances.  Thread-safe: it keeps nothing between calls."""

    _site: Site
    _network: Network
    _volumes: Volumes
    _drives: ConfigDrives
    _hooks: Hooks
    _groups: Groups
    _reservation: Reservation
    _completion: Completion

    # -- check and reserve ----------------------------------------------------

    def reserve(
        self, instance: InstanceLike, image: ImageLike | None, *, begins: bool = False
    ) -> Node:
        """Make a node the instance's.

        That is the one the scheduler has picked, by its ``instance_uuid``, or Ironic's choice.

        :param image: as far as it is known; may matter if Ironic picks.
        :param begins: the build does: its group may refuse a node that it has from before.
        :returns: the node as it is with the reservation.
        :raises ReservationFailed: Ironic has no node for it; nothing was changed.
        :raises NodeTaken: another instance has it; it is left alone.
        :raises NodeNotAvailable: it is gone or not free, or the group of the instance refuses it.
        :raises NodeNotOurs: it is outside the target set; nothing was changed.
        :raises InvalidExtraSpec: no Ironic would take its deploy steps; nothing was changed.
        """
        steps.read_steps(instance.flavor)
        node = self._find(instance)
        if node is not None and node.instance_uuid == instance.uuid:
            self._site.nodes.check_carries(node, instance.uuid)
            is_looked_at = begins and node.failure_domain is not None
            if not is_looked_at or node.provision_state != states.AVAILABLE:
                return node
        with self._site.service.metrics.step("reserving"), self._groups.turn(instance):
            if node is None:
                return self._reservation.reserve(instance, image)
            return self._reserve(node, instance)

    def _find(self, instance: InstanceLike) -> Node | None:
        """The node that an instance has or is to get; ``None``: Ironic picks one."""
        if self._site.by_ironic:
            return self._site.client.node_of_instance(instance.uuid)
        if not instance.node:
            raise exceptions.NodeNotGiven(
                None, instance.uuid, "no node was chosen for the server; schedule it first"
            )
        return self._site.nodes.read(instance.node, instance.uuid)

    def _reserve(self, node: Node, instance: InstanceLike) -> Node:
        reserved = node if node.instance_uuid == instance.uuid else None
        if reserved is None:
            self._site.nodes.check_free(node, instance.uuid)
            if reason := resources.why_not_free(node):
                raise exceptions.NodeNotAvailable(node.uuid, instance.uuid, reason)
        self._site.service.report_progress(instance, "reserving", node.provision_state)
        try:
            reserved = reserved or claim_node(self._site, node, instance)
            self._site.nodes.note(reserved)
            # What others do meanwhile, Nova's scheduler has not seen.
            reason = resources.why_not_deployable(reserved)
            if reason := reason or self._groups.why_not(instance, reserved):
                raise exceptions.NodeNotAvailable(node.uuid, instance.uuid, reason)
        except Exception as exc:
            # A claim that was refused leaves nothing; any other one may have gone through.
            if reserved is not None or not isinstance(exc, exceptions.NodeError):
                self._completion.undo_after(exc, instance)
            raise
        LOG.info("Node %s is reserved for instance %s", node.uuid, instance.uuid)
        return reserved

    # -- the whole way --------------------------------------------------------

    def spawn(self, request: DeployRequest) -> None:
        """Return when the instance is active on its node.

        Also if it is deployed already and somebody has rescued or serviced its node since:
        undoing that would lose the instance.

        :raises NodeError: what went wrong, in one of its kinds; the node is
            released or torn down by then, unless it wasn't ours.
        :raises WaitCancelled: the service stops, or Ironic has not answered for very long;
            the deployment goes on in Ironic and a later call takes it up.
        """
        instance = request.instance
        node = self.reserve(instance, request.image)
        self._completion.see_through(lambda: self._carry_on(node, request), instance, node.uuid)

    def _carry_on(self, node: Node, request: DeployRequest) -> None:
        instance = request.instance
        held = Held(self._site, instance, node)
        if node.provision_state != states.AVAILABLE:
            self._completion.take_up(held)
            return
        hooks = self._hooks.of(instance, node)
        reason = resources.why_not_deployable(node)
        if instance.node != node.uuid and instance.node in self._site.nodes.inventory.snapshot:
            reason = f"Ironic picked it after the reservation of node {instance.node} was lost"
        if reason:
            raise held.error(exceptions.NodeNotAvailable, reason)
        self._volumes.check(held, request.block_devices)
        with self._site.service.metrics.step("configuring"):
            rest = self._prepare(held, request, hooks)
        if can_have_volumes(held.node):
            # Ironic itself asks the other interfaces when it deploys.
            with self._site.service.metrics.step("validating"):
                self._validate(held)
            held.refresh()
        with self._site.service.metrics.step("deploying"):
            self._start(held, rest)
            deployed = completion.wait(self._site, held, states.DEPLOYING)
        completion.end_deployment(self._site, held, deployed, hooks)

    def _prepare(
        self, held: Held, request: DeployRequest, hooks: Calls
    ) -> config_drive.Form | None:
        """Attach what the instance needs, and tell the node what to deploy.

        :returns: the config drive if it has to go with the request to deploy.
        """
        self._site.service.report_progress(held.instance, "configuring", held.node.provision_state)
        if hooks.before_deploy():
            # They may take minutes.
            held.refresh()
            self._completion.stop_if_unwanted(held)
        is_attached = self._network.attach(held, request.network_info)
        drive = self._drives.make(held.node, request, hooks)
        if is_attached or drive is not None:
            # Either takes its time, and what comes now writes to the node.
            held.refresh()
        boot = self._volumes.attach(held, request.block_devices)
        # Its answer is the look at the node.  Whoever's request to deploy Ironic takes from now
        # on, it deploys this instance.
        rest = self._configure(held, request, drive)
        if boot:
            self._volumes.create(held, boot)
        return rest

    def _configure(
        self, held: Held, request: DeployRequest, drive: config_drive.Form | None
    ) -> config_drive.Form | None:
        """Tell the node what to deploy; see :meth:`_prepare`."""
        node, instance = held.node, held.instance
        more = self._site.service.deploy_metadata(instance, request.network_info)
        info = instance_info.make_info(request, node, more)
        project = project_fields.claim_patch(node, instance, self._site.conf.ironic.project_fields)
        if project is None:
            LOG.warning(
                "[project-differs] Node %s: its lessee is not instance %s's project; it is left "
                "alone",
                *(node.uuid, instance.uuid),
            )
        changes = instance_info.configure_patch(
            node.instance_info or {}, instance_info.name_keys(info), instance.uuid
        )
        changes += project or ()
        # With the claim in it, Ironic refuses to write to a node that is another's by now.
        configured, rest = config_drive.write_with(
            functools.partial(claim_node, self._site, node, instance),
            *(changes, drive, node.uuid, instance.uuid),
        )
        self._site.nodes.check_carries(configured, instance.uuid)
        held.node = configured
        return rest

    def _validate(self, held: Held) -> None:
        """Have Ironic say what is wrong with a node's interfaces.

        :raises NodeValidationFailed, ImageRefused: something is.
        """
        node, instance = held.node, held.instance
        self._site.service.report_progress(instance, "validating", node.provision_state)
        checks = self._site.client.validate_node(node.uuid)
        failed = {
            name: checks[name].reason or "not supported by the node's hardware type"
            for name in VALIDATED_INTERFACES
            if name in checks and not checks[name].result
        }
        if instance_info.is_image_fault(failed.get("deploy"), node.instance_info):
            raise held.error(
                exceptions.ImageRefused, f"Ironic refuses the image: {failed['deploy']}"
            )
        if failed:
            raise held.error(exceptions.NodeValidationFailed, failed)

    def _start(self, held: Held, drive: config_drive.Form | None) -> None:
        """Ask for the deployment.

        :param held: read just now.
        :param drive: what is not on the node yet.
        """
        node, instance = held.node, held.instance
        if reason := resources.why_not_deployable(node):
            raise held.error(exceptions.NodeNotAvailable, reason)
        self._completion.stop_if_unwanted(held)
        self._site.service.report_progress(instance, "deploying", node.provision_state)
        deploy_steps = steps.read_steps(instance.flavor)
        try:
            held.ask(states.VERB_ACTIVE, configdrive=drive, deploy_steps=deploy_steps)
        except exceptions.BodyRefused as exc:
            raise config_drive.refusal_error(exc, held.uuid, instance.uuid) from exc
        except exceptions.IronicError as exc:
            # An image that can't be used is a fault of the server's by its status, 500.
            if not isinstance(exc, REFUSALS) and not instance_info.is_image_fault(
                exc.message, node.instance_info
            ):
                if drive is None and not deploy_steps:
                    raise
                # What is deployed by now may be another's.
                raise held.error(
                    exceptions.DeployFailed,
                    f"can't tell whether Ironic deploys what was requested: {exc}",
                    request_id=exc.request_id,
                ) from exc
            if isinstance(exc, exceptions.BadRequest):
                # Where that says what is wrong, its error names the interface.
                with contextlib.suppress(exceptions.IronicError):
                    self._validate(held)
            raise completion.make_failure(
                node, instance, "Ironic refused to deploy", exc.message, exc.request_id
            ) from exc
        LOG.info("Node %s is being deployed for instance %s", held.uuid, instance.uuid)
