# SPDX-License-Identifier: Apache-2.0

"""The states of a node: provision, power, console, boot mode."""

import string
from typing import Any

from ironic_virt.testing.fake_ironic import checks, errors, power, provisioning, states, versions
from ironic_virt.testing.fake_ironic.api.lookup import find_node
from ironic_virt.testing.fake_ironic.node_view import render_states
from ironic_virt.testing.fake_ironic.records import Node
from ironic_virt.testing.fake_ironic.web import Answer, Request

_CONFIG_DRIVE: dict[str, Any] = {
    "anyOf": [
        {
            "type": "object",
            "properties": {
                "meta_data": {"type": "object"},
                "network_data": {"type": "object"},
                "user_data": {"type": ["object", "array", "string", "null"]},
                "vendor_data": {"type": "object"},
            },
            "additionalProperties": False,
        },
        {"type": ["string", "null"]},
    ]
}

_BASE64 = frozenset(string.ascii_letters + string.digits + "+/=\n\r\t ")

_INTERFACES = ["power", "management", "firmware", "deploy", "bios", "raid", "vendor"]

_STEPS: dict[str, Any] = {
    "type": "array",
    "items": {
        "type": "object",
        "required": ["interface", "step"],
        "properties": {
            "interface": {"enum": _INTERFACES},
            "step": {"type": "string", "minLength": 1},
            "args": {"type": "object"},
            "order": {},
            "priority": {},
            "execute_on_child_nodes": {"type": "boolean"},
            "limit_child_node_execution": {"type": "array"},
        },
        "additionalProperties": False,
    },
}


def show_states(request: Request, ident: str) -> Answer:
    return Answer(body=render_states(request, find_node(request, ident)))


# Provision state


def _types(*kinds: type) -> checks.Parser:
    kinds = (type(None), *kinds)

    def parse(name: str, value: Any) -> Any:
        if not isinstance(value, kinds):
            raise errors.invalid(
                f"Expected types {', '.join(map(str, kinds))} for {name}: {value}"
            )
        return value

    return parse


def set_provision_state(request: Request, ident: str) -> Answer:
    given = request.arguments(
        {
            "target": checks.string,
            "configdrive": _types(dict, str),
            "clean_steps": _types(list),
            "deploy_steps": _types(list),
            "rescue_password": checks.string,
            "disable_ramdisk": checks.boolean,
            "service_steps": _types(list),
            "runbook": _types(str),
        },
        required=("target",),
    )
    node = find_node(request, ident)
    target = given["target"]
    verb = states.VERBS.get(target, target)
    if request.minor < versions.VERBS.get(target, 0):
        raise errors.not_acceptable()
    _check_steps_policy(given)
    if target in ("active", "rebuild") and node.maintenance:
        raise errors.in_maintenance("provisioning", node.uuid)
    if not states.is_possible(node.provision_state, verb):
        request.bm.check_unlocked(node)
        raise errors.state_not_allowed(target, node.uuid, node.provision_state)
    _check_arguments(request, node, target, given)
    _act(request, node, target, given)
    return Answer(202, location=f"nodes/{ident}/states")


def _check_steps_policy(given: dict[str, Any]) -> None:
    """Ironic looks at the steps' names for its policy before it looks at their form."""
    for name in ("deploy_steps", "clean_steps", "service_steps"):
        for step in given[name] or ():
            for key in ("interface", "step"):
                if key not in step:
                    raise errors.ApiError(500, f"'{key}'")


def _check_arguments(request: Request, node: Node, target: str, given: dict[str, Any]) -> None:
    minor = request.minor
    _check_config_drive(request, target, given["configdrive"])
    _check_disable_ramdisk(request, target, given["disable_ramdisk"])
    _check_belongs(given, "clean_steps", target, "clean")
    if given["deploy_steps"]:
        if minor < versions.DEPLOY_STEPS:
            raise errors.needs_version(versions.DEPLOY_STEPS)
        if target not in ("active", "rebuild"):
            raise errors.invalid(
                '"deploy_steps" is only valid when setting target provision state to active or'
                " rebuild"
            )
    if given["rescue_password"] is not None:
        _check_belongs(given, "rescue_password", target, "rescue", even_if_empty=True)
    if target == "abort":
        state = node.provision_state
        if state == states.INSPECTWAIT and minor < versions.INSPECT_ABORT:
            raise errors.not_acceptable()
        if state == states.DEPLOYWAIT and minor < versions.DEPLOY_ABORT:
            raise errors.not_acceptable()
    if target == "unhold" and minor < versions.UNHOLD:
        raise errors.not_acceptable()
    _check_belongs(given, "service_steps", target, "service")
    if target == "service" and minor < versions.SERVICE:
        raise errors.not_acceptable()


def _check_belongs(
    given: dict[str, Any], name: str, target: str, verb: str, even_if_empty: bool = False
) -> None:
    if (given[name] or even_if_empty) and target != verb:
        raise errors.invalid(
            f'"{name}" is only valid when setting target provision state to {verb}'
        )


def _check_disable_ramdisk(request: Request, target: str, value: bool | None) -> None:
    if value is None:
        return
    since = {
        "clean": versions.CLEAN_DISABLE_RAMDISK,
        "service": versions.SERVICE_DISABLE_RAMDISK,
    }.get(target)
    if since is None:
        raise errors.invalid("disable_ramdisk is supported only with manual cleaning or servicing")
    if request.minor < since:
        raise errors.not_acceptable("disable_ramdisk is not acceptable in this API version")


def _check_config_drive(request: Request, target: str, drive: Any) -> None:
    if not drive:
        return
    minor = request.minor
    targets = ["active"] + (["rebuild"] if minor >= versions.REBUILD_CONFIG_DRIVE else [])
    if target not in targets:
        raise errors.invalid(
            "Adding a config drive is only supported when setting provision state to"
            f" {', '.join(targets)}"
        )
    error = checks.schema_error(drive, _CONFIG_DRIVE)
    if error is not None:
        raise errors.invalid(f"Invalid configdrive format: {error}")
    if isinstance(drive, dict):
        if minor < versions.BUILD_CONFIG_DRIVE:
            raise errors.invalid(
                "Providing a JSON object for configdrive is only supported starting with API"
                f" version 1.{versions.BUILD_CONFIG_DRIVE}"
            )
        if "vendor_data" in drive and minor < versions.VENDOR_DATA:
            raise errors.invalid(
                "Providing vendor_data in configdrive is only supported starting with API version"
                f" 1.{versions.VENDOR_DATA}"
            )
    elif "://" not in drive and set(drive) - _BASE64:
        raise errors.invalid(
            "Invalid configdrive format: it is neither a JSON, nor a URL, nor a base64 string"
        )


def _steps(given: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    steps: list[dict[str, Any]] = given[f"{kind}_steps"] or []
    error = checks.schema_error(steps, _STEPS)
    if error is not None:
        raise errors.invalid(f"Invalid {kind}_steps: {error}")
    return steps


def _required_steps(given: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    if not given[f"{kind}_steps"]:
        raise errors.invalid(
            f'"{kind}_steps" is required when setting target provision state to {kind}'
        )
    return _steps(given, kind)


def _act(request: Request, node: Node, target: str, given: dict[str, Any]) -> None:
    bm = request.bm
    if target in ("active", "deploy", "rebuild"):
        steps = _steps(given, "deploy")
        bm.acquire(node)
        event = "rebuild" if target == "rebuild" else "deploy"
        provisioning.deploy(bm, node, event, given["configdrive"], steps)
        return
    if target == "rescue":
        if not (given["rescue_password"] or "").strip():
            raise errors.invalid(
                'A non-empty "rescue_password" is required when setting target provision state to'
                " rescue"
            )
        bm.acquire(node)
        provisioning.rescue(bm, node, given["rescue_password"])
        return
    if target in ("clean", "service"):
        steps = _required_steps(given, target)
        bm.acquire(node)
        getattr(provisioning, target)(bm, node, steps)
        return
    bm.acquire(node)
    verbs = {
        "deleted": provisioning.tear_down,
        "undeploy": provisioning.tear_down,
        "unrescue": provisioning.unrescue,
        "inspect": provisioning.inspect,
        "manage": provisioning.manage,
        "provide": provisioning.provide,
        "abort": provisioning.abort,
        "adopt": provisioning.adopt,
        "unhold": provisioning.unhold,
    }
    verb = verbs.get(target)
    if verb is None:
        raise errors.invalid(f'The requested action "{target}" could not be understood.')
    verb(bm, node)


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


def show_console(request: Request, ident: str) -> Answer:
    node = find_node(request, ident)
    info: dict[str, Any] | None = {} if node.console_enabled else None
    return Answer(body={"console_enabled": node.console_enabled, "console_info": info})


def set_console(request: Request, ident: str) -> Answer:
    enabled = request.arguments({"enabled": checks.boolean}, required=("enabled",))["enabled"]
    bm = request.bm
    node = find_node(request, ident)
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
                bm.update(node, console_enabled=enabled)
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
    what = "set_boot_mode" if field == "boot_mode" else "set_secure_boot_state"
    # The stray quote is Ironic's.
    doing = f"boot mode to '{value}" if field == "boot_mode" else f"secure_boot state to '{value}'"
    message = (
        f"Failed to change {doing}: Driver {node.driver} does not support {what} (disabled or not"
        " implemented)."
    )
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
    ("/nodes/<ident>/states/provision", {"PUT": set_provision_state}),
    ("/nodes/<ident>/states/power", {"PUT": set_power_state}),
    ("/nodes/<ident>/states/console", {"GET": show_console, "PUT": set_console}),
    ("/nodes/<ident>/states/boot_mode", {"PUT": set_boot_mode}),
    ("/nodes/<ident>/states/secure_boot", {"PUT": set_secure_boot}),
)
