# SPDX-License-Identifier: Apache-2.0

"""Having Ironic reserve a node for an instance, and giving that up again.

In rounds: candidates from the inventory, an allocation with the instance's uuid, a
wait until Ironic has decided, a look at the node that it gave, and the guard.  A
round that fails gives its allocation up, and the next one asks for other nodes.

Level-triggered: what a former call or a former process has left is taken up.  A node
that carries the instance is the instance's; an allocation that is there already is
waited for, or given up if it failed.  A failure leaves no allocation behind; if one can't be
given up now, the error names it, and destroying the instance gives it up.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Collection, Mapping
from typing import Any

from oslo_log import log as logging

from ironic_virt import exceptions
from ironic_virt.baremetal.allocations import ACTIVE, ALLOCATING, Allocation
from ironic_virt.baremetal.node import Node
from ironic_virt.conf import ironic as ironic_conf
from ironic_virt.driver import resources
from ironic_virt.driver.groups import Groups
from ironic_virt.driver.held import Held, undo_after
from ironic_virt.driver.pools import allocation_extra, candidates
from ironic_virt.driver.pools.candidates import Choice
from ironic_virt.driver.pools.names import pool_name
from ironic_virt.driver.pools.records import PoolRecords
from ironic_virt.driver.site import Site
from ironic_virt.request.spec import RequestSpec, placement_class, traits_of_nodes
from ironic_virt.virt import ImageLike, InstanceLike

LOG = logging.getLogger(__name__)

MOST_ROUNDS = 5
"""So many times candidates are chosen for one instance, before another service may try."""

MOST_CANDIDATES = 20
"""So many nodes at most Ironic may choose from in one round."""

_LOCKED = "could not reserve any of"
"""Of Ironic 39.0.0's message when all candidates were locked."""

_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 0.5
_GROWTH = 1.5


@dataclasses.dataclass(eq=False)
class Reservation:
    """Reserves nodes by allocation.  Thread-safe: it keeps nothing between calls.

    :ivar _pools: says which nodes this service may take.
    """

    _site: Site
    _pools: PoolRecords
    _groups: Groups
    _rng: random.Random = dataclasses.field(default_factory=random.Random)

    # -- reserve --------------------------------------------------------------

    def reserve(self, instance: InstanceLike, image: ImageLike | None) -> Node:
        """Have a node reserved for the instance, which has none.

        :param image: may require traits, too.
        :returns: the node as it is with the reservation.
        :raises ReservationFailed: no node could be reserved.
        :raises BuildAborted: the instance is not wanted any more; none is reserved.
        """
        spec = self._asked_of_nodes(instance, image)
        notes = allocation_extra.make_notes(instance, image, self._site.service.host)
        rounds: list[str] = []
        while True:
            choice = self._choose(instance, spec, fresh=bool(rounds))
            if not choice.nodes or len(rounds) == MOST_ROUNDS:
                raise self._none(instance, choice, rounds)
            self._site.service.report_progress(instance, "reserving")
            outcome = self._round(instance, spec, choice, notes)
            if isinstance(outcome, Node):
                self._site.nodes.note(outcome)
                LOG.info(
                    "Node %s is reserved for instance %s, one of %d candidates out of %d",
                    *(outcome.uuid, instance.uuid, len(choice.nodes), choice.fitting),
                )
                return outcome
            why, useless = outcome
            LOG.info("Instance %s got no node in this round: %s", instance.uuid, why)
            rounds.append(f"{len(choice.nodes)} of {choice.fitting} candidates, {why}")
            spec = spec.without(useless)

    def _asked_of_nodes(self, instance: InstanceLike, image: ImageLike | None) -> RequestSpec:
        """The request, without what Nova adds to the pool that its scheduler has chosen.

        That is its own traits, as far as no node has them, and further resource classes.
        """
        tried = self._site.service.tried_nodes(instance)
        spec = RequestSpec.from_flavor(instance.flavor, image=image, exclude_nodes=tried)
        name = placement_class(self._pools.pool(instance.node or "").resource_class)
        # Any node may have them: the pool may not have been counted yet.
        kinds = {node.traits for node in self._site.nodes.snapshot().nodes.values()}
        others = spec.resource_classes.keys() - {name} if name in spec.resources else ()
        return dataclasses.replace(
            spec,
            resources={key: spec.resources[key] for key in spec.resources if key not in others},
            required_traits=traits_of_nodes(spec.required_traits, frozenset().union(*kinds)),
        )

    def _choose(self, instance: InstanceLike, spec: RequestSpec, *, fresh: bool) -> Choice:
        """Candidates in the failure domains that suit best.

        If there are none, or were none before, they are from a fresh list.
        """
        snapshot = self._site.nodes.snapshot(refresh=fresh)
        allowed = self._pools.allowed(snapshot)
        levels, about = self._groups.preferences(instance, snapshot, allowed)
        for uuids in levels or [()]:
            choice = candidates.choose_nodes(
                snapshot.free,
                spec,
                match=self._site.conf.ironic.match,
                most=MOST_CANDIDATES,
                rng=self._rng,
                # The pool that was chosen, where that makes no difference otherwise.
                prefer=lambda kind: (
                    instance.node == pool_name(self._site.service.host, (kind[0] or "", kind[1]))
                ),
                allowed=uuids,
            )
            if choice.nodes:
                break
        if not (choice.nodes or fresh):
            return self._choose(instance, spec, fresh=True)
        return dataclasses.replace(choice, about=about)

    def _none(
        self, instance: InstanceLike, choice: Choice, rounds: list[str]
    ) -> exceptions.ReservationFailed:
        if choice.nodes:
            reason = f"Ironic reserved none of {choice.fitting} candidates in {len(rounds)} rounds"
        else:
            reason = f"there is no node that would do ({choice.reason})"
        if choice.about is not None:
            # First: Nova cuts reasons off at 255 characters.
            reason = f"{choice.about}: {reason}"
        return exceptions.ReservationFailed(
            instance.uuid, reason, candidates=choice.fitting, rounds=rounds
        )

    # -- one round ------------------------------------------------------------

    def _round(
        self,
        instance: InstanceLike,
        spec: RequestSpec,
        choice: Choice,
        notes: Mapping[str, Any],
    ) -> Node | tuple[str, Collection[str]]:
        """The node that is reserved, or why there is none and what not to ask for again."""
        uuids = [node.uuid for node in choice.nodes]
        try:
            allocation = self._site.client.allocations.create(
                instance.uuid,
                resource_class=choice.nodes[0].resource_class or "",
                candidate_nodes=uuids,
                traits=spec.required_traits,
                extra=notes,
            )
            allocation = self._decided(instance, allocation)
            if allocation.state == ACTIVE and allocation.node_uuid:
                return self._taken(instance, allocation.node_uuid)
            self._give_up(instance)
            if allocation.state == ALLOCATING:
                timeout = self._site.conf.ironic.allocation_timeout
                why = f"Ironic had not chosen after {timeout} s ([ironic] allocation_timeout)"
                return why, ()
            why = f"Ironic: {allocation.last_error or f'state {allocation.state!r}'}"
            # What a former call asked for says nothing of these candidates, nor do locks.
            formers = set(allocation.candidate_nodes or uuids) != set(uuids)
            return why, () if formers or _LOCKED in why else uuids
        except exceptions.WaitCancelled:
            raise
        except Exception as exc:
            undo_after(exc, instance, lambda: self._give_up(instance), "Giving the reservation up")
            if not isinstance(exc, exceptions.BadRequest):
                raise
            # A candidate that was deleted, say; a list that is fresh lacks it.
            return exc.message, ()

    def _taken(self, instance: InstanceLike, uuid: str) -> Node | tuple[str, Collection[str]]:
        """Look at the node that Ironic has reserved, and at the others of its group."""
        useless = [uuid]
        try:
            node = self._site.nodes.read(uuid, instance.uuid)
            self._site.nodes.check_carries(node, instance.uuid)
            reason = resources.why_not_deployable(node)
        except (exceptions.NodeNotAvailable, exceptions.NodeNotOurs) as exc:
            reason = exc.reason
        if reason is None:
            reason, useless = self._groups.why_not(instance, node), []
        if reason is None:
            return node
        self._give_up(instance)
        if not useless:
            # Another service was as quick; without the pause they would meet again.
            self._site.pause(self._rng.uniform(0, _LONGEST_PAUSE))
        return f"Ironic reserved node {uuid}, but {reason}", useless

    def _decided(self, instance: InstanceLike, allocation: Allocation) -> Allocation:
        """The allocation when Ironic has decided, or as it is at the deadline."""
        deadline = self._site.clock() + self._site.conf.ironic.allocation_timeout
        pause = _FIRST_PAUSE
        while allocation.state == ALLOCATING:
            if reason := self._site.service.abort_reason(instance):
                raise exceptions.BuildAborted(None, instance.uuid, reason)
            remaining = deadline - self._site.clock()
            if remaining <= 0:
                break
            # Many that wait should not ask all at the same time.
            if self._site.pause(min(pause, remaining) * self._rng.uniform(0.8, 1)):
                raise exceptions.WaitCancelled(
                    None,
                    instance.uuid,
                    "waiting for Ironic to choose was given up: the service stops",
                )
            pause = min(pause * _GROWTH, max(ironic_conf.retry_interval(self._site.conf), pause))
            current = self._site.client.allocations.get(instance.uuid)
            if current is None:
                raise exceptions.ReservationFailed(
                    instance.uuid,
                    "the server's allocation was deleted before it had a node",
                    candidates=len(allocation.candidate_nodes or ()),
                )
            allocation = current
        return allocation

    # -- give up --------------------------------------------------------------

    def release(self, instance: InstanceLike) -> bool:
        """Delete the instance's allocation, in any state.

        :returns: ``False`` if the node that it has is in use: that has to be torn
            down, and the allocation goes with it.
        """
        if not (self._site.by_ironic or self._pools.is_pool(instance.node or "")):
            # It was never put into a pool.
            return True
        allocations = self._site.client.allocations
        try:
            # If this came late, the next node of the same instance would lose it, in rescue.
            if allocations.get(instance.uuid) and allocations.delete(instance.uuid):
                LOG.info("The allocation of instance %s is given up", instance.uuid)
        except exceptions.Conflict as exc:
            if isinstance(exc, exceptions.NodeLocked):
                raise
            return False
        return True

    def _take_off_traits(self, instance: InstanceLike) -> None:
        """Take off what Ironic has written to a node with a reservation, and leaves there.

        Before the reservation is given up: after that the node may be another's.
        """
        try:
            held = Held.of(self._site, instance)
            if "traits" in (held.node.instance_info or {}):
                # Without the key of a claim, which would stay there, too.
                patch = [
                    {"op": "add", "path": "/instance_uuid", "value": instance.uuid},
                    {"op": "remove", "path": "/instance_info/traits"},
                ]
                held.client.patch_node(held.uuid, patch)
        except exceptions.InstanceNotFound:
            return
        except (exceptions.NodeError, exceptions.IronicError) as exc:
            LOG.warning(
                "[node-keeps-data] The node that was reserved for instance %s keeps the traits "
                "of that in its instance_info: %s",
                *(instance.uuid, exc),
            )

    def _give_up(self, instance: InstanceLike) -> None:
        self._take_off_traits(instance)
        if not self.release(instance):
            raise exceptions.TearDownFailed(
                None,
                instance.uuid,
                "the node that Ironic reserved for the server is in use, so the reservation "
                "can't be given up; deleting the server tears the node down",
            )
