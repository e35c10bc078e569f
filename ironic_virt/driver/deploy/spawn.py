# SPDX-License-Identifier: Apache-2.0

"""Putting an instance onto its node: check, reserve, configure, deploy, wait.

Level-triggered: :meth:`Spawn.spawn` reads the node and does what is missing,
so that a call after a crash goes on where the former one ended.

Checks stand before the reservation: what they refuse was never ours and is not
touched.  From the reservation on there is one undo path, :meth:`Spawn.undo`,
which takes off only what carries our instance's uuid.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from oslo_log import log as logging

from ironic_virt import exceptions, logs
from ironic_virt.baremetal import states
from ironic_virt.baremetal.node import Node
from ironic_virt.driver import history, resources
from ironic_virt.driver.change import Change
from ironic_virt.driver.deploy import config_drive, instance_info, outcome, project_fields, steps
from ironic_virt.driver.deploy.claim import claim_node
from ironic_virt.driver.deploy.config_drive import ConfigDrives
from ironic_virt.driver.deploy.teardown import TearDown
from ironic_virt.driver.hooks import Calls, Hooks
from ironic_virt.driver.network import Network
from ironic_virt.driver.pools.reservation import Reservation
from ironic_virt.driver.site import Site
from ironic_virt.driver.volumes import Volumes, can_have_volumes
from ironic_virt.virt import DeployRequest, ImageLike, InstanceLike

LOG = logging.getLogger(__name__)

VALIDATED_INTERFACES = ("deploy", "power", "storage")


class Spawn:
    """Deploys instances.  Thread-safe: it keeps nothing between calls."""

    def __init__(
        self,
        site: Site,
        network: Network,
        volumes: Volumes,
        drives: ConfigDrives,
        hooks: Hooks,
        reservation: Reservation,
        teardown: TearDown,
    ) -> None:
        self._site = site
        self._network = network
        self._volumes = volumes
        self._drives = drives
        self._hooks = hooks
        self._reservation = reservation
        self._teardown = teardown

    # -- check and reserve ----------------------------------------------------

    def reserve(self, instance: InstanceLike, image: ImageLike | None) -> Node:
        """Make a node the instance's.

        That is the one which the scheduler has picked, by setting its
        ``instance_uuid``, or one which Ironic picks.

        :param image: as far as it is known; may matter if Ironic picks.
        :returns: the node as it is with the reservation.
        :raises ReservationFailed: Ironic has no node for it; nothing was changed.
        :raises NodeTaken: another instance has it; it is left alone.
        :raises NodeNotAvailable: it is gone or not free; nothing was changed.
        :raises NodeNotOurs: it is outside the target set; nothing was changed.
        :raises InvalidExtraSpec: the flavor asks for deploy steps that no Ironic would
            take; nothing was changed.
        """
        steps.wanted(instance.flavor)
        if self._site.by_ironic:
            return self._reservation.reserve(instance, image)
        if not instance.node:
            raise exceptions.NodeNotGiven(
                None, instance.uuid, "no node was chosen for the server; schedule it first"
            )
        node = self._site.access.fresh(instance.node, instance.uuid)
        if node.instance_uuid == instance.uuid:
            self._site.access.guard(node, instance)
            return node
        with self._site.service.metrics.step("reserving"):
            return self._reserve(node, instance)

    def _reserve(self, node: Node, instance: InstanceLike) -> Node:
        self._site.access.guard_free(node, instance)
        if reason := resources.why_not_free(node):
            raise exceptions.NodeNotAvailable(node.uuid, instance.uuid, reason)
        self._site.service.report_progress(instance, "reserving", node.provision_state or "")
        try:
            reserved = claim_node(self._site, node, instance)
            self._site.access.note(reserved)
        except exceptions.NodeError:
            # It was refused.
            raise
        except Exception as exc:
            # No knowing whether the claim went through: leave nothing behind.
            self._undo_after(exc, instance, has_volumes=False)
            raise
        if reason := resources.why_not_deployable(reserved):
            # It changed between our look and our claim.
            error = exceptions.NodeNotAvailable(node.uuid, instance.uuid, reason)
            self._undo_after(error, instance, has_volumes=False)
            raise error
        LOG.info("Node %s is reserved for instance %s", node.uuid, instance.uuid)
        return reserved

    # -- the whole way --------------------------------------------------------

    def spawn(self, request: DeployRequest) -> None:
        """Return when the instance is active on its node.

        Also if it is deployed already and somebody has rescued or serviced its node since:
        undoing that would lose the instance.

        :raises NodeError: what went wrong, in one of its kinds; the node is
            released or torn down by then, unless it wasn't ours.
        :raises WaitCancelled: the service stops; the deployment goes on in
            Ironic and a later call takes it up.
        """
        instance = request.instance
        node = self.reserve(instance, request.image)
        with self._undone_if_failed(instance, has_volumes=bool(request.block_devices)):
            self._carry_on(node, request)

    def finish(self, instance: InstanceLike, *, has_volumes: bool) -> None:
        """Return when an instance is active whose deployment another process has begun.

        As long as Ironic doesn't answer, it is asked again.

        :param has_volumes: see :meth:`TearDown.tear_down`.
        :raises InstanceNotFound: no node carries it.
        :raises NodeError: the deployment failed, or was never asked for; the node is released
            or torn down by then, unless it wasn't ours.
        :raises WaitCancelled: as :meth:`spawn` has it.
        """
        with self._undone_if_failed(instance, has_volumes=has_volumes):
            node = self._found(instance)
            self._stop_if_unwanted(node, instance)
            state = node.provision_state
            if state in (None, states.AVAILABLE):
                raise exceptions.DeployFailed(
                    node.uuid, instance.uuid, "it was interrupted before the deployment had begun"
                )
            done = outcome.deployed(instance, node) or self._wait(node, instance, state)
            self._deployed(done, instance, self._hooks.of(instance, node))

    def _found(self, instance: InstanceLike) -> Node:
        while True:
            try:
                return self._site.access.guarded(instance)
            except (exceptions.IronicUnreachable, exceptions.IronicUnavailable) as exc:
                LOG.warning("[node-unread] Node of instance %s: %s", instance.uuid, exc)
                if self._site.pause(self._site.conf.ironic.api_retry_interval):
                    raise exceptions.WaitCancelled(None, instance.uuid, "it stops") from exc

    @contextlib.contextmanager
    def _undone_if_failed(self, instance: InstanceLike, *, has_volumes: bool) -> Iterator[None]:
        try:
            with self._site.service.metrics.building():
                yield
        except exceptions.WaitCancelled:
            raise
        except Exception as exc:
            if not isinstance(exc, exceptions.BuildAborted):
                LOG.error("[deploy-failed] Deploying instance %s failed: %s", instance.uuid, exc)
            if isinstance(exc, exceptions.NodeError):
                # Undoing it may write more into it.
                history.explain(self._site.client, exc)
            self._undo_after(exc, instance, has_volumes=has_volumes)
            raise

    def _carry_on(self, node: Node, request: DeployRequest) -> None:
        instance = request.instance
        state = node.provision_state
        hooks = self._hooks.of(instance, node)
        if state in (None, states.AVAILABLE):
            if reason := resources.why_not_deployable(node):
                raise exceptions.NodeNotAvailable(node.uuid, instance.uuid, reason)
            self._volumes.check(node, instance, request.block_devices)
            with self._site.service.metrics.step("configuring"):
                held, drive = self._prepare(node, request, hooks)
            if can_have_volumes(held):
                # Ironic itself asks the other interfaces when it is told to deploy.
                with self._site.service.metrics.step("validating"):
                    self._validate(held, instance)
                held = self._site.access.held(instance, node.uuid)
            with self._site.service.metrics.step("deploying"):
                self._start(held, instance, drive)
                done = self._wait(node, instance, states.DEPLOYING)
        else:
            done = outcome.deployed(instance, node) or self._wait(node, instance, state)
        self._deployed(done, instance, hooks)

    def _deployed(self, done: Node, instance: InstanceLike, hooks: Calls) -> None:
        self._site.access.note_seen(done, done.uuid)
        if done.provision_state == states.ACTIVE:
            hooks.after_deploy()
        self._site.service.report_progress(instance, "active", done.provision_state or "")
        if done.provision_state == states.ACTIVE:
            LOG.info("Instance %s is active on node %s", instance.uuid, done.uuid)
            return
        LOG.warning(
            "[node-out-of-active] Instance %s is deployed on node %s, which somebody has brought "
            "to %r since; it is left alone. The instance runs again when the node is back in %r",
            *(instance.uuid, done.uuid, done.provision_state, states.ACTIVE),
        )

    def _prepare(
        self, node: Node, request: DeployRequest, hooks: Calls
    ) -> tuple[Node, config_drive.Form | None]:
        """Attach what the instance needs, and tell the node what to deploy.

        :returns: the node past the guard, and the config drive.
        """
        instance = request.instance
        self._site.service.report_progress(instance, "configuring", node.provision_state or "")
        if hooks.before_deploy():
            # They may take minutes.
            node = self._site.access.held(instance, node.uuid)
            self._stop_if_unwanted(node, instance)
        attached = self._network.attach(node, instance, request.network_info)
        drive = self._drives.make(node, request, hooks)
        if attached or drive is not None:
            # Either takes its time, and what comes now writes to the node.
            node = self._site.access.held(instance, node.uuid)
        # The last before the deployment: its answer is the look at the node.
        held = self._configure(node, request)
        self._volumes.attach(held, instance, request.block_devices)
        return held, drive

    def _configure(self, node: Node, request: DeployRequest) -> Node:
        """Tell the node what to deploy.

        :returns: the node as it is afterwards, past the guard.
        """
        instance = request.instance
        more = self._site.service.deploy_metadata(instance, request.network_info)
        info = instance_info.wanted(request, node, more)
        names = self._site.conf.ironic.project_fields
        for name in project_fields.left_alone(node, instance, names):
            LOG.warning(
                "[project-differs] Node %s: its %s is not instance %s's project; it is left alone",
                *(node.uuid, name, instance.uuid),
            )
        former = node.instance_info or {}
        changes = instance_info.configure(former, instance_info.named(info))
        project = project_fields.claim(node, instance, names)
        changes += [{"op": "add", "path": f"/{key}", "value": v} for key, v in project.items()]
        # With the claim in it, Ironic refuses to write to a node that is another's by now.
        configured = claim_node(self._site, node, instance, changes)
        self._site.access.guard(configured, instance)
        return configured

    def _validate(self, node: Node, instance: InstanceLike) -> None:
        """Have Ironic say what is wrong with a node's interfaces.

        :raises NodeValidationFailed, ImageRefused: something is.
        """
        self._site.service.report_progress(instance, "validating", node.provision_state or "")
        checks = self._site.client.validate_node(node.uuid)
        failed = {
            name: checks[name].reason or "not supported by the node's hardware type"
            for name in VALIDATED_INTERFACES
            if name in checks and not checks[name].result
        }
        if not failed:
            return
        if instance_info.is_image_fault(failed.get("deploy"), node.instance_info):
            raise exceptions.ImageRefused(
                node.uuid, instance.uuid, f"Ironic refuses the image: {failed['deploy']}"
            )
        raise exceptions.NodeValidationFailed(node.uuid, instance.uuid, failed)

    def _start(self, held: Node, instance: InstanceLike, drive: config_drive.Form | None) -> None:
        """Ask for the deployment.

        :param held: the node, read just now and past the guard.
        """
        if reason := resources.why_not_deployable(held):
            raise exceptions.NodeNotAvailable(held.uuid, instance.uuid, reason)
        self._stop_if_unwanted(held, instance)
        self._site.service.report_progress(instance, "deploying", held.provision_state or "")
        try:
            Change(self._site, instance, held).ask(
                states.VERB_ACTIVE,
                configdrive=drive,
                deploy_steps=steps.wanted(instance.flavor),
            )
        except exceptions.IronicError as exc:
            if too_large := config_drive.refused(exc, held.uuid, instance.uuid):
                raise too_large from exc
            refused = isinstance(exc, exceptions.BadRequest | exceptions.Conflict)
            # An image that can't be used is a fault of the server's by its status, 500.
            if not refused and not instance_info.is_image_fault(exc.message, held.instance_info):
                raise
            if isinstance(exc, exceptions.BadRequest):
                self._tell_what_is_invalid(held, instance)
            raise outcome.failure(
                held, instance, "Ironic refused to deploy", exc.message, exc.request_id
            ) from exc
        LOG.info("Node %s is being deployed for instance %s", held.uuid, instance.uuid)

    def _tell_what_is_invalid(self, node: Node, instance: InstanceLike) -> None:
        """After a refusal, raise an error that names the interface at fault, if it is known."""
        try:
            self._validate(node, instance)
        except exceptions.IronicError as exc:
            LOG.debug("Can't ask Ironic why it refused node %s: %s", node.uuid, exc)

    def _stop_if_unwanted(self, node: Node, instance: InstanceLike) -> None:
        if reason := self._site.service.abort_reason(instance):
            raise exceptions.BuildAborted(node.uuid, instance.uuid, reason)

    # -- wait -----------------------------------------------------------------

    def _wait(self, node: Node, instance: InstanceLike, state: str | None) -> Node:
        return Change(self._site, instance, node).wait(
            lambda now: outcome.deployed(instance, now, node.uuid),
            "become active ([ironic] deploy_timeout)",
            self._site.conf.ironic.deploy_timeout,
            kind="deploy",
            state=state,
            abortable=True,
            step="deploying",
        )

    # -- the one undo path ----------------------------------------------------

    def undo(self, instance: InstanceLike, *, has_volumes: bool) -> None:
        """Take off everything that carries the instance; harmless when nothing does.

        :param has_volumes: see :meth:`TearDown.tear_down`.
        """
        self._teardown.tear_down(instance, has_volumes=has_volumes)

    def _undo_after(self, error: Exception, instance: InstanceLike, *, has_volumes: bool) -> None:
        """Undo; ``error`` is what the caller raises, also if undoing fails."""
        try:
            self.undo(instance, has_volumes=has_volumes)
        except Exception as exc:
            LOG.error(
                "[instance-left-on-node] Instance %s could not be taken off its node after the "
                "failure: %s. Destroying the instance tries it again",
                instance.uuid,
                logs.said(exc),
                exc_info=not isinstance(exc, exceptions.IronicVirtError),
            )
            error.add_note(f"Undoing it failed too: {exc}")
