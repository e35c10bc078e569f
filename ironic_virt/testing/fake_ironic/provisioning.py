# SPDX-License-Identifier: Apache-2.0

"""What provision verbs do to a node, and when.

A verb checks what Ironic's conductor checks, moves the node through the state
machine, locks it, and puts the end of the operation on the timeline.  With
``Settings.wait_states`` the second half is spent unlocked in a wait state.
Steps named ``hold`` leave a node in a hold state until ``unhold``, and steps
named ``wait`` leave it in a wait state.
"""

from collections.abc import Callable, Sequence
from typing import Any

from ironic_virt.testing.fake_ironic import errors, network, states
from ironic_virt.testing.fake_ironic.baremetal import Baremetal
from ironic_virt.testing.fake_ironic.records import EMPTY, Node

Steps = Sequence[dict[str, Any]]

#: Operations that real hardware waits for in a "... wait" state.
_WAITING = frozenset({"deploy", "clean", "rescue", "inspect", "service"})

#: Operation -> its history event type.
_EVENT_TYPES = {
    "deploy": "provisioning",
    "clean": "cleaning",
    "rescue": "rescue",
    "unrescue": "rescue",
    "inspect": "introspection",
    "verify": "verify",
    "adopt": "adoption",
    "service": "service",
    "undeploy": "unprovision",
}


def process_event(bm: Baremetal, node: Node, event: str, target: str | None = None) -> None:
    """Move a node along the state machine.

    :param target: the target provision state, where it differs from the usual.
    """
    before = node.provision_state
    after = states.TRANSITIONS[before][event]
    now = bm.store.timestamp()
    changes: dict[str, Any] = {
        "provision_state": after,
        "provision_updated_at": now,
        "target_provision_state": None
        if after in states.STABLE
        else target or states.TARGETS[after],
    }
    if after == states.INSPECTING:
        changes.update(inspection_started_at=now, inspection_finished_at=None)
    elif before in (states.INSPECTING, states.INSPECTWAIT):
        if after == states.MANAGEABLE:
            changes.update(inspection_started_at=None, inspection_finished_at=now)
        elif after == states.INSPECTFAIL:
            changes.update(inspection_started_at=None)
    bm.update(node, **changes)


def check_event(node: Node, event: str, action: str) -> None:
    """Refuse an event that means nothing in the node's state.

    :raises ApiError: 400.
    """
    if not states.is_possible(node.provision_state, event):
        raise errors.state_not_allowed(action, node.uuid, node.provision_state)


def _start(bm: Baremetal, node: Node, event: str, target: str | None = None) -> None:
    process_event(bm, node, event, target)
    bm.update(node, last_error=None)


def _run(
    bm: Baremetal,
    node: Node,
    operation: str,
    finish: Callable[[], None],
    steps: Steps = (),
    delay: float | None = None,
) -> None:
    """Lock the node and end ``operation`` with ``finish`` when its time has come."""
    ticket = object()
    bm.update(node, operation=ticket)
    bm.lock(node)
    failure = bm.take_failure(operation, node)
    total = bm.seconds(getattr(bm.settings.durations, operation)) if delay is None else delay
    pause = next((step["step"] for step in steps if step["step"] in ("hold", "wait")), None)
    target = node.target_provision_state

    def is_current() -> bool:
        return node.operation is ticket and bm.store.nodes.get(node.uuid) is node

    def stop(event: str) -> None:
        if is_current():
            process_event(bm, node, event, target)
            bm.unlock(node)

    def end() -> None:
        if not is_current():
            return
        if "resume" in states.TRANSITIONS[node.provision_state]:
            process_event(bm, node, "resume", target)
        bm.update(node, operation=None, reservation=None)
        if failure is not None:
            _fail(bm, node, operation, failure)
        else:
            finish()

    if pause is not None:
        bm.timeline.after(total / 2, lambda: stop(pause))
        return
    if bm.settings.wait_states and operation in _WAITING:
        bm.timeline.after(total / 2, lambda: stop("wait"))
    bm.timeline.after(total, end)


def _fail(bm: Baremetal, node: Node, operation: str, error: str) -> None:
    target = node.target_provision_state
    if operation == "undeploy":
        _wipe_instance(bm, node)
    bm.record_error(node, error, _EVENT_TYPES[operation])
    if operation == "adopt":
        bm.update(node, power_state=None)
    if operation in ("clean", "service"):
        bm.update(node, maintenance=True, fault=f"{operation} failure")
        if not node.maintenance_reason:
            bm.update(node, maintenance_reason=error)
    process_event(bm, node, "fail", target)


# Verbs


def manage(bm: Baremetal, node: Node) -> None:
    if node.provision_state != states.ENROLL:
        check_event(node, "manage", "manage")
        process_event(bm, node, "manage")
        return
    _start(bm, node, "manage")
    _run(bm, node, "verify", lambda: process_event(bm, node, "done"))


def provide(bm: Baremetal, node: Node) -> None:
    check_event(node, "provide", "provide")
    if node.retired:
        raise errors.invalid(
            f"The providing operation can't be performed on node {node.uuid} because it is"
            " retired."
        )
    _start(bm, node, "provide")
    _clean_automatically(bm, node)


def _clean_automatically(bm: Baremetal, node: Node) -> None:
    wanted = node.automated_clean
    if wanted is None:
        wanted = bm.settings.automated_clean

    def finish() -> None:
        if bm.settings.power_follows_deploy:
            bm.update(node, power_state=states.POWER_OFF)
        process_event(bm, node, "done")

    if wanted:
        _run(bm, node, "clean", finish)
    else:
        _run(bm, node, "skipped clean", finish, delay=0.0)


def clean(bm: Baremetal, node: Node, steps: Steps) -> None:
    """Manual cleaning."""
    if node.maintenance:
        raise errors.in_maintenance("cleaning", node.uuid)
    check_event(node, "clean", "manual clean")
    _start(bm, node, "clean", states.MANAGEABLE)
    _run(bm, node, "clean", lambda: process_event(bm, node, "manage"), steps)


def inspect(bm: Baremetal, node: Node) -> None:
    check_event(node, "inspect", "inspect")
    _start(bm, node, "inspect")
    _run(bm, node, "inspect", lambda: process_event(bm, node, "done"))


def adopt(bm: Baremetal, node: Node) -> None:
    check_event(node, "adopt", "adopt")
    _start(bm, node, "adopt")
    _run(bm, node, "adopt", lambda: process_event(bm, node, "done"))


def service(bm: Baremetal, node: Node, steps: Steps) -> None:
    if node.maintenance:
        raise errors.in_maintenance("service", node.uuid)
    check_event(node, "service", "service")
    _start(bm, node, "service", states.ACTIVE)
    _run(bm, node, "service", lambda: process_event(bm, node, "done"), steps)


def rescue(bm: Baremetal, node: Node, password: str) -> None:
    if node.maintenance:
        raise errors.in_maintenance("rescuing", node.uuid)
    check_event(node, "rescue", "rescue")
    secrets = {"rescue_password": password, "hashed_rescue_password": f"hash of {len(password)}"}
    bm.update(node, instance_info={**node.instance_info, **secrets})
    _start(bm, node, "rescue")
    _run(bm, node, "rescue", lambda: process_event(bm, node, "done"))


def unrescue(bm: Baremetal, node: Node) -> None:
    if node.maintenance:
        raise errors.in_maintenance("unrescuing", node.uuid)
    check_event(node, "unrescue", "unrescue")
    _start(bm, node, "unrescue")
    _run(bm, node, "unrescue", lambda: process_event(bm, node, "done"))


def deploy(bm: Baremetal, node: Node, event: str, config_drive: object, steps: Steps) -> None:
    """Deploy (``event`` "deploy") or rebuild (``event`` "rebuild") an instance."""
    if node.maintenance:
        raise errors.in_maintenance("provisioning", node.uuid)
    if event == "rebuild" and node.protected:
        raise _protected(node)
    check_event(node, event, event)
    info = dict(node.instance_info)
    image_known = _knows_image_type(info)
    if image_known and not info.get("image_type"):
        info["image_type"] = "partition" if info.get("kernel") else "whole-disk"
    if event == "rebuild" and not image_known:
        # Ironic 39.0.0 trips over itself here.
        raise errors.ApiError(
            500,
            "cannot access local variable 'auto_lessee' where it is not associated with a value",
        )
    project = info.get("project_id")
    if event == "deploy" and project and node.lessee is None:
        internal = {**node.driver_internal_info, "automatic_lessee": True}
        bm.update(node, lessee=project, driver_internal_info=internal)
    for interface in ("power", "deploy"):
        reason = why_invalid(bm, node, interface)
        if reason:
            raise errors.invalid(
                f"Failed to validate deploy or power info for node {node.uuid}: {reason}"
            )
    if config_drive:
        info["configdrive"] = config_drive
    bm.update(node, instance_info=info)
    _start(bm, node, event)

    def finish() -> None:
        if bm.settings.power_follows_deploy:
            bm.update(node, power_state=states.POWER_ON)
        process_event(bm, node, "done")

    _run(bm, node, "deploy", finish, steps)


def _knows_image_type(info: dict[str, Any]) -> bool:
    source = info.get("image_source")
    return bool(source) and (bool(info.get("image_type")) or "://" in str(source))


def why_invalid(bm: Baremetal, node: Node, interface: str) -> str | None:
    """The reason why an interface of a node does not validate, if it doesn't."""
    if reason := bm.invalid.get((node.uuid, interface)):
        return reason
    wanted = node.instance_info.get("traits")
    if interface != "deploy" or not wanted:
        return None
    if not isinstance(wanted, list) or not all(isinstance(trait, str) for trait in wanted):
        return (
            f"Error parsing traits from Node {node.uuid} instance_info field. A list of strings"
            " is expected."
        )
    missing = set(wanted) - set(node.traits)
    if not missing:
        return None
    return (
        "Cannot specify instance traits that are not also set on the node. Node"
        f" {node.uuid} is missing traits {', '.join(sorted(missing))}"
    )


def _protected(node: Node) -> errors.ApiError:
    return errors.ApiError(
        403, f"Node {node.uuid} is protected and cannot be undeployed, rebuilt or deleted"
    )


def tear_down(bm: Baremetal, node: Node) -> None:
    """Tear down the instance; automated cleaning follows."""
    if node.protected:
        raise _protected(node)
    check_event(node, "delete", "delete")
    _start(bm, node, "delete")
    _finish_tear_down(bm, node)


def _finish_tear_down(bm: Baremetal, node: Node) -> None:
    def finish() -> None:
        _wipe_instance(bm, node)
        process_event(bm, node, "clean")
        _clean_automatically(bm, node)

    _run(bm, node, "undeploy", finish)


def _wipe_instance(bm: Baremetal, node: Node) -> None:
    internal = dict(node.driver_internal_info)
    changes: dict[str, Any] = {
        "instance_info": EMPTY,
        "instance_uuid": None,
        "instance_name": None,
        "console_enabled": False,
    }
    if internal.pop("automatic_lessee", None):
        changes["lessee"] = None
    bm.update(node, driver_internal_info=internal, **changes)
    network.detach_all(bm, node)
    allocation = bm.store.allocation_of(node)
    if allocation is not None:
        bm.store.remove_allocation(allocation)


def abort(bm: Baremetal, node: Node) -> None:
    state = node.provision_state
    check_event(node, "abort", "abort")
    if state == states.SERVICEFAIL and node.maintenance:
        raise errors.conflict(
            f'Can not abort service on node "{node.uuid}" while it is in maintenance mode. Please'
            " remove the node from maintenance prior to issuing the request to abort the service"
            " operation."
        )
    bm.update(node, operation=None)
    if state in (states.SERVICEWAIT, states.SERVICEHOLD):
        process_event(bm, node, "fail")
        process_event(bm, node, "abort")
    elif state in (states.CLEANWAIT, states.CLEANHOLD):
        manual = node.target_provision_state == states.MANAGEABLE
        process_event(bm, node, "abort", states.MANAGEABLE if manual else None)
    else:
        process_event(bm, node, "abort")
    if state == states.DEPLOYHOLD:
        # Ironic runs its tear-down here, from a failed deploy.
        bm.update(node, last_error=None)
        _abort_held_deploy(bm, node)
        return
    bm.update(node, last_error=_ABORTED.get(state))


_ABORTED = {
    states.CLEANWAIT: "By request, the clean operation was aborted",
    states.CLEANHOLD: "By request, the clean operation was aborted",
    states.DEPLOYWAIT: "By request, the deploy operation was aborted",
    states.INSPECTWAIT: "Inspection was aborted by request.",
    states.SERVICEWAIT: "By request, the service operation was aborted",
    states.SERVICEHOLD: "By request, the service operation was aborted",
    states.SERVICEFAIL: "By request, the service operation was aborted",
}


def _abort_held_deploy(bm: Baremetal, node: Node) -> None:
    _wipe_instance(bm, node)


def unhold(bm: Baremetal, node: Node) -> None:
    """Leave a hold state for the wait state; servicing goes on to its end."""
    servicing = node.provision_state == states.SERVICEHOLD
    check_event(node, "unhold", "unhold")
    process_event(bm, node, "unhold", node.target_provision_state)
    if servicing:
        _run(bm, node, "service", lambda: process_event(bm, node, "done"))
