# SPDX-License-Identifier: Apache-2.0

"""The node that carries an instance: the handle that actions read and change it through.

The guard lets the node pass when the handle is made, and before each further try of a change
the node is read and guarded again, because it may belong to another instance by then.  What
Ironic refuses becomes an error about the node; what Ironic could not be asked stays an
:class:`~ironic_virt.exceptions.IronicError`.
"""

from __future__ import annotations

import contextlib
import copy
import functools
from collections.abc import Callable, Iterator
from typing import Any, Self, TypeVar

from oslo_log import log as logging

from ironic_virt import exceptions, logs
from ironic_virt.baremetal import states
from ironic_virt.baremetal.node import Node
from ironic_virt.baremetal.patches import JsonPatch
from ironic_virt.driver.claim import claim_patch
from ironic_virt.driver.site import Site
from ironic_virt.virt import InstanceLike

LOG = logging.getLogger(__name__)

T = TypeVar("T")

PATIENCE = 5.0
"""How many times ``api_retry_interval`` late the end of a deployment may be seen.

On hardware it takes minutes, and a deployment of 20 s costs five looks so.
"""

LEAST_PATIENCE = 60.0
"""Seconds for which an answer is waited for at a deadline at least."""

REFUSALS = (exceptions.BadRequest, exceptions.Conflict)


def is_refusal(error: exceptions.IronicError) -> bool:
    """Whether Ironic has said no; else it could not be asked."""
    return error.status is not None and not isinstance(
        error, exceptions.IronicUnavailable | exceptions.UnexpectedAnswer
    )


def has_moved(before: Node, after: Node) -> bool:
    """Whether a node has been in another provision state since."""
    return (before.provision_state, before.provision_updated_at) != (
        after.provision_state,
        after.provision_updated_at,
    )


def is_ambiguous(before: Node, after: Node) -> bool:
    """Whether a node has moved since a rebuild was requested as other requests move it, too.

    A rescue or service takes it out of ``active``, and has brought it back there or not.
    """
    state = after.provision_state
    return state in states.OUT_OF_ACTIVE or state == before.provision_state == states.ACTIVE


def undo_after(
    error: Exception, instance: InstanceLike, undo: Callable[[], object], what: str
) -> None:
    """Undo what has failed for an instance.

    :param error: what the caller raises, also if this fails.
    :param what: is undone, in words, at the beginning of a sentence.
    """
    try:
        undo()
    except Exception as exc:
        LOG.error(
            "[instance-left-on-node] Instance %s: %s failed too: %s. Destroying the instance "
            "tries it again",
            *(instance.uuid, what, logs.error_text(exc)),
            exc_info=not isinstance(exc, exceptions.IronicVirtError),
        )
        error.add_note(f"{what} failed too: {exc}")


class _Moved(Exception):
    """A request that carries nothing was refused, because one like it had been taken."""


class Held:
    """A node, for one action of the instance that it carries.

    :param node: read just now.
    :ivar node: as it was read last, past the guard, or seen last by a wait.
    :ivar uuid: the node's.
    :ivar client: asks Ironic; reads and guards the node before each further try of a change.
    :raises NodeTaken, NodeNotAvailable, NodeNotOurs: it is not ours to act on.
    """

    def __init__(self, site: Site, instance: InstanceLike, node: Node) -> None:
        site.nodes.check_carries(node, instance.uuid)
        self._site = site
        self._check: Callable[[Node], object] = lambda node: None
        self.instance = instance
        self.node = node
        self.uuid = node.uuid
        self.client = site.client.rechecking(self._recheck)

    @classmethod
    def of(cls, site: Site, instance: InstanceLike) -> Self:
        """The node that carries the instance, read now.

        :raises InstanceNotFound: no node does.
        :raises NodeNotOurs: it is outside the target set.
        """
        return cls(site, instance, site.nodes.read_carrier(instance))

    def only_if(self, check: Callable[[Node], object]) -> Self:
        """Return a copy with this check alone, called for each read and before each retry.

        :param check: given the node as it is then; raises if the change is no longer right.
        """
        twin = copy.copy(self)
        twin._check = check
        twin.client = self._site.client.rechecking(twin._recheck)
        return twin

    def refresh(self) -> Node:
        """Read the node again.

        :raises NodeTaken, NodeNotAvailable, NodeNotOurs: it is not ours to act on any more.
        """
        self.node = self._recheck()
        return self.node

    def _recheck(self) -> Node:
        node = self._site.nodes.read(self.uuid, self.instance.uuid)
        self._site.nodes.check_carries(node, self.instance.uuid)
        self._check(node)
        return node

    # -- errors ---------------------------------------------------------------

    def error(
        self, kind: Callable[..., exceptions.NodeError], *details: Any, **more: Any
    ) -> exceptions.NodeError:
        """An error about this node and its instance."""
        return kind(self.uuid, self.instance.uuid, *details, **more)

    @contextlib.contextmanager
    def refused_as(
        self,
        kind: Callable[..., exceptions.NodeError],
        what: str,
        *details: Any,
        when: Callable[[exceptions.IronicError], bool] | None = None,
        **more: Any,
    ) -> Iterator[None]:
        """Raise what Ironic refuses in the block as an error about this node.

        :param what: continued by Ironic's message.
        :param details: of the error, before its reason.
        :param when: which errors; those that say that the request itself was refused
            (:data:`REFUSALS`) unless it is given.
        """
        try:
            yield
        except exceptions.IronicError as exc:
            if not (when(exc) if when else isinstance(exc, REFUSALS)):
                raise
            raise self.error(
                kind, *details, f"{what}: {exc.message}", request_id=exc.request_id, **more
            ) from exc

    # -- a change of the provision state --------------------------------------

    def ask(
        self,
        verb: str,
        kind: Callable[..., exceptions.NodeError] = exceptions.DeployFailed,
        **given: Any,
    ) -> None:
        """Ask for a change of the provision state.

        The node may be in another state since :attr:`node` was read, and a request of a
        former instance may have come in late.  A request that carries nothing has the same
        effect whoever sent it, so the change counts as made.  Failures are one that carries
        something, and a rebuild if the node is in rescue, or in ``active`` again, by then.  A
        rescue whose reply was lost is none: undoing it would take the system away that its user
        asked for.

        :param kind: of that failure.
        :param given: see :meth:`IronicClient.set_provision_state`, for errors, too.
        """
        before = self.node
        carries = any(given.values())

        def moved(after: Node, *, lost: bool) -> bool:
            if not has_moved(before, after):
                return False
            state = after.provision_state
            ambiguous = verb == states.VERB_REBUILD and is_ambiguous(before, after)
            if ambiguous or (carries and not (lost and given.get("rescue_password"))):
                raise self.error(
                    kind,
                    f"the node went to {state!r} while {verb!r} was requested, and it is not "
                    "known whether that was by this request",
                )
            return True

        def recheck() -> None:
            if moved(self._recheck(), lost=False):
                raise _Moved

        try:
            self._site.client.rechecking(recheck).set_provision_state(
                self.uuid, verb, applied=functools.partial(moved, lost=True), **given
            )
        except _Moved:
            LOG.info("Node %s: Ironic accepted another request for %r first", self.uuid, verb)

    def patch(self, changes: JsonPatch) -> Node:
        """Write to the node if it still carries the instance, and return it as it is then.

        From then on Ironic refuses every patch that was made for the instance before.
        The answer is not guarded, because what was written has been written.

        :raises Conflict: among others if it is another's by now; see the client for more.
        """
        patch = [*claim_patch(self.node, self.instance.uuid), *changes]
        self.node = self.client.patch_node(self.uuid, patch)
        return self.node

    # -- waiting and noting ---------------------------------------------------

    def wait(
        self,
        until: Callable[[Node | None], T | None],
        what: str,
        timeout: float,
        *,
        kind: str,
        state: str,
        abortable: bool = False,
        step: str | None = None,
        late: Callable[[Node | None], T | None] | None = None,
    ) -> T:
        """Wait for the node; see :meth:`Watcher.wait`.

        At the deadline the node is read once more, because its end may have been missed.  If
        Ironic does not answer, an answer is waited for, as long again as the wait was given.

        :param timeout: seconds; 0: no limit.
        :param kind: what for, as it is counted: see :meth:`virt.Metrics.waiting`.
        :param state: the provision state in which the node is now, as far as known.
        :param abortable: the compute service is asked meanwhile whether it is still wanted.
        :param step: reported to the compute service with each state that the node comes to.
        :param late: asked at the deadline instead of ``until``.
        :raises WaitTimeout: with a cause, if Ironic did not answer at the deadline either.
        """
        service, seen = self._site.service, self.node.provision_state

        def look(node: Node | None) -> T | None:
            nonlocal seen
            # Being active is reported when it is known to be ours.
            if step and node is not None and node.provision_state not in (seen, states.ACTIVE):
                seen = node.provision_state
                service.report_progress(self.instance, step, seen)
            return until(node)

        how: dict[str, Any] = {"what": what, "instance": self.instance.uuid}
        if abortable:
            how["abort"] = lambda: service.abort_reason(self.instance)
        patience: dict[str, Any] = {"patience": PATIENCE} if abortable else {}
        uuid, wait = self.uuid, self._site.watcher.wait
        with service.metrics.waiting(kind):
            try:
                return wait(uuid, look, timeout=timeout, state=state, **how, **patience)
            except exceptions.WaitTimeout as exc:
                try:
                    grace = max(timeout, LEAST_PATIENCE)
                    (node,) = wait(uuid, lambda node: (node,), timeout=grace, **how)
                except exceptions.WaitTimeout as silence:
                    exc.add_note(f"Can't ask Ironic what has become of it: {silence.last_seen}")
                    raise exc from silence
                if (result := (late or look)(node)) is None:
                    raise
                return result

    def note(self, node: Node) -> None:
        """Take the node over as a wait has shown it, and let the inventory know of it."""
        self.node = self._site.nodes.note_seen(node, self.uuid) or node
