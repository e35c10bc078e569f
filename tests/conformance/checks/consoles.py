# SPDX-License-Identifier: Apache-2.0

"""Consoles: on and off, and where they are."""

import functools
import shutil
from typing import Any

import pytest

from tests.conformance.checks.nodes_patch import add
from tests.conformance.registry import check, check_each
from tests.conformance.subject import ANY, IMAGE, IronicUnderTest
from tools.real_ironic.ports import free_port


@functools.cache
def _port() -> int:
    """A port that was free just now; for both Ironics the same one."""
    return free_port()


def switch(ironic: IronicUnderTest, node: str, enabled: object) -> dict[str, Any]:
    """Switch a console; return what is said of it then."""
    path = f"/v1/nodes/{node}/states/console"
    assert ironic.put(path, {"enabled": enabled}).status == 202
    ironic.settle(node)
    body: dict[str, Any] = ironic.get(path).body
    return body


@check
def _(ironic: IronicUnderTest) -> None:
    """a console is switched on and off, and nothing else"""
    node = ironic.node()
    path = f"/v1/nodes/{node}/states/console"
    ironic.get(path)
    for enabled in (True, True, False, False, "true", "off"):
        switch(ironic, node, enabled)
        ironic.get(f"/v1/nodes/{node}?fields=console_enabled,last_error")
    for body in ({}, {"enabled": None}, {"enabled": "perhaps"}, {"enabled": True, "a": 1}):
        ironic.put(path, body, expect=ANY)
        ironic.settle(node)
    ironic.set_node(node, reservation="conductor-1")
    ironic.put(path, {"enabled": True}, expect=409)


@check
def _(ironic: IronicUnderTest) -> None:
    """a graphical console is at the page of Ironic's own proxy"""
    node = ironic.node(console_interface="fake-graphical")
    for enabled in (True, False, True):
        switch(ironic, node, enabled)
        notes = ironic.get(f"/v1/nodes/{node}?fields=driver_internal_info").body
        found = notes["driver_internal_info"]
        place = ("192.0.2.1", 5900) if enabled else (None, None)
        assert (found.get("vnc_host"), found.get("vnc_port")) == place


@check
def _(ironic: IronicUnderTest) -> None:
    """a serial console is at a port of the conductor's"""
    if ironic.runs_programs and shutil.which("socat") is None:
        pytest.skip("socat is not installed")
    port = _port()
    info = {"ipmi_address": "127.0.0.1", "ipmi_terminal_port": port}
    node = ironic.node(console_interface="ipmitool-socat", driver_info=info)
    place = {"type": "socat", "url": f"tcp://127.0.0.1:{port}"}
    assert switch(ironic, node, True)["console_info"] == place
    assert switch(ironic, node, False)["console_info"] is None


@check
def _(ironic: IronicUnderTest) -> None:
    """a serial console needs a BMC and a port"""
    node = ironic.node(console_interface="ipmitool-socat")
    path = f"/v1/nodes/{node}/states/console"
    ironic.put(path, {"enabled": True}, expect=400)
    ironic.set_node(node, console_enabled=True)
    ironic.get(path, expect=400)
    ironic.set_node(node, console_enabled=False)
    ironic.patch(f"/v1/nodes/{node}", add("/driver_info/ipmi_address", "127.0.0.1"))
    ironic.put(path, {"enabled": True}, expect=400)


@check_each("fake", "fake-graphical")
def _(ironic: IronicUnderTest, interface: str) -> None:
    """what a teardown leaves of a console of interface {}"""
    node = ironic.node(console_interface=interface, instance_info=IMAGE)
    ironic.provision(node, "active")
    switch(ironic, node, True)
    ironic.provision(node, "deleted")
    ironic.get(f"/v1/nodes/{node}/states/console")
    ironic.get(f"/v1/nodes/{node}?fields=console_enabled,last_error")


@check
def _(ironic: IronicUnderTest) -> None:
    """a node without a console says so"""
    path = f"/v1/nodes/{ironic.node(console_interface='no-console')}/states/console"
    ironic.get(path)
    ironic.put(path, {"enabled": True}, expect=400)
