# SPDX-License-Identifier: Apache-2.0

"""What the provision verbs check, and what they do to a node."""

from typing import Any

from ironic_virt.testing.fake_ironic import checks, errors, states, storage
from ironic_virt.testing.fake_ironic.baremetal import Baremetal
from ironic_virt.testing.fake_ironic.operations import (
    Steps,
    check_event,
    clean_up_ramdisk,
    process_event,
    run,
    start,
    wipe_instance,
)
from ironic_virt.testing.fake_ironic.records import Node

#: What fake-hardware can do when it is cleaned.
_CLEAN_STEPS = frozenset(
    {
        ("bios", "apply_configuration"),
        ("bios", "cache_bios_settings"),
        ("bios", "factory_reset"),
        ("firmware", "update"),
        ("vendor", "log_passthrough"),
    }
)
#: The additional steps when it is serviced.
_STEPS = _CLEAN_STEPS | {("deploy", "deploy"), ("vendor", "trigger_servicewait")}
_HARDWARE = {
    **{name: f"Fake{name.title()}" for name in ("power", "management", "firmware", "deploy")},
    "vendor": "FakeVendorB",
    "bios": "FakeBIOS",
    "raid": "FakeRAID",
}
_FLOW_STEPS = frozenset({"power_on", "power_off", "reboot", "hold", "wait"})


def manage(bm: Baremetal, node: Node) -> None:
    if node.provision_state != states.ENROLL:
        check_event(node, "manage", "manage")
        process_event(bm, node, "manage")
        return
    start(bm, node, "manage")
    run(bm, node, "verify", lambda: process_event(bm, node, "done"))


def provide(bm: Baremetal, node: Node) -> None:
    check_event(node, "provide", "provide")
    if node.retired:
        raise errors.invalid(
            f"The providing operation can't be performed on node {node.uuid} because it is"
            " retired."
        )
    start(bm, node, "provide")
    _clean_automatically(bm, node)


def _clean_automatically(bm: Baremetal, node: Node) -> None:
    is_cleaned = node.automated_clean
    if is_cleaned is None:
        is_cleaned = bm.settings.automated_clean

    def finish() -> None:
        if bm.settings.power_follows_deploy:
            bm.update(node, power_state=states.POWER_OFF)
        # A retired node is not given away again.
        process_event(bm, node, "manage" if node.retired and is_cleaned else "done")

    if is_cleaned:
        run(bm, node, "clean", finish)
    else:
        run(bm, node, "skipped clean", finish, delay=0.0)


def clean(bm: Baremetal, node: Node, steps: Steps) -> None:
    """Manual cleaning."""
    if node.maintenance:
        raise errors.in_maintenance("cleaning", node.uuid)
    check_event(node, "clean", "manual clean")
    start(bm, node, "clean", states.MANAGEABLE)
    for step in steps:
        known = (step["interface"], step["step"]) in _CLEAN_STEPS or step["step"] in _FLOW_STEPS
        if not known:
            error = f"node does not support this clean step: {step}"
            bm.record_error(node, f"Cannot clean node {node.uuid}: {error}", "cleaning")
            process_event(bm, node, "fail", states.MANAGEABLE)
            return
    run(bm, node, "clean", lambda: process_event(bm, node, "manage"), steps)


def inspect(bm: Baremetal, node: Node) -> None:
    if is_without(node, "inspect"):
        raise unsupported(node, "inspect")
    check_event(node, "inspect", "inspect")
    start(bm, node, "inspect")
    run(bm, node, "inspect", lambda: process_event(bm, node, "done"))


def adopt(bm: Baremetal, node: Node) -> None:
    check_event(node, "adopt", "adopt")
    info = dict(node.instance_info)
    _detect_image_type(info)
    bm.update(node, instance_info=info)
    start(bm, node, "adopt")
    run(bm, node, "adopt", lambda: process_event(bm, node, "done"))


def service(bm: Baremetal, node: Node, steps: Steps) -> None:
    if node.maintenance:
        raise errors.in_maintenance("service", node.uuid)
    check_event(node, "service", "service")
    start(bm, node, "service", states.ACTIVE)
    for step in steps:
        if step["step"] not in _FLOW_STEPS and (step["interface"], step["step"]) not in _STEPS:
            error = (
                f"Node {node.uuid} failed step {step}: '{_HARDWARE[step['interface']]}' object has"
                f" no attribute '{step['step']}'"
            )
            bm.record_error(node, error, "servicing")
            bm.update(node, maintenance=True, maintenance_reason=error, fault="service failure")
            process_event(bm, node, "fail", states.ACTIVE)
            return
    run(bm, node, "service", lambda: process_event(bm, node, "done"), steps)


def rescue(bm: Baremetal, node: Node, password: str) -> None:
    if node.maintenance:
        raise errors.in_maintenance("rescuing", node.uuid)
    if is_without(node, "rescue"):
        reason = unsupported(node, "rescue").message
        raise errors.ApiError(
            500,
            f"Failed to rescue instance {node.instance_uuid} for node {node.uuid}: Validation"
            f" failed: {reason}",
        )
    check_event(node, "rescue", "rescue")
    secrets = {"rescue_password": password, "hashed_rescue_password": f"hash of {len(password)}"}
    bm.update(node, instance_info={**node.instance_info, **secrets})
    start(bm, node, "rescue")
    if bm.settings.virtual_media:
        bm.update(node, power_state=states.POWER_ON)

    def finish() -> None:
        clean_up_ramdisk(bm, node)
        process_event(bm, node, "done")

    run(bm, node, "rescue", finish)


def unrescue(bm: Baremetal, node: Node) -> None:
    if node.maintenance:
        raise errors.in_maintenance("unrescuing", node.uuid)
    check_event(node, "unrescue", "unrescue")
    start(bm, node, "unrescue")
    run(bm, node, "unrescue", lambda: _end_powered_on(bm, node))


def deploy(bm: Baremetal, node: Node, event: str, config_drive: object, steps: Steps) -> None:
    """Deploy (``event`` "deploy") or rebuild (``event`` "rebuild") an instance."""
    if node.maintenance:
        raise errors.in_maintenance("provisioning", node.uuid)
    if event == "rebuild" and node.protected:
        raise errors.node_protected(node.uuid)
    check_event(node, event, event)
    info = dict(node.instance_info)
    image_known = _detect_image_type(info)
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
    if image_known:
        # What was found out stays, also if the deployment is refused.
        bm.update(node, instance_info=dict(info))
    for interface in ("power", "deploy"):
        reason = why_invalid(bm, node, interface)
        if reason:
            raise errors.invalid(
                f"Failed to validate deploy or power info for node {node.uuid}: {reason}"
            )
    left_out = _leave_out_core_step(node, steps)
    if config_drive:
        info["configdrive"] = config_drive
    bm.update(node, instance_info=info)
    start(bm, node, event)
    if left_out:
        bm.record_error(node, "No deploy steps returned by the driver", "provisioning")
        process_event(bm, node, "fail")
        return
    run(bm, node, "deploy", lambda: _end_powered_on(bm, node), steps)


def _end_powered_on(bm: Baremetal, node: Node) -> None:
    if bm.settings.power_follows_deploy:
        bm.update(node, power_state=states.POWER_ON)
    process_event(bm, node, "done")


def _leave_out_core_step(node: Node, steps: Steps) -> bool:
    """Whether the request disables the only deploy step that fake hardware has.

    Other steps are ignored: the hardware lacks them.

    :raises ApiError: the request changes that step in another way.
    """
    core = [step for step in steps if (step["interface"], step["step"]) == ("deploy", "deploy")]
    if any(int(step["priority"]) for step in core):
        raise errors.invalid(
            f"Failed to validate deploy or power info for node {node.uuid}: Validation of deploy"
            ' steps from "deploy steps" argument failed.deploy step deploy on interface deploy is'
            " a core step and cannot be overridden by user steps. It may be disabled by setting"
            " the priority to 0"
        )
    return bool(core)


def _detect_image_type(info: dict[str, Any]) -> bool:
    """Note in ``instance_info`` what an image is; whether that is known.

    :raises ApiError: 500 if it can be neither a URL nor in Glance.
    """
    source = info.get("image_source")
    if not source:
        return False
    if not info.get("image_type"):
        if checks.is_uuid(source) or str(source).startswith("glance://"):
            return False
        if "://" not in str(source):
            raise errors.ApiError(
                500,
                f"Validation of image href {source} failed, reason: Scheme-less image href is not"
                " a UUID.",
            )
    partition = info.get("image_type") == "partition" or (
        not info.get("image_type") and bool(info.get("kernel") or info.get("ramdisk"))
    )
    info["image_type"] = "partition" if partition else "whole-disk"
    return True


def is_without(node: Node, interface: str) -> bool:
    """Whether a node's hardware interface is one of those that can't do anything."""
    return str(getattr(node, f"{interface}_interface")).startswith("no-")


def unsupported(node: Node, capability: str) -> errors.ApiError:
    return errors.invalid(
        f"Driver {node.driver} does not support {capability} (disabled or not implemented)."
    )


def why_invalid(bm: Baremetal, node: Node, interface: str) -> str | None:
    """The reason why an interface of a node does not validate, if it doesn't."""
    if reason := bm.invalid.get((node.uuid, interface)):
        return reason
    if is_without(node, interface):
        return unsupported(node, interface).message
    if interface == "storage":
        return storage.why_invalid(bm, node)
    if interface != "deploy":
        return None
    if node.deploy_interface == "direct" and not _has_what_to_boot(bm, node):
        return (
            f"Node {node.uuid} failed to validate deploy image info. Some parameters were missing."
            " Missing are: ['instance_info.image_source']"
        )
    traits = node.instance_info.get("traits")
    if not traits:
        return None
    if not isinstance(traits, list) or not all(isinstance(trait, str) for trait in traits):
        return (
            f"Error parsing traits from Node {node.uuid} instance_info field. A list of strings"
            " is expected."
        )
    missing = set(traits) - set(node.traits)
    if not missing:
        return None
    return (
        "Cannot specify instance traits that are not also set on the node. Node"
        f" {node.uuid} is missing traits {', '.join(sorted(missing))}"
    )


def _has_what_to_boot(bm: Baremetal, node: Node) -> bool:
    targets = (target for target in bm.store.targets if target.node.uuid == node.uuid)
    return bool(node.instance_info.get("image_source")) or any(
        target.boot_index == 0 for target in targets
    )


def tear_down(bm: Baremetal, node: Node) -> None:
    """Tear down the instance; automated cleaning follows."""
    if node.protected:
        raise errors.node_protected(node.uuid)
    check_event(node, "delete", "delete")
    start(bm, node, "delete")

    def finish() -> None:
        wipe_instance(bm, node)
        process_event(bm, node, "clean")
        _clean_automatically(bm, node)

    run(bm, node, "undeploy", finish)


def abort(bm: Baremetal, node: Node) -> None:
    state = node.provision_state
    check_event(node, "abort", "abort")
    if state == states.SERVICEFAIL and node.maintenance:
        raise errors.conflict(
            f'Can not abort service on node "{node.uuid}" while it is in maintenance mode. Please'
            " remove the node from maintenance prior to issuing the request to abort the service"
            " operation."
        )
    if state == states.SERVICEWAIT and node.service_step.get("abortable") is False:
        bm.update(node, service_step={**node.service_step, "abort_after": True})
        return
    if state == states.INSPECTWAIT and node.inspect_interface == "fake":
        raise unsupported(node, "abort")
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
        # Ironic 39.0.0 goes on with a tear-down, which that state does not allow.
        wipe_instance(bm, node)
        error = (
            "Async execution of _do_node_tear_down failed with error: Can not transition from"
            " state 'deploy failed' on event 'clean' (no defined transition)"
        )
        bm.update(node, last_error=error)
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


def unhold(bm: Baremetal, node: Node) -> None:
    """Leave a hold state for the wait state.

    Ironic 39.0.0 then trips over servicing that it holds no steps of; and as it
    drops steps that hold, there never is other.
    """
    servicing = node.provision_state == states.SERVICEHOLD
    check_event(node, "unhold", "unhold")
    process_event(bm, node, "unhold", node.target_provision_state)
    if servicing:
        error = (
            "Unexpected error when processing next service step. AssertionError: BUG: No steps for"
            f" {node.uuid}, step index is 0"
        )
        bm.record_error(node, error, "servicing")
        process_event(bm, node, "fail")
