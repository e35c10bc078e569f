# SPDX-License-Identifier: Apache-2.0

"""The console interfaces: what each needs, what it notes on a node, and what it says.

Nothing listens at the addresses.  Those of ``fake-graphical`` are Ironic's own, of its
container provider "fake".
"""

import secrets
from typing import Any

from ironic_virt.testing.fake_ironic import errors
from ironic_virt.testing.fake_ironic.baremetal import Baremetal
from ironic_virt.testing.fake_ironic.records import Node

GRAPHICAL = "fake-graphical"
SOCAT = "ipmitool-socat"

_VNC_ADDRESS = {"vnc_host": "192.0.2.1", "vnc_port": 5900}
_TOKEN = "novnc_secret_token"
_NOTES = (*_VNC_ADDRESS, _TOKEN, f"{_TOKEN}_created")


def check(node: Node) -> None:
    """Refuse what a node's console can't do without.

    :raises ApiError: 400.
    """
    if node.console_interface != SOCAT:
        return
    if not node.driver_info.get("ipmi_address"):
        raise errors.invalid(
            "Missing the following IPMI credentials in node's driver_info: ['ipmi_address']."
        )
    if not node.driver_info.get("ipmi_terminal_port"):
        raise errors.invalid(
            "Either missing 'ipmi_terminal_port' parameter in node's driver_info or"
            " [console]port_range is not configured"
        )


def start(bm: Baremetal, node: Node) -> None:
    """A node's console has been switched on."""
    if node.console_interface == GRAPHICAL:
        notes = {_TOKEN: secrets.token_urlsafe(), f"{_TOKEN}_created": bm.store.timestamp()}
        internal = {**node.driver_internal_info, **_VNC_ADDRESS, **notes}
        bm.update(node, driver_internal_info=internal)
    bm.update(node, console_enabled=True)


def stop(bm: Baremetal, node: Node) -> None:
    """A node's console has been switched off."""
    close(bm, node)
    bm.update(node, console_enabled=False)


def close(bm: Baremetal, node: Node) -> None:
    """The instance goes: what ran is stopped, and may be started with the next one."""
    if node.console_enabled and node.console_interface == GRAPHICAL:
        internal = dict(node.driver_internal_info)
        for name in _NOTES:
            internal.pop(name, None)
        bm.update(node, driver_internal_info=internal, console_enabled=False)


def describe(bm: Baremetal, node: Node) -> dict[str, Any]:
    """Where the console is, as far as its interface says anything."""
    if node.console_interface == GRAPHICAL:
        token = node.driver_internal_info.get(_TOKEN)
        path = f"websockify%3Fnode%3D{node.uuid}%26token%3D{token}"
        return {"type": "vnc", "url": f"{bm.settings.novnc_url}?path={path}"}
    if node.console_interface == SOCAT:
        return {
            "type": "socat",
            "url": f"tcp://127.0.0.1:{node.driver_info['ipmi_terminal_port']}",
        }
    return {}
