# SPDX-License-Identifier: Apache-2.0

"""Consoles on a real Ironic: a line that two want, a failure, a service that dies."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from ironic_virt import exceptions, virt
from ironic_virt.testing import real_ironic
from ironic_virt.testing.real_ironic import bmc
from tests.crashing import Crash
from tests.integration.services import SEEDS, Operator, Service, dying_service

MOST_REQUESTS = 20
SCREEN = {"console_interface": "fake-graphical"}

with_a_line = pytest.mark.skipif(
    shutil.which("socat") is None, reason="Ironic serves serial consoles by socat"
)

Make = Callable[[Mapping[str, Any]], virt.Instance]


@pytest.fixture
def make_instance(ironic_on_mariadb: real_ironic.RealIronic, service: Service) -> Make:
    """Make instances that are active, each on a node of its own."""

    def make(fields: Mapping[str, Any]) -> virt.Instance:
        seed = next(SEEDS)
        template = real_ironic.NodeTemplate(fields=fields)
        [node] = real_ironic.create_nodes(
            ironic_on_mariadb, 1, template, name=f"console-{seed}-{{}}", seed=seed
        )
        instance = service.instance_on(node)
        service.spawn(instance, [])
        return instance

    return make


def line() -> dict[str, Any]:
    """A serial line at a free port, with a BMC of its own."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    info = {"ipmi_address": f"bmc-of-{port}", "ipmi_terminal_port": port}
    return {"console_interface": "ipmitool-socat", "driver_info": info}


def is_on(operator: Operator, instance: virt.Instance) -> bool:
    assert instance.node is not None
    seen = operator.wait(instance.node, lambda now: True)
    return bool(seen["console_enabled"])


def opened(address: virt.ConsoleAddress) -> socket.socket:
    """A session there, in which the other side has said something."""
    session = socket.create_connection((address.host, address.port), timeout=60)
    assert bmc.GREETING.encode() in session.recv(100)
    return session


@with_a_line
def test_who_asks_for_a_serial_line_takes_it_from_whoever_has_it(
    service: Service, operator: Operator, make_instance: Make
) -> None:
    fields = line()
    instance = make_instance(fields)
    address = service.driver.get_serial_console(None, instance)
    port = fields["driver_info"]["ipmi_terminal_port"]
    assert address == virt.ConsoleAddress("serial", "127.0.0.1", port)
    with opened(address) as first:
        assert service.driver.get_serial_console(None, instance) == address
        try:
            while first.recv(100):
                pass
        except ConnectionResetError:
            pass
        with opened(address) as second:
            second.sendall(b"root\n")
            assert second.recv(100).startswith(b"root")
    service.destroy(instance)
    with pytest.raises(OSError, match="refused"):
        socket.create_connection((address.host, address.port), timeout=60)


def test_a_vnc_console_is_told_of_with_the_page_of_ironics_proxy(
    service: Service, operator: Operator, make_instance: Make
) -> None:
    instance = make_instance(SCREEN)
    address = service.driver.get_vnc_console(None, instance)
    assert (address.kind, address.host, address.port) == ("vnc", "192.0.2.1", 5900)
    assert address.url is not None
    assert address.url.startswith("http://127.0.0.1:6090/vnc_lite.html?path=websockify")
    # It stays for all who ask: the token is the same one.
    assert service.driver.get_vnc_console(None, instance) == address
    with pytest.raises(exceptions.ConsoleUnavailable, match="is of type 'vnc'"):
        service.driver.get_serial_console(None, instance)
    assert is_on(operator, instance)
    service.destroy(instance)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"console_interface": "no-console"}, "does not support console"),
        ({"console_interface": "fake"}, "has no address"),
        ({"console_interface": "ipmitool-socat"}, "'ipmi_address'"),
        (
            {"console_interface": "ipmitool-socat", "driver_info": {"ipmi_address": "bmc"}},
            "'ipmi_terminal_port'",
        ),
    ],
)
def test_what_a_node_lacks_is_told_and_no_console_stays_on(
    service: Service,
    operator: Operator,
    make_instance: Make,
    fields: Mapping[str, Any],
    why: str,
) -> None:
    instance = make_instance(fields)
    with pytest.raises(exceptions.ConsoleUnavailable, match=why):
        service.driver.get_serial_console(None, instance)
    assert not is_on(operator, instance)
    service.destroy(instance)


@with_a_line
def test_one_that_ironic_fails_to_switch_on_is_told_of(
    service: Service, operator: Operator, make_instance: Make
) -> None:
    fields = line()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", fields["driver_info"]["ipmi_terminal_port"]))
        taken.listen()
        instance = make_instance(fields)
        with pytest.raises(exceptions.ConsoleUnavailable, match="Address already in use"):
            service.driver.get_serial_console(None, instance)
        assert not is_on(operator, instance)
    assert service.driver.get_serial_console(None, instance).kind == "serial"
    service.destroy(instance)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_after_a_service_that_died_it_is_had(
    config: Path, service: Service, operator: Operator, make_instance: Make, after: bool
) -> None:
    """It dies at its first request, then, with the console off again, at its second, ..."""
    instance = make_instance(SCREEN)
    deaths: list[str] = []
    for at in range(1, MOST_REQUESTS):
        assert instance.node is not None
        operator.request("PUT", f"/nodes/{instance.node}/states/console", {"enabled": False})
        operator.wait(instance.node, lambda now: not now["console_enabled"])
        dying = dying_service(config, at, after=after, starting=False)
        try:
            dying.driver.get_vnc_console(None, instance)
        except Crash as crash:
            deaths.append(str(crash))
        else:
            break
        finally:
            dying.driver.cleanup_host(dying.host)
        assert service.driver.get_vnc_console(None, instance).host == "192.0.2.1", deaths[-1]
    else:
        pytest.fail(f"it died at each of these requests, and there are more: {deaths}")
    assert any(death.startswith("PUT") for death in deaths), deaths
    service.destroy(instance)
