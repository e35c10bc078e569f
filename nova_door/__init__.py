# SPDX-License-Identifier: Apache-2.0

"""The door that nova-compute opens: ``[DEFAULT] compute_driver = ironic_virt.IronicDriver``.

Installed as ``nova.virt.ironic_virt``, because Nova loads its driver from ``nova.virt``.
It holds no logic.
"""

try:
    from ironic_virt.nova.driver import IronicDriver
except ModuleNotFoundError as exc:
    if (exc.name or "").partition(".")[0] != "nova":
        raise
    raise ImportError(
        "nova.virt.ironic_virt is where OpenStack Nova finds the driver of ironic_virt, and Nova "
        f"is not installed here ({exc.name} is missing). Install it beside ironic-virt: pip "
        "install nova. Without Nova, load the driver by ironic_virt.virt.load_compute_driver()"
    ) from exc

__all__ = ["IronicDriver"]
