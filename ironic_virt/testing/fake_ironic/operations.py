# SPDX-License-Identifier: Apache-2.0

"""Transitions of a node between provision states, and the time they take.

While an operation runs its node is locked; with ``Settings.wait_states`` the
second half is spent unlocked in a wait state.  The service step
``trigger_servicewait`` leaves a node in ``service wait``, as that of
``fake-hardware`` does.  Which operation may start when is decided by the verbs
in ``provisioning.py``.
"""

from collections.abc import Callable, Sequence
from typing import Any

from ironic_virt.testing.fake_ironic import consoles, errors, network, states
from ironic_virt.testing.fake_ironic.baremetal import Baremetal
from ironic_virt.testing.fake_ironic.records import EMPTY, Node

Steps = Sequence[dict[str, Any]]

#: Operations that real hardware waits for in a "... wait" state.
_WAITING = frozenset({"deploy", "clean", "rescue", "inspect", "service"})

#: Step -> the event that it ends in.  Ironic 39.0.0 drops its own steps "hold"
#: and "wait" from cleaning and servicing.
_PAUSES = {"trigger_servicewait": "wait"}

#: Operation -> what the history calls it, where it tells of its steps.
_FLOWS = {
    "deploy": "deployment",
    "clean": "automated cleaning",
    "manual clean": "manual cleaning",
    "service": "servicing",
}

#: The only step of a deployment that fake hardware has by itself.
_DEPLOY_STEPS: Steps = (
    {
        "step": "deploy",
        "priority": 100,
        "abortable": True,
        "argsinfo": None,
        "interface": "deploy",
    },
)

#: Operation -> its history event type.
_EVENT_TYPES = {
    "deploy": "deploying",
    "clean": "cleaning",
    "rescue": "rescue",
    "unrescue": "rescue",
    "inspect": "introspection",
    "verify": "verify",
    "adopt": "adoption",
    "service": "servicing",
    "undeploy": "unprovision",
}


def process_event(bm: Baremetal, node: Node, event: str, target: str | None = None) -> None:
    """Move a node along the state machine.

    :param target: the target provision state, where it differs from the usual.
    """
    before = node.provision_state
    after = states.TRANSITIONS[before][event]
    timestamp = bm.store.timestamp()
    changes: dict[str, Any] = {
        "provision_state": after,
        "provision_updated_at": timestamp,
        "target_provision_state": None
        if after in states.STABLE
        else target or states.TARGETS[after],
    }
    if after == states.INSPECTING:
        changes.update(inspection_started_at=timestamp, inspection_finished_at=None)
    elif before in (states.INSPECTING, states.INSPECTWAIT):
        if after == states.MANAGEABLE:
            changes.update(inspection_started_at=None, inspection_finished_at=timestamp)
        elif after == states.INSPECTFAIL:
            changes.update(inspection_started_at=None)
    bm.update(node, **changes)


def check_event(node: Node, event: str, action: str) -> None:
    """Refuse an event that means nothing in the node's state.

    :raises ApiError: 400.
    """
    if not states.is_possible(node.provision_state, event):
        raise errors.state_not_allowed(action, node.uuid, node.provision_state)


def start(bm: Baremetal, node: Node, event: str, target: str | None = None) -> None:
    """Move a node into a transition; the last error is forgotten."""
    process_event(bm, node, event, target)
    bm.update(node, last_error=None)


def run(
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
    pausing = next((step for step in steps if step["step"] in _PAUSES), None)
    target = node.target_provision_state
    manual = operation == "clean" and target == states.MANAGEABLE
    flow = _FLOWS.get("manual clean" if manual else operation)
    listed = list(steps or (_DEPLOY_STEPS if operation == "deploy" else ()))
    if flow is not None:
        bm.record(node, f"Starting {flow} with steps={listed}", f"{_slug(flow)}_start")

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
            if flow is not None and operation == "deploy":
                ended = f"{flow.title()} aborted at step 'deploy' with steps={listed}"
                bm.record(node, ended, f"{_slug(flow)}_end", "ERROR")
            _fail(bm, node, operation, failure)
            return
        if flow is not None:
            event = f"{flow.title()} completed successfully with steps={listed}"
            bm.record(node, event, f"{_slug(flow)}_end")
        finish()

    if pausing is not None:
        step = {"abortable": False, "priority": 0, **pausing}
        bm.update(node, service_step=step)
        bm.timeline.after(total / 2, lambda: stop(_PAUSES[step["step"]]))
        return
    if bm.settings.wait_states and operation in _WAITING:
        bm.timeline.after(total / 2, lambda: stop("wait"))
    bm.timeline.after(total, end)


def _slug(flow: str) -> str:
    return flow.replace(" ", "_")


def _fail(bm: Baremetal, node: Node, operation: str, error: str) -> None:
    target = node.target_provision_state
    if operation == "undeploy":
        wipe_instance(bm, node)
    bm.record_error(node, error, _EVENT_TYPES[operation])
    if operation == "deploy" and clean_up_ramdisk(bm, node):
        # The power's change erases the error, and takes its time.
        bm.update(node, last_error=None)
        bm.lock(node)

        def fail() -> None:
            bm.unlock(node)
            process_event(bm, node, "fail", target)

        bm.timeline.after(bm.seconds(bm.settings.durations.power), fail)
        return
    if operation == "adopt":
        bm.update(node, power_state=None)
    if operation in ("clean", "service"):
        bm.update(node, maintenance=True, fault=f"{operation} failure")
        if not node.maintenance_reason:
            bm.update(node, maintenance_reason=error)
    process_event(bm, node, "fail", target)


def clean_up_ramdisk(bm: Baremetal, node: Node) -> bool:
    """Clean up after the deploy ramdisk; whether that has taken the node's power away."""
    if not bm.settings.virtual_media or node.driver_info.get("fast_track"):
        return False
    bm.update(node, power_state=states.POWER_OFF)
    return True


def wipe_instance(bm: Baremetal, node: Node) -> None:
    """Remove every trace of the instance: what it was, its VIFs, its allocation."""
    consoles.close(bm, node)
    internal = dict(node.driver_internal_info)
    changes: dict[str, Any] = {
        "instance_info": EMPTY,
        "instance_uuid": None,
        "instance_name": None,
    }
    if internal.pop("automatic_lessee", None):
        changes["lessee"] = None
    bm.update(node, driver_internal_info=internal, **changes)
    network.detach_all(bm, node)
    allocation = bm.store.allocation_of(node)
    if allocation is not None:
        bm.store.remove_allocation(allocation)
