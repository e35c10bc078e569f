# SPDX-License-Identifier: Apache-2.0

"""Consoles on a real Ironic: the next instance, and a service that dies."""

import shutil
import socket
from typing import Any

import pytest

from ironic_virt import virt
from tests.functional.compute.processes import wait_for
from tests.integration.services import SECONDS, Operator, node_of
from tests.integration.stage import Stage
from tools.real_ironic.ports import free_port

SCREEN = {"console_interface": "fake-graphical"}

with_a_line = pytest.mark.skipif(
    shutil.which("socat") is None, reason="Ironic serves serial consoles by socat"
)


def line() -> dict[str, Any]:
    """A serial line at a free port, with its own BMC."""
    port = free_port()
    info = {"ipmi_address": f"bmc-of-{port}", "ipmi_terminal_port": port}
    return {"console_interface": "ipmitool-socat", "driver_info": info}


def is_on(operator: Operator, instance: virt.Instance) -> bool:
    return bool(operator.at_rest(node_of(instance))["console_enabled"])


def connected(address: virt.ConsoleAddress) -> socket.socket | None:
    """A session there; ``None``: nobody listens."""
    try:
        return socket.create_connection((address.host, address.port), timeout=SECONDS)
    except ConnectionRefusedError:
        return None


def assert_nobody_listens(address: virt.ConsoleAddress) -> None:
    """Check that no session is possible once the program has ended."""

    def is_refused() -> bool:
        session = connected(address)
        if session is not None:
            session.close()
        return session is None

    wait_for("nobody to listen", is_refused, SECONDS)


@with_a_line
def test_a_former_console_user_does_not_see_the_next_instance(stage: Stage) -> None:
    instance = stage.active(fields=line())
    address = stage.service.driver.get_serial_console(instance)
    stage.service.destroy(instance)
    stage.operator.wait_for_state(node_of(instance), "available")
    assert not is_on(stage.operator, instance)
    another = stage.service.instance_on(node_of(instance))
    stage.service.spawn(another, [])
    assert_nobody_listens(address)
    assert stage.service.driver.get_serial_console(another) == address
    stage.service.destroy(another)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_after_a_service_that_died_it_is_had(stage: Stage, after: bool) -> None:
    """It dies at its first request, then, with the console off again, at its second, ..."""
    instance = stage.active(fields=SCREEN)

    def switched_off() -> virt.Instance:
        path = f"/nodes/{instance.node}/states/console"
        stage.operator.request("PUT", path, {"enabled": False})
        stage.operator.wait(node_of(instance), lambda now: not now["console_enabled"])
        return instance

    deaths: list[str] = []
    for death, _, _ in stage.after_deaths(
        switched_off,
        lambda service, one: service.driver.get_vnc_console(one),
        after=after,
        starting=False,
    ):
        deaths.append(death)
        assert stage.service.driver.get_vnc_console(instance).host == "192.0.2.1", death
    assert any(death.startswith("PUT") for death in deaths), deaths
    stage.service.destroy(instance)
