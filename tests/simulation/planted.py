# SPDX-License-Identifier: Apache-2.0

"""Faults of the kind that was really found, put back one by one: the simulation finds each.

A fault is a patch of a few lines.  :func:`table` says after how many seeds each was found.
"""

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
from ironic_virt.baremetal.http.requests import Call, Sender
from ironic_virt.baremetal.inventory.cache import Inventory
from ironic_virt.baremetal.node_lists import NodeLists
from ironic_virt.baremetal.waiting.circuit_breaker import CircuitBreaker
from ironic_virt.compute import actions
from ironic_virt.compute.states import VmState
from ironic_virt.driver import (
    IronicDriver,
    claim,
    held,
    instances,
    power,
    protection,
    resources,
    volumes,
)
from ironic_virt.driver.compute_nodes import ComputeNodes
from ironic_virt.driver.deploy import config_drive, instance_info, rebuild_info
from ironic_virt.driver.deploy.completion import Completion
from ironic_virt.driver.deploy.teardown import TearDown
from ironic_virt.driver.hooks import Calls, Hooks
from ironic_virt.driver.left_volumes import LeftVolumes
from ironic_virt.driver.network import Network
from ironic_virt.nova import settled
from ironic_virt.sharding.ownership import Ownership
from ironic_virt.sharding.selector import TargetSet
from ironic_virt.standby import Lease
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


def _fault(what: str, owner: Any = None, name: str = "") -> Callable[[Any], Any]:
    """Add a fault: a function that takes another one's place, or one that plants several."""

    def add(function: Any) -> Any:
        def plant(stack: contextlib.ExitStack) -> None:
            _instead(stack, owner, name, function)

        called = function.__name__.strip("_").replace("_", " ")
        FAULTS.append(Planted(called, what, function if owner is None else plant))
        return function

    return add


def _instead(stack: contextlib.ExitStack, owner: Any, name: str, new: Any) -> None:
    stack.enter_context(mock.patch.object(owner, name, new))


def _returns(what: str, owner: Any, name: str, result: Any) -> None:
    """Add a fault that has a function's name: it always returns the same."""
    called = name.strip("_").replace("_", " ")

    def same(*_: Any, **__: Any) -> Any:
        return result

    FAULTS.append(Planted(called, what, lambda stack: _instead(stack, owner, name, same)))


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


# As they are without a fault.
_check = Ownership.check
_call = Calls._call
_create = Allocations.create
_failed = CircuitBreaker.failed
_info = instances.Instances.get_info
_run = Inventory._run
_take_up = Completion.take_up

# -- whose node it is ---------------------------------------------------------

_returns("the guard does not look at the shard and the group", TargetSet, "why_outside", None)


@_fault("the guard does not look which instance the node has", Ownership, "check")
def _foreign_instance(self: Ownership, node: Any, *, instance: str, carries: str | None) -> None:
    _check(self, node, instance=instance, carries=node.instance_uuid)


_returns("nodes whose record another host has are reported, too", Ownership, "_owners", ({}, {}))


@_fault("Ironic is given all nodes of the class as candidates", Allocations, "create")
def _foreign_candidates(self: Allocations, uuid: str, **more: Any) -> Any:
    listed = IronicClient(self._sender._channel, self._sender._retry).list_nodes()
    free = [one.uuid for one in listed if one.instance_uuid is None]
    return _create(self, uuid, **{**more, "candidate_nodes": free or more["candidate_nodes"]})


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


@_fault(
    "a node about which Ironic can't be asked is taken as deleted", ComputeNodes, "is_node_deleted"
)
def _silence_is_deleted(self: ComputeNodes, name: str) -> bool:
    try:
        self._site.client.get_node(name)
    except exceptions.IronicError:
        return True
    return False


@_fault(
    *("a power state that can't be read means that the instance is gone", instances.Instances),
    "get_info",
)
def _silence_is_gone(self: instances.Instances, instance: Any, use_cache: bool = True) -> Any:
    try:
        return _info(self, instance, use_cache=False)
    except exceptions.IronicError as exc:
        raise exceptions.InstanceNotFound(instance.uuid) from exc


@_fault("a field that an answer lacks is read as null", clients, "_readable")
def _missing_is_null(node: Any) -> Any:
    return msgspec.structs.replace(node, malformed=())


@_fault("after an outage Ironic counts as down for ever", CircuitBreaker, "failed")
def _down_for_ever(self: CircuitBreaker, *args: Any) -> bool:
    held = _failed(self, *args)
    if held:
        self.held_until = math.inf
    return held


# -- what is free -------------------------------------------------------------


@_fault("any provision state counts as free", resources, "why_not_deployable")
def _any_state_is_free(node: Any) -> str | None:
    return resources.why_in_maintenance(node)


_returns("a node in maintenance counts as free", resources, "why_in_maintenance", None)


# -- what is left behind ------------------------------------------------------


@_fault("a build that failed is not undone")
def _no_undo(stack: contextlib.ExitStack) -> None:
    _instead(stack, Completion, "undo_after", _nothing)
    _instead(stack, IronicDriver, "failed_spawn_cleanup", _nothing)


@_fault("VIFs stay on a node that is released", Network, "detach_all")
def _vifs_stay(*_: Any, **__: Any) -> None:
    return None


_returns("instance_info stays on a node that is released", instance_info, "release_patch", [])


@_fault("an allocation gets a uuid of its own, and not the instance's", Allocations, "create")
def _another_reservation(self: Allocations, uuid: str, **more: Any) -> Any:
    return _create(self, f"{uuid[:-4]}0000", **more)


# -- done before it is done ---------------------------------------------------


@_fault("a locked node (409) counts as torn down")
def _locked_is_done(stack: contextlib.ExitStack) -> None:
    caught = _caught(TearDown.tear_down, exceptions.NodeLocked, None)
    # Without another try: those hide it.
    _instead(stack, Sender, "change", _once)
    _instead(stack, TearDown, "tear_down", caught)


def _once(self: Sender, call: Call, applied: Any, parse: Any, **_: Any) -> Any:
    return self.single_try().read(call, parse)


_returns("the end of a tear down is not waited for", TearDown, "_wait_for_step", (True, None))


@_fault("the end of a power change is not waited for", power, "_settled")
def _no_wait_for_power(site: Any, of: held.Held, *_: Any) -> Any:
    return of.node


_returns("a rebuild is asked for again by the next process", rebuild_info, "is_marked", False)


@_fault(
    "a rescue that a dead process began, and that is then refused, counts as not begun",
    *(actions, "_is_deployed"),
)
def _rescue_untouched(task: Any) -> bool:
    return task.vm_state is not VmState.RESCUED


# -- what comes late ----------------------------------------------------------


@_fault("the config drive comes with the request to deploy, and a node that has moved is fine")
def _late_drive(stack: contextlib.ExitStack) -> None:
    _instead(stack, config_drive, "LARGEST_PATCH", 0)
    # Whether a request carries something.
    stack.enter_context(mock.patch.object(held, "any", _nothing, create=True))


@_fault("the nodes of running servers are not protected")
def _unprotected(stack: contextlib.ExitStack) -> None:
    _instead(stack, protection, "_PROTECTABLE", ())


_returns("a patch has no key that only its instance's node has", claim, "own_keys", [])


# -- volumes and hooks --------------------------------------------------------

_returns("volume targets that an instance has left on a node stay", LeftVolumes, "look", None)


@_fault("a node keeps the volumes of others when an instance gets it", volumes, "plan_targets")
def _volumes_of_others(instance: str, targets: Any, devices: Any) -> Any:
    return [], [one for one in devices if one.boot_index not in {it.boot_index for it in targets}]


@_fault("a hook that refuses or fails does not keep a node from being deployed", Calls, "_call")
def _hook_unheard(self: Calls, *args: Any) -> Any:
    return _caught(_call, exceptions.HookFailed, None)(self, *args)


@_fault("no hook is called after a deployment that another process has begun")
def _hook_uncalled(stack: contextlib.ExitStack) -> None:
    def take_up(self: Completion, of: held.Held) -> None:
        with mock.patch.object(self, "_hooks", Hooks({}, self._site.client, self._site.service)):
            _take_up(self, of)

    _instead(stack, Completion, "take_up", take_up)


# -- the lease ----------------------------------------------------------------

_returns("what is sent to Ironic does not ask how old the lease is", Lease, "may_change", 60.0)

_returns(
    "the next process acts before the former one knows that it is over", Lease, "_settling", 0.0
)

_returns("a process that has lost its lease does not end", Lease, "_lose", None)


# -- settled nodes ------------------------------------------------------------

_returns(
    *("nodes stay settled when their servers come, go or change", settled.Servers, "touched"),
    frozenset(),
)

_returns("settled nodes are not compared with Placement", settled.SettledNodes, "is_current", True)

_returns("a node's version stays when the node changes", ComputeNodes, "node_version", "the same")


# -- threads ------------------------------------------------------------------


@_fault("the nodes are listed under the inventory's lock", Inventory, "_run")
def _list_under_lock(self: Inventory, refresh: Any) -> Any:
    listing = self._list_nodes

    def under_lock() -> Any:
        with self._lock:
            return listing()

    with mock.patch.object(self, "_list_nodes", under_lock):
        return _run(self, refresh)


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
