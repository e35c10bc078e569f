# SPDX-License-Identifier: Apache-2.0

"""The states of a node but its provision state: power, console, boot mode."""

from typing import Any

from ironic_virt.testing.fake_ironic import (
    checks,
    consoles,
    errors,
    power,
    provisioning,
    states,
    versions,
)
from ironic_virt.testing.fake_ironic.api.lookup import find_node
from ironic_virt.testing.fake_ironic.node_view import render_states
from ironic_virt.testing.fake_ironic.records import Node
from ironic_virt.testing.fake_ironic.web import Answer, Request


def show_states(request: Request, ident: str) -> Answer:
    return Answer(body=render_states(request, find_node(request, ident)))


# Power, console, boot mode


def set_power_state(request: Request, ident: str) -> Answer:
    given = request.arguments(
        {"target": checks.string, "timeout": checks.integer}, required=("target",)
    )
    node = find_node(request, ident)
    target, timeout = given["target"], given["timeout"]
    soft = target in (states.SOFT_REBOOT, states.SOFT_POWER_OFF)
    if (soft or timeout) and request.minor < versions.SOFT_POWER_OFF:
        raise errors.not_acceptable()
    power.check_power_target(node, ident, target, timeout)
    power.change_power(request.bm, node, target, timeout)
    return Answer(202, location=f"nodes/{ident}/states")


def _check_console(node: Node) -> None:
    if provisioning.is_without(node, "console"):
        raise provisioning.unsupported(node, "console")
    consoles.check(node)


def show_console(request: Request, ident: str) -> Answer:
    node = find_node(request, ident)
    request.bm.check_served(node.driver, node.conductor_group)
    info: dict[str, Any] | None = None
    if node.console_enabled:
        _check_console(node)
        info = consoles.describe(request.bm, node)
    return Answer(body={"console_enabled": node.console_enabled, "console_info": info})


def set_console(request: Request, ident: str) -> Answer:
    enabled = request.arguments({"enabled": checks.boolean}, required=("enabled",))["enabled"]
    bm = request.bm
    node = find_node(request, ident)
    bm.check_served(node.driver, node.conductor_group)
    _check_console(node)
    if enabled != node.console_enabled:
        bm.acquire(node)
        bm.update(node, last_error=None)
        bm.lock(node)
        failure = bm.take_failure("console", node)

        def finish() -> None:
            if bm.store.nodes.get(node.uuid) is not node:
                return
            bm.update(node, reservation=None)
            if failure is None:
                (consoles.start if enabled else consoles.stop)(bm, node)
                return
            doing = "enabling" if enabled else "disabling"
            message = f"Error {doing} the console on node {node.uuid}. Reason: {failure}"
            bm.record_error(node, message, "console")

        bm.timeline.after(bm.seconds(bm.settings.durations.console), finish)
    return Answer(202, location=f"nodes/{ident}/states/console")


def _set_boot(request: Request, ident: str, field: str, value: object) -> Answer:
    bm = request.bm
    node = find_node(request, ident)
    if node.provision_state in states.UNSTABLE:
        raise errors.conflict(
            "Node is in %(state)s state. Since node is transitioning, the boot mode will not be"
            " set as this may interfere with ongoing changes and result in erroneous"
            " modification. Try again later."
        )
    bm.acquire(node)
    bm.update(node, last_error=None)
    method = "set_boot_mode" if field == "boot_mode" else "set_secure_boot_state"
    # The stray quote is Ironic's.
    doing = f"boot mode to '{value}" if field == "boot_mode" else f"secure_boot state to '{value}'"
    message = f"Failed to change {doing}: {provisioning.unsupported(node, method).message}"
    bm.lock(node)

    def finish() -> None:
        if bm.store.nodes.get(node.uuid) is node:
            bm.update(node, reservation=None, last_error=message)

    bm.timeline.after(0.0, finish)
    return Answer(202, location=f"nodes/{ident}/states")


def _require_boot_change(request: Request) -> None:
    request.require(
        versions.CHANGE_BOOT_MODE,
        errors.not_found("This endpoint is supported starting with the API version 1.76"),
    )


def set_boot_mode(request: Request, ident: str) -> Answer:
    target = request.arguments({"target": checks.string}, required=("target",))["target"]
    find_node(request, ident)
    _require_boot_change(request)
    if target not in ("bios", "uefi"):
        raise errors.invalid(
            f"Invalid boot mode {target} requested for node. Allowed boot modes are: bios, uefi"
        )
    return _set_boot(request, ident, "boot_mode", target)


def set_secure_boot(request: Request, ident: str) -> Answer:
    target = request.arguments({"target": checks.boolean}, required=("target",))["target"]
    find_node(request, ident)
    _require_boot_change(request)
    return _set_boot(request, ident, "secure_boot", target)


NODE_ROUTES = (
    ("/nodes/<ident>/states", {"GET": show_states}),
    ("/nodes/<ident>/states/power", {"PUT": set_power_state}),
    ("/nodes/<ident>/states/console", {"GET": show_console, "PUT": set_console}),
    ("/nodes/states/console/<ident>", {"GET": show_console}),
    ("/nodes/<ident>/states/boot_mode", {"PUT": set_boot_mode}),
    ("/nodes/<ident>/states/secure_boot", {"PUT": set_secure_boot}),
)
