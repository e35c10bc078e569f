# SPDX-License-Identifier: Apache-2.0

"""The nodes that a service serves, as of the last list: synchronized, never guessed.

A refresh lists all of them, or asks for what changed since the last one; only an
answer that came whole is taken.  After one that failed, even on its last page,
every node is still there and the snapshot says that it is stale, and why.

Any thread may call anything.  Reading :attr:`Inventory.snapshot` takes no lock:
snapshots are immutable and replaced as a whole.  One lock guards their
replacement; it is never held while Ironic is asked.

What changes a node in Ironic is not here, nor what is asked for: the functions
given to :class:`Inventory` know that (:mod:`ironic_virt.baremetal.inventory.resync`).
"""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable, Mapping, Sequence

import msgspec
from oslo_log import log as logging

from ironic_virt import exceptions
from ironic_virt.baremetal.inventory.comparison import Changes
from ironic_virt.baremetal.inventory.snapshot import Snapshot
from ironic_virt.baremetal.node import Node, with_former
from ironic_virt.logs import OutageTimer

LOG = logging.getLogger(__name__)


PATIENCE = 600.0
"""Seconds that a refresh waits for one that is under way."""


class _Refresh:
    """A list that is under way, and what became known of nodes meanwhile."""

    def __init__(self, began: float) -> None:
        self.began = began
        self.changes: dict[str, Node | None] = {}
        self.ended = threading.Event()
        self.result: Snapshot | None = None
        self.error: Exception | None = None


class Inventory:
    """Keeps the snapshot.

    :param list_nodes: asks Ironic for all nodes, and raises if any part of the list is missing.
    :param changes: given the nodes as known, asks for what changed since the
        last answer; ``None`` says that all have to be listed.
    :param clock: a monotonic clock in seconds.
    :param patience: seconds that a refresh waits for one that is under way.
    :param observe: called after each refresh with the seconds that it took, and whether it
        worked.
    """

    def __init__(
        self,
        list_nodes: Callable[[], Sequence[Node]],
        *,
        changes: Callable[[Mapping[str, Node]], Changes | None] = lambda known: None,
        clock: Callable[[], float] = time.monotonic,
        patience: float = PATIENCE,
        observe: Callable[[float, bool], None] = lambda _seconds, _worked: None,
    ) -> None:
        self._patience = patience
        self._observe = observe
        self._list_nodes = list_nodes
        self._changes = changes
        self._clock = clock
        self._lock = threading.Lock()
        self._under_way: _Refresh | None = None
        self._outage = OutageTimer(clock=clock)
        self._snapshot = Snapshot.of((), stale=True, error="nodes have not been listed yet")

    @property
    def snapshot(self) -> Snapshot:
        """The nodes as last known.  Takes no lock."""
        return self._snapshot

    def refresh(self) -> Snapshot:
        """Bring the nodes up to date.

        One refresh runs at a time: a caller that comes meanwhile waits for it and shares
        its result or its error.

        :raises IronicError: the list failed; the former nodes are kept and the
            snapshot is marked stale.  Or the one under way has not ended in time;
            nothing is changed then.
        """
        with self._lock:
            refresh = self._under_way
            leads = refresh is None
            if refresh is None:
                refresh = self._under_way = _Refresh(self._clock())
        if leads:
            return self._run(refresh)
        if not refresh.ended.wait(self._patience):
            raise exceptions.IronicError(
                f"the current listing of nodes has not ended within {self._patience:.0f} s"
            )
        if refresh.result is not None:
            return refresh.result
        if refresh.error is None:
            raise exceptions.IronicError("the listing of nodes was interrupted")
        raise exceptions.copy_of(refresh.error)

    def put(self, node: Node) -> None:
        """Take a node as just read or changed, without a list.

        A list that began earlier doesn't undo it.  A node that the list lacks
        is not added: it isn't this service's.

        :param node: as :meth:`IronicClient.get_node` gives it, whole.
        """
        # One node's parameters can be as large as a thousand listed nodes.
        listed = msgspec.structs.replace(node, instance_info=None, provision_updated_at=None)
        self._change(node.uuid, listed)

    def discard(self, uuid: str) -> None:
        """Take note that Ironic has confirmed a node to be gone.

        A list that began earlier doesn't bring it back.
        """
        self._change(uuid, None)

    def _change(self, uuid: str, node: Node | None) -> None:
        with self._lock:
            if uuid in self._snapshot:
                self._snapshot = self._snapshot.changed({uuid: node})
            # Lists don't overlap, so only the one under way began earlier.
            if self._under_way is not None:
                self._under_way.changes[uuid] = node

    def _run(self, refresh: _Refresh) -> Snapshot:
        try:
            snapshot = self._snapshot
            changes = None if snapshot.taken_at is None else self._changes(snapshot.nodes)
            nodes = self._list_nodes() if changes is None else None
            refresh.result = self._succeed(refresh, changes, nodes)
            return refresh.result
        except Exception as exc:
            refresh.error = exceptions.copy_of(exc)
            self._fail(exc)
            raise
        finally:
            with self._lock:
                self._under_way = None
            refresh.ended.set()
            self._observe(self._clock() - refresh.began, refresh.result is not None)

    def _succeed(
        self, refresh: _Refresh, found: Changes | None, nodes: Sequence[Node] | None
    ) -> Snapshot:
        with self._lock:
            if found is not None:
                snapshot = self._merged(refresh, found)
            else:
                listed = _listed(refresh, nodes or ())
                snapshot = Snapshot.of(_kept(self._snapshot, listed), refresh.began)
            self._snapshot = snapshot
        how = "listed" if found is None else "brought up to date"
        LOG.debug("%d nodes %s in %.3f s", len(snapshot), how, self._clock() - refresh.began)
        failed_for = self._outage.worked()
        if failed_for is not None:
            LOG.info(
                "The nodes could be listed again after %.0f s: %d nodes", failed_for, len(snapshot)
            )
        return snapshot

    def _merged(self, refresh: _Refresh, found: Changes) -> Snapshot:
        """The snapshot with what was found to have changed; the lock is held."""
        snapshot = self._snapshot
        # What became known of a node since the refresh began is newer.
        read = {uuid: with_former(node, snapshot.get(uuid)) for uuid, node in found.nodes.items()}
        latest = {uuid: refresh.changes.get(uuid, node) for uuid, node in read.items()}
        updates = {uuid: node for uuid, node in latest.items() if snapshot.get(uuid) != node}
        # A node that a sweep lacks isn't ours, even if it was read meanwhile.
        updates.update((uuid, None) for uuid in found.gone)
        fresh = snapshot.changed(updates) if updates else snapshot
        return dataclasses.replace(fresh, taken_at=refresh.began, stale=False, error=None)

    def _fail(self, error: Exception) -> None:
        with self._lock:
            snapshot = self._snapshot
            self._snapshot = dataclasses.replace(snapshot, stale=True, error=str(error))
        failed_for = self._outage.failed()
        if failed_for is None:
            LOG.debug("The nodes could still not be listed: %s", error)
            return
        # Only an operator can fix that.
        refused = isinstance(error, exceptions.IronicUnauthorized)
        level = logging.ERROR if refused else logging.WARNING
        lasts = f" for {failed_for:.0f} s now" if failed_for else ""
        if snapshot.taken_at is None:
            LOG.log(
                level,
                "[nodes-not-listed] The nodes could not be listed%s; none is known yet: %s",
                lasts,
                error,
            )
        else:
            LOG.log(
                level,
                "[nodes-not-listed] The nodes could not be listed%s; the %d nodes of %.0f s ago "
                "stay in force: %s",
                lasts,
                len(snapshot),
                self._clock() - snapshot.taken_at,
                error,
            )


def _kept(former: Snapshot, listed: Mapping[str, Node]) -> list[Node]:
    """The nodes of a list, those that are as before by the very objects of before."""
    return [_as_before(former.get(uuid), node) for uuid, node in listed.items()]


def _as_before(old: Node | None, node: Node) -> Node:
    if old is None or old == node:
        return old or node
    current = with_former(node, old) if node.malformed else node
    return old if old == current else current


def _listed(refresh: _Refresh, nodes: Sequence[Node]) -> dict[str, Node]:
    """The nodes of a list, each as it was last known."""
    listed = {node.uuid: node for node in nodes}
    for uuid, node in refresh.changes.items():
        if node is None:
            listed.pop(uuid, None)
        elif uuid in listed:
            listed[uuid] = node
    return listed
