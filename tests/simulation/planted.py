# SPDX-License-Identifier: Apache-2.0

"""Faults of the kind that was really found, put back one by one: the simulation finds each.

A fault is a patch of a few lines.  :func:`table` says after how many seeds each was found.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any
from unittest import mock

import msgspec

from ironic_virt import exceptions
from ironic_virt.baremetal import client as clients
from ironic_virt.baremetal.allocations import Allocations
from ironic_virt.baremetal.client import IronicClient
from ironic_virt.baremetal.http.sender import Sender
from ironic_virt.baremetal.inventory.cache import Inventory
from ironic_virt.baremetal.node_lists import NodeLists
from ironic_virt.baremetal.waiting.circuit_breaker import CircuitBreaker
from ironic_virt.compute import actions
from ironic_virt.compute.states import VmState
from ironic_virt.driver import instances, resources
from ironic_virt.driver.compute_nodes import ComputeNodes
from ironic_virt.driver.deploy import instance_info, rebuild_info
from ironic_virt.driver.deploy.spawn import Spawn
from ironic_virt.driver.deploy.teardown import TearDown
from ironic_virt.driver.network import Network
from ironic_virt.driver.power import Power
from ironic_virt.sharding.ownership import Ownership
from ironic_virt.sharding.selector import TargetSet
from tests.simulation.world import simulate

Patch = Callable[[contextlib.ExitStack], None]


@dataclasses.dataclass(frozen=True)
class Planted:
    """A fault.

    :ivar what: what the product does wrong with it.
    """

    name: str
    what: str
    plant: Patch


FAULTS: list[Planted] = []


def _fault(what: str) -> Callable[[Patch], Patch]:
    def add(plant: Patch) -> Patch:
        FAULTS.append(Planted(plant.__name__.strip("_").replace("_", " "), what, plant))
        return plant

    return add


def _instead(stack: contextlib.ExitStack, owner: Any, name: str, new: Any) -> None:
    stack.enter_context(mock.patch.object(owner, name, new))


def _caught(function: Callable[..., Any], error: type[Exception], result: Any) -> Any:
    """The function, with an error taken as a result."""

    @functools.wraps(function)
    def wrapped(*args: Any, **more: Any) -> Any:
        try:
            return function(*args, **more)
        except error:
            return result() if callable(result) else result

    return wrapped


def _nothing(*_: Any, **__: Any) -> None:
    return None


# -- whose node it is ---------------------------------------------------------


@_fault("the guard does not look at the shard and the group")
def _foreign_shard(stack: contextlib.ExitStack) -> None:
    _instead(stack, TargetSet, "why_outside", _nothing)


@_fault("the guard does not look which instance the node has")
def _foreign_instance(stack: contextlib.ExitStack) -> None:
    check = Ownership.check

    def of_place_only(self: Ownership, node: Any, *, instance: str, carries: str | None) -> None:
        check(self, node, instance=instance, carries=node.instance_uuid)

    _instead(stack, Ownership, "check", of_place_only)


@_fault("nodes whose record another host has are reported, too")
def _foreign_record(stack: contextlib.ExitStack) -> None:
    _instead(stack, Ownership, "_owners", lambda self, nodes: ({}, {}))


@_fault("Ironic is given all nodes of the class as candidates")
def _foreign_candidates(stack: contextlib.ExitStack) -> None:
    create = Allocations.create

    def with_all(self: Allocations, uuid: str, **more: Any) -> Any:
        listed = IronicClient(self._sender._channel, self._sender._retry).list_nodes()
        free = [one.uuid for one in listed if one.instance_uuid is None]
        return create(self, uuid, **{**more, "candidate_nodes": free or more["candidate_nodes"]})

    _instead(stack, Allocations, "create", with_all)


# -- silence is not an answer -------------------------------------------------


@_fault("an instance about which Ironic can't be asked is taken as being nowhere")
def _silence_is_absence(stack: contextlib.ExitStack) -> None:
    asked = IronicClient.node_of_instance
    caught = _caught(asked, exceptions.IronicError, None)
    _instead(stack, IronicClient, "node_of_instance", caught)


@_fault("a list that fails is taken as an empty one")
def _silence_is_no_nodes(stack: contextlib.ExitStack) -> None:
    caught = _caught(NodeLists.listed, exceptions.IronicError, lambda: ([], 0))
    _instead(stack, NodeLists, "listed", caught)


@_fault("a node about which Ironic can't be asked is taken as deleted")
def _silence_is_deleted(stack: contextlib.ExitStack) -> None:
    def is_deleted(self: ComputeNodes, name: str) -> bool:
        try:
            self._site.client.get_node(name)
        except exceptions.IronicError:
            return True
        return False

    _instead(stack, ComputeNodes, "is_deleted", is_deleted)


@_fault("a power state that can't be read means that the instance is gone")
def _silence_is_gone(stack: contextlib.ExitStack) -> None:
    info = instances.Instances.info

    def asked(self: instances.Instances, instance: Any, *, use_cache: bool) -> Any:
        try:
            return info(self, instance, use_cache=False)
        except exceptions.IronicError as exc:
            raise exceptions.InstanceNotFound(instance.uuid) from exc

    _instead(stack, instances.Instances, "info", asked)


@_fault("a field that an answer lacks is read as null")
def _missing_is_null(stack: contextlib.ExitStack) -> None:
    def readable(node: Any, answer: Any, path: str, method: str = "GET") -> Any:
        return msgspec.structs.replace(node, malformed=(), unasked=answer.unasked)

    _instead(stack, clients, "_readable", readable)


@_fault("after an outage Ironic counts as down for ever")
def _down_for_ever(stack: contextlib.ExitStack) -> None:
    failed = CircuitBreaker.failed

    def holds(self: CircuitBreaker, *args: Any) -> bool:
        held = failed(self, *args)
        if held:
            self.held_until = math.inf
        return held

    _instead(stack, CircuitBreaker, "failed", holds)


# -- what is free -------------------------------------------------------------


@_fault("any provision state counts as free")
def _any_state_is_free(stack: contextlib.ExitStack) -> None:
    def why_not(node: Any) -> str | None:
        return resources.why_in_maintenance(node)

    _instead(stack, resources, "why_not_deployable", why_not)


@_fault("a node in maintenance counts as free")
def _maintenance_is_free(stack: contextlib.ExitStack) -> None:
    _instead(stack, resources, "why_in_maintenance", _nothing)


# -- what is left behind ------------------------------------------------------


@_fault("a build that failed is not undone")
def _no_undo(stack: contextlib.ExitStack) -> None:
    _instead(stack, Spawn, "undo", _nothing)
    _instead(stack, Spawn, "_undo_after", _nothing)


@_fault("VIFs stay on a node that is released")
def _vifs_stay(stack: contextlib.ExitStack) -> None:
    _instead(stack, Network, "detach_all", _nothing)


@_fault("instance_info stays on a node that is released")
def _info_stays(stack: contextlib.ExitStack) -> None:
    _instead(stack, instance_info, "release", lambda info: [])


@_fault("an allocation gets a uuid of its own, and not the instance's")
def _another_reservation(stack: contextlib.ExitStack) -> None:
    create = Allocations.create

    def another(self: Allocations, uuid: str, **more: Any) -> Any:
        return create(self, f"{uuid[:-4]}0000", **more)

    _instead(stack, Allocations, "create", another)


# -- done before it is done ---------------------------------------------------


@_fault("a locked node (409) counts as torn down")
def _locked_is_done(stack: contextlib.ExitStack) -> None:
    caught = _caught(TearDown.tear_down, exceptions.NodeLocked, None)
    # Without another try: those hide it.
    _instead(stack, Sender, "change", _once)
    _instead(stack, TearDown, "tear_down", caught)


def _once(self: Sender, method: str, path: str, **more: Any) -> Any:
    kept = ("needs", "optional", "json", "node")
    given = {name: more[name] for name in kept if name in more}
    return more["result"](self.once(method, path, **given))


@_fault("the end of a tear down is not waited for")
def _no_wait_for_tear_down(stack: contextlib.ExitStack) -> None:
    from ironic_virt.driver.deploy import teardown

    _instead(stack, TearDown, "_wait", lambda *_: teardown._Left(None))


@_fault("the end of a power change is not waited for")
def _no_wait_for_power(stack: contextlib.ExitStack) -> None:
    _instead(stack, Power, "_settled", lambda self, change, *_: change.node)


@_fault("a rebuild is asked for again by the next process")
def _rebuilt_twice(stack: contextlib.ExitStack) -> None:
    _instead(stack, rebuild_info, "is_marked", lambda node, wish: False)


@_fault("a rescue that a dead process began, and that is then refused, counts as not begun")
def _rescue_untouched(stack: contextlib.ExitStack) -> None:
    def as_recorded(task: Any) -> bool:
        return task.vm_state is not VmState.RESCUED

    _instead(stack, actions, "_is_deployed", as_recorded)


# -- threads ------------------------------------------------------------------


@_fault("the nodes are listed under the inventory's lock")
def _list_under_lock(stack: contextlib.ExitStack) -> None:
    run = Inventory._run

    def locked(self: Inventory, refresh: Any) -> Any:
        listing = self._list_nodes

        def under_lock() -> Any:
            with self._lock:
                return listing()

        with mock.patch.object(self, "_list_nodes", under_lock):
            return run(self, refresh)

    _instead(stack, Inventory, "_run", locked)


def found_at(planted: Planted, seeds: int) -> tuple[int, str] | None:
    """How many seeds it takes to find a fault, and what is found; ``None``: more."""
    with contextlib.ExitStack() as stack:
        planted.plant(stack)
        for seed in range(seeds):
            outcome = simulate(seed)
            if outcome.findings:
                return seed + 1, outcome.findings[0]
    return None


def table(seeds: int) -> int:
    """Print what finds which fault, as a table of reStructuredText.

    :returns: how many were not found.
    """
    missed = 0
    print(".. SPDX-License-Identifier: Apache-2.0\n")
    print(".. list-table::\n   :header-rows: 1\n   :widths: 60 12 28\n")
    print("   * - What the product does wrong\n     - Seeds\n     - Law that it breaks")
    for planted in FAULTS:
        found = found_at(planted, seeds)
        missed += found is None
        count, law = ("more", "none") if found is None else (str(found[0]), found[1].split(":")[0])
        print(f"   * - {planted.what}\n     - {count}\n     - {law}", flush=True)
    print(f"\n{len(FAULTS) - missed} of {len(FAULTS)} planted faults found within {seeds} seeds")
    return missed
