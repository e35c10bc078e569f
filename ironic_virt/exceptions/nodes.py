# SPDX-License-Identifier: Apache-2.0

"""Errors about nodes: not found, not available, not ours, or a wait timed out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ironic_virt.exceptions.general import IronicVirtError


class InstanceNotFound(IronicVirtError):
    """No node in Ironic carries this instance."""

    def __init__(self, instance: str) -> None:
        self.instance = instance
        super().__init__(f"Ironic has no node with server {instance}")


class NodeError(IronicVirtError):
    """An action on a node did not happen or did not succeed.

    :param node: the node's uuid.
    :param instance: the instance's uuid.
    :param reason: what happened, in one sentence.
    :param request_id: Ironic's request id, where a request led to this.
    :param last_error: Ironic's own ``last_error``, where it tried and failed.

    :cvar retriable: another node may do better: a scheduler should try again.
        ``False`` means that every node would give the same answer.
    """

    retriable = True

    def __init__(
        self,
        node: str | None,
        instance: str | None,
        reason: str,
        *,
        request_id: str | None = None,
        last_error: str | None = None,
    ) -> None:
        self.node = node
        self.instance = instance
        self.reason = reason
        self.request_id = request_id
        self.last_error = last_error
        who = f"Node {node}" if node else "No node"
        whose = f", server {instance}" if instance else ""
        super().__init__(f"{who}{whose}: {reason}")


class NodeNotGiven(NodeError):
    """The caller named no node for the instance."""

    retriable = False


class NodeNotAvailable(NodeError):
    """The node can't take a new instance now; nothing was changed."""


class NodeTaken(NodeNotAvailable):
    """The node carries another instance's uuid; that is never touched.

    :ivar owner: the uuid of the instance that has the node.
    """

    def __init__(
        self, node: str, instance: str | None, owner: str, reason: str | None = None
    ) -> None:
        self.owner = owner
        super().__init__(
            node, instance, reason or f"the node belongs to server {owner}; it was left alone"
        )


class ReservationFailed(NodeError):
    """Ironic could not be brought to reserve a node; none is left reserved.

    :ivar candidates: how many nodes would have done, in the last round.
    :ivar rounds: why each round failed, in words.
    """

    def __init__(
        self, instance: str, reason: str, *, candidates: int, rounds: Iterable[str] = ()
    ) -> None:
        self.candidates = candidates
        self.rounds = tuple(rounds)
        tried = "".join(
            f"; round {number}: {why}" for number, why in enumerate(self.rounds, start=1)
        )
        super().__init__(None, instance, f"{reason}{tried}")


class NodeNotOurs(NodeError):
    """The node is outside this service's conductor group or shard."""


class NodeValidationFailed(NodeError):
    """Ironic's validation of the node failed.

    :ivar reasons: interface name to Ironic's reason, the failed ones only.
    """

    def __init__(self, node: str, instance: str | None, reasons: Mapping[str, str]) -> None:
        self.reasons = dict(reasons)
        listed = "; ".join(f"{name}: {why}" for name, why in sorted(self.reasons.items()))
        super().__init__(node, instance, f"Ironic's validation of the node failed ({listed})")


class BuildAborted(NodeError):
    """The build is not wanted any more, says the compute service."""

    retriable = False


class WaitTimeout(NodeError):
    """A wait reached its deadline.

    :ivar seconds: how long was waited.
    :ivar last_seen: provision state, target and power state when last seen.
    """

    def __init__(
        self, node: str, instance: str | None, what: str, seconds: float, last_seen: str
    ) -> None:
        self.what = what
        self.seconds = seconds
        self.last_seen = last_seen
        super().__init__(
            node, instance, f"timed out after {seconds:.0f} s waiting to {what}; {last_seen}"
        )


class WaitCancelled(NodeError):
    """A wait was ended before its end, because the service stops."""

    retriable = False
