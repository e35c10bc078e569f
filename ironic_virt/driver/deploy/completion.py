# SPDX-License-Identifier: Apache-2.0

"""The end of a deployment: the instance is active, or its node is given back.

Only an error about the node undoes a deployment.  After any other one, which may be of Ironic's
API, of a proxy or of this host, the node is looked at, as long as that takes: a deployment that
has begun goes on.  What can't be seen is left alone, for a later call to take it up.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from oslo_log import log as logging

from ironic_virt import exceptions, logs
from ironic_virt.baremetal import states
from ironic_virt.baremetal.node import Node
from ironic_virt.driver import history
from ironic_virt.driver.deploy.instance_info import is_image_fault
from ironic_virt.driver.deploy.teardown import TearDown
from ironic_virt.driver.held import Held, undo_after
from ironic_virt.driver.hooks import Calls, Hooks
from ironic_virt.driver.patience import Patience
from ironic_virt.driver.protection import protect_node
from ironic_virt.driver.site import Site
from ironic_virt.virt import InstanceLike

LOG = logging.getLogger(__name__)


class InFailedState(exceptions.DeployFailed):
    """The deployment failed; see :func:`.history.with_reason` for why.

    :ivar failed: the node.
    """

    def __init__(self, node: Node, instance: InstanceLike) -> None:
        super().__init__(node.uuid, instance.uuid, f"the deployment failed: {node.why}")
        self.failed = node


class Completion:
    """Sees deployments through.  Thread-safe: it keeps nothing between calls."""

    def __init__(self, site: Site, hooks: Hooks, teardown: TearDown) -> None:
        self._site = site
        self._hooks = hooks
        self._teardown = teardown

    def finish(self, instance: InstanceLike) -> None:
        """Return when an instance is active whose deployment another process has begun.

        As long as Ironic doesn't answer, it is asked again.

        :raises InstanceNotFound: no node carries it.
        :raises NodeError: the deployment failed, or was never asked for; the node is released
            or torn down by then, unless it wasn't ours.
        :raises WaitCancelled: as :meth:`Spawn.spawn` has it.
        """
        patience = Patience(self._site, instance, gives_up=False)

        def go_on() -> None:
            held = patience.look()
            self.stop_if_unwanted(held)
            if held.node.provision_state == states.AVAILABLE:
                raise held.error(
                    exceptions.DeployFailed, "it was interrupted before the deployment had begun"
                )
            self.take_up(held)

        self.see_through(go_on, instance, None, patience)

    def see_through(
        self,
        act: Callable[[], None],
        instance: InstanceLike,
        node: str | None,
        patience: Patience | None = None,
    ) -> None:
        """Deploy by ``act``, go on after what disturbs it, and undo it if it has failed.

        :param act: returns when the instance is active.
        :param node: the uuid of the one that the instance has, if that is known.
        :param patience: with looks at the node; one that gives up unless it is given.
        :raises WaitCancelled: the service stops, or Ironic has not answered for as long as
            ``[ironic] deploy_timeout``; nothing is undone.
        """
        patience = patience or Patience(self._site, instance, gives_up=True, node=node)
        try:
            with self._site.service.metrics.building():
                while True:
                    try:
                        return act()
                    except InFailedState as exc:
                        failed = history.with_reason(self._site.client, exc.failed)
                        raise make_failure(
                            failed, instance, "the deployment failed", failed.last_error
                        ) from None
                    except Exception as exc:
                        if _is_about_node(exc):
                            raise
                        act = self._after(exc, instance, patience)
        except exceptions.WaitCancelled:
            raise
        except Exception as exc:
            if not isinstance(exc, exceptions.BuildAborted):
                LOG.error("[deploy-failed] Deploying instance %s failed: %s", instance.uuid, exc)
            if isinstance(exc, exceptions.NodeError):
                # Undoing it may write more into it.
                history.explain_error(self._site.client, exc)
            self.undo_after(exc, instance, node)
            raise

    def _after(
        self, error: Exception, instance: InstanceLike, patience: Patience
    ) -> Callable[[], None]:
        """What to do after an error that says nothing of the node.

        :raises Exception: that error, if nothing has begun; or it is of this host, and does
            not pass.
        """
        passes = isinstance(error, exceptions.IronicError | exceptions.WaitTimeout)
        lasts = patience.is_over
        patience.pause(error)
        patience.begin()
        try:
            held = patience.look()
        except exceptions.InstanceNotFound:
            raise error from None
        if held.node.provision_state == states.AVAILABLE or (lasts and not passes):
            raise error
        LOG.warning(
            "[deploy-disturbed] Instance %s, node %s in %s: %s. Its deployment goes on",
            *(instance.uuid, held.uuid, held.node.states, logs.error_text(error)),
            exc_info=None if isinstance(error, exceptions.IronicVirtError) else error,
        )
        return lambda: self.take_up(held)

    # -- wait -----------------------------------------------------------------

    def take_up(self, held: Held) -> None:
        """Return when the instance is active on a node that is being deployed, or was.

        :param held: read just now.
        """
        node, hooks = held.node, self._hooks.of(held.instance, held.node)
        deployed = check_deployed(held.instance, node)
        if "display_name" not in (node.instance_info or {}):
            raise held.error(exceptions.DeployFailed, "it was deployed before it was configured")
        node = deployed or wait(self._site, held, node.provision_state)
        end_deployment(self._site, held, node, hooks)

    def stop_if_unwanted(self, held: Held) -> None:
        """Raise if the compute service does not want the instance any more.

        :raises BuildAborted: it does not.
        """
        if reason := self._site.service.abort_reason(held.instance):
            raise held.error(exceptions.BuildAborted, reason)

    # -- the one undo path ----------------------------------------------------

    def undo_after(
        self, error: Exception, instance: InstanceLike, node: str | None = None
    ) -> None:
        """Take off everything that carries the instance; harmless when nothing does.

        :param error: what the caller raises, also if this fails.
        :param node: that the instance had; see :meth:`TearDown.tear_down`.
        """
        undo_after(
            error,
            instance,
            lambda: self._teardown.tear_down(instance, lost=node),
            "Taking it off its node",
        )


def wait(site: Site, held: Held, state: str) -> Node:
    """The node when it is deployed."""
    return held.wait(
        lambda node: check_deployed(held.instance, node, held.uuid),
        "become active ([ironic] deploy_timeout)",
        site.conf.ironic.deploy_timeout,
        kind="deploy",
        state=state,
        abortable=True,
        step="deploying",
    )


def end_deployment(site: Site, held: Held, node: Node, hooks: Calls) -> None:
    """Note and protect a node that is deployed, and call the hooks of an active one.

    :param node: as a wait has shown it.
    """
    instance = held.instance
    held.note(node)
    while check_deployed(instance, protect_node(site, held)) is None:
        # Before that, a late request has had it rebuilt.
        held.note(wait(site, held, states.DEPLOYING))
    node = held.node
    if node.provision_state == states.ACTIVE:
        hooks.after_deploy()
    site.service.report_progress(instance, "active", node.provision_state)
    if node.provision_state == states.ACTIVE:
        LOG.info("Instance %s is active on node %s", instance.uuid, node.uuid)
        return
    LOG.warning(
        "[node-out-of-active] Instance %s is deployed on node %s, which somebody has brought "
        "to %r since; it is left alone. The instance runs again when the node is back in %r",
        *(instance.uuid, node.uuid, node.provision_state, states.ACTIVE),
    )


# -- what a look at a node says -----------------------------------------------


def check_deployed(
    instance: InstanceLike, node: Node | None, uuid: str | None = None
) -> Node | None:
    """The node when it is deployed, ``None`` while it is on its way.

    :param node: as it was just seen; ``None``: Ironic has no such node.
    :param uuid: of the node, if it may be gone.
    :raises InFailedState: it has failed, and the reason may have to be looked for.
    :raises NodeError: it will never be, with this instance.
    """
    if node is None:
        raise exceptions.DeployFailed(
            uuid, instance.uuid, "the node was deleted from Ironic during the deployment"
        )
    failure = functools.partial(
        exceptions.DeployFailed, node.uuid, instance.uuid, last_error=node.last_error
    )
    if node.instance_uuid is None:
        raise failure("somebody took the server off the node during the deployment")
    if node.instance_uuid != instance.uuid:
        raise exceptions.NodeTaken(node.uuid, instance.uuid, node.instance_uuid)
    state = node.provision_state
    if state in states.DEPLOYED:
        return node
    if state in (states.DEPLOY_FAILED, states.ERROR):
        if node.owes_reason:
            return None
        raise InFailedState(node, instance)
    if state in states.DEPLOY_IN_PROGRESS or state not in states.ALL:
        # A state that is newer than our table may well lead to active.
        return None
    raise failure(
        f"the node is not being deployed any more but in {node.states}; somebody else has "
        "acted on it"
    )


def make_failure(
    node: Node,
    instance: InstanceLike,
    what: str,
    said: str | None,
    request_id: str | None = None,
) -> exceptions.DeployFailed:
    """The error for what Ironic said, of the kind that it blames: the image, or the rest."""
    blamed = is_image_fault(said, node.instance_info)
    kind = exceptions.ImageRefused if blamed else exceptions.DeployFailed
    return kind(
        node.uuid,
        instance.uuid,
        f"{what}: {said or node.why}",
        last_error=said,
        request_id=request_id,
    )


def _is_about_node(error: Exception) -> bool:
    """Whether an error says how a deployment has ended."""
    if isinstance(error, exceptions.WaitTimeout):
        # With a cause: nobody has seen the node at the deadline.
        return error.__cause__ is None
    return isinstance(error, exceptions.NodeError | exceptions.InstanceNotFound)
