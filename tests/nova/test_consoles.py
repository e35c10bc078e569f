# SPDX-License-Identifier: Apache-2.0

"""Consoles of servers by Nova's API, with Nova's in-tree driver and with ours."""

import contextlib
import re
import shutil
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from nova import context, objects, utils
from nova.compute import rpcapi
from nova.tests.functional.api import client

from tests.nova import figures
from tests.nova.deployment import Deployment
from tools.real_ironic import bmc

pytestmark = pytest.mark.skipif(
    shutil.which("socat") is None, reason="Ironic serves serial consoles by socat"
)

VNC = {"protocol": "vnc", "type": "novnc"}
SERIAL = {"protocol": "serial", "type": "serial"}
GRAPHICAL = "fake-graphical"
PATIENCE = 300.0
"""Seconds that a client of a console waits for output."""
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class Consoles(Deployment):
    """One compute service."""

    def setUp(self) -> None:
        super().setUp()
        # By default 10 s, in which Ironic and socat have to get their turn.
        self.start_nova(
            self._real,
            serial_console_state_timeout=int(PATIENCE),
            vnc_console_state_timeout=int(PATIENCE),
        )
        self.flags(enabled=True, group="serial_console")
        self.flags(enabled=True, group="vnc")

    def servers_on(self, *nodes: str) -> list[dict[str, Any]]:
        """A server on each node."""
        self.start_service("compute", "compute1")
        servers = [self.boot(f"server-{number}") for number, _ in enumerate(nodes)]
        for server in servers:
            self.wait_for(server, "ACTIVE")
        by_node = {self.node_of(server): server for server in servers}
        return [by_node[node] for node in nodes]

    def node_with_a_serial_line(self) -> tuple[str, int]:
        """A node, and the port of its line."""
        (module,) = self._real.environment.directory.glob(
            "lib/python3*/site-packages/ironic/drivers/modules/console_utils.py"
        )
        # Ironic 29.0.6, 32.0.1 and 35.0.1.
        if "shlex.quote(console_cmd)" in module.read_text():
            self.skipTest("this Ironic hands socat its command as one word, in vain")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        # The stand-in for its BMC goes by the address.
        info = {"ipmi_address": f"bmc-of-{port}", "ipmi_terminal_port": port}
        fields = {"console_interface": "ipmitool-socat", "driver_info": info}
        (node,) = self.make_nodes(1, fields=fields)
        return node, port

    def console(self, server: dict[str, Any], which: dict[str, str]) -> tuple[str, int]:
        """Where one of Nova's proxies is sent by the URL that a user gets."""
        with utils.temporary_mutation(self.api, microversion="2.31"):
            body = {"remote_console": which}
            answer = self.api.api_post(f"/servers/{server['id']}/remote-consoles", body)
            token = _UUID.search(answer.body["remote_console"]["url"])
            assert token is not None
            told = self.api.api_get(f"/os-console-auth-tokens/{token[0]}").body["console"]
        assert told["instance_uuid"] == server["id"]
        return told["host"], told["port"]

    def may_connect(self, server: dict[str, Any], which: dict[str, str], port: int) -> bool:
        """Nova's answer to a proxy that asks whether to connect a client to a port."""
        admin = context.get_admin_context()
        instance = objects.Instance.get_by_uuid(admin, server["id"])
        return rpcapi.ComputeAPI().validate_console_port(admin, instance, str(port), which["type"])

    def switch_on(self, node: str) -> None:
        """Switch a console on, as an operator does."""
        self.ironic("PUT", f"/nodes/{node}/states/console", {"enabled": True})
        self.wait_for_console(node)

    def wait_for_console(self, node: str, on: bool = True) -> None:
        """Wait until Ironic has switched it."""
        self.until(
            lambda: self.node(node),
            lambda now: (now["console_enabled"], now["reservation"]) == (on, None),
        )

    def test_nova_sends_its_proxy_to_a_screen(self) -> None:
        if GRAPHICAL not in self._real.environment.interfaces("console"):
            self.skipTest("this Ironic has no graphical consoles")
        (screen,) = self.make_nodes(1, fields={"console_interface": GRAPHICAL})
        (server,) = self.servers_on(screen)
        assert self.console(server, VNC) == ("192.0.2.1", 5900)
        assert self.may_connect(server, VNC, 5900)
        assert not self.may_connect(server, VNC, 5901)
        self.wait_for_console(screen)

    @pytest.mark.seldom
    def test_nova_sends_its_proxy_to_a_serial_line(self) -> None:
        line, port = self.node_with_a_serial_line()
        (with_line,) = self.servers_on(line)
        self.switch_on(line)
        with self.connected(port) as somebody:
            assert self.console(with_line, SERIAL) == ("127.0.0.1", port)
            assert is_over(somebody)
        assert self.may_connect(with_line, SERIAL, port)
        assert not self.may_connect(with_line, SERIAL, port + 1)
        with self.connected(port):
            pass

    @contextlib.contextmanager
    def connected(self, port: int) -> Iterator[socket.socket]:
        """Open a session and wait for its greeting: Ironic reports a console before it listens."""

        def connect() -> socket.socket | None:
            try:
                return socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
            except ConnectionRefusedError:
                return None

        with self.until(connect, bool) as session:
            told = b""
            while bmc.GREETING.encode() not in told:
                more = session.recv(100)
                assert more, told
                told += more
            yield session


def is_over(session: socket.socket) -> bool:
    """Whether the other side has ended it."""
    try:
        while session.recv(100):
            pass
    except ConnectionResetError:
        pass
    except TimeoutError:
        return False
    return True


class TestConsolesInTree(Consoles, driver=figures.IN_TREE):
    """Nova's own driver."""


class TestConsoles(Consoles, driver=figures.OURS):
    """Ours, and what only ours does."""

    def test_a_serial_console_is_switched_on_for_whoever_asks(self) -> None:
        node, port = self.node_with_a_serial_line()
        (server,) = self.servers_on(node)
        with pytest.raises(client.OpenStackApiException, match="is of type 'socat'") as caught:
            self.console(server, VNC)
        assert caught.value.response.status_code == 400
        # It was switched on for that, and is of no use.
        self.wait_for_console(node, on=False)
        assert self.console(server, SERIAL) == ("127.0.0.1", port)
        with self.connected(port):
            pass
