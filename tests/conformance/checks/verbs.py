# SPDX-License-Identifier: Apache-2.0

"""Every provision verb in every provision state."""

from typing import Any

from tests.conformance.registry import check_each
from tests.conformance.subject import ANY, IMAGE, IronicUnderTest

STATES = (
    *("enroll", "verifying", "manageable", "available"),
    *("deploying", "wait call-back", "deploy failed", "deploy hold", "active"),
    *("deleting", "error"),
    *("cleaning", "clean wait", "clean failed", "clean hold"),
    *("inspecting", "inspect wait", "inspect failed", "adopting", "adopt failed"),
    *("rescuing", "rescue wait", "rescue failed", "rescue", "unrescuing", "unrescue failed"),
    *("servicing", "service wait", "service failed", "service hold"),
)
VERBS: tuple[dict[str, Any], ...] = (
    {"target": "manage"},
    {"target": "provide"},
    {"target": "inspect"},
    {"target": "adopt"},
    {"target": "active"},
    {"target": "rebuild"},
    {"target": "deleted"},
    {"target": "rescue", "rescue_password": "secret"},
    {"target": "unrescue"},
    {"target": "clean", "clean_steps": []},
    {"target": "service", "service_steps": []},
    {"target": "abort"},
    {"target": "unhold"},
)
AFTERWARDS = ",".join(
    (
        *("provision_state", "target_provision_state", "power_state", "target_power_state"),
        *("last_error", "maintenance", "maintenance_reason", "fault", "instance_uuid"),
        *("instance_info", "reservation", "driver_internal_info"),
    )
)


def try_verbs(ironic: IronicUnderTest, state: str, **fields: Any) -> None:
    for verb in VERBS:
        if (state, verb["target"]) == ("service hold", "unhold"):
            # There are no steps to go on with in a node that was put there behind Ironic's back.
            continue
        node = ironic.node(instance_info=IMAGE)
        ironic.set_node(node, provision_state=state, **fields)
        answer = ironic.put(f"/v1/nodes/{node}/states/provision", verb, expect=ANY)
        assert answer.status in (202, 400, 409)
        if answer.status == 202:
            ironic.settle(node)
            ironic.get(f"/v1/nodes/{node}?fields={AFTERWARDS}")


@check_each(*STATES)
def _(ironic: IronicUnderTest, state: str) -> None:
    """which verbs are possible in state {}, and where they lead"""
    try_verbs(ironic, state)


@check_each(
    "enroll", "manageable", "available", "active", "rescue", "deploy failed", "clean failed"
)
def _(ironic: IronicUnderTest, state: str) -> None:
    """which verbs are possible in maintenance and state {}"""
    try_verbs(ironic, state, maintenance=True)
