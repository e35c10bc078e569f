# SPDX-License-Identifier: Apache-2.0

"""Setting the provision state of a node: which arguments go with which verb."""

import string
from typing import Any

from ironic_virt.testing.fake_ironic import checks, errors, provisioning, states, versions
from ironic_virt.testing.fake_ironic.api.lookup import find_node
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

_INTERFACES = ["vendor", "power", "management", "firmware", "deploy", "bios", "raid"]
_NUMBER = {
    "anyOf": [
        {"type": "integer", "minimum": 0},
        {"type": "string", "minLength": 1, "pattern": "^[0-9]+$"},
    ]
}

#: Steps of cleaning and servicing.  Errors quote it, so that its order matters.
_STEPS: dict[str, Any] = {
    "type": "array",
    "items": {
        "type": "object",
        "required": ["interface", "step"],
        "properties": {
            "interface": {"description": "driver interface", "enum": _INTERFACES},
            "step": {"description": "name of clean step", "type": "string", "minLength": 1},
            "args": {"description": "additional args", "type": "object", "properties": {}},
            "order": _NUMBER,
            "execute_on_child_nodes": {
                "description": "Boolean if the step should be executed on child nodes.",
                "type": "boolean",
            },
            "limit_child_node_execution": {
                "description": "List of nodes upon which to execute child node steps on.",
                "type": "array",
            },
        },
        "additionalProperties": False,
    },
}

_DEPLOY_STEPS: dict[str, Any] = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {
            "args": {"type": "object"},
            "interface": {"type": "string", "enum": _INTERFACES},
            "priority": _NUMBER,
            "step": {"type": "string", "minLength": 1},
        },
        "required": ["interface", "step", "args", "priority"],
        "additionalProperties": False,
    },
}


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
    if node.provision_state not in states.ALL_STATES:
        raise errors.conflict(f"Can not start from a undefined state '{node.provision_state}'")
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
    error = checks.schema_error(steps, _DEPLOY_STEPS if kind == "deploy" else _STEPS)
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


NODE_ROUTES = (("/nodes/<ident>/states/provision", {"PUT": set_provision_state}),)
