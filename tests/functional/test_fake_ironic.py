# SPDX-License-Identifier: Apache-2.0

"""The fake Ironic over HTTP: the server, its faults, and the command."""

import json
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest
import requests

from ironic_virt.testing.fake_ironic import FakeIronicServer

SECONDS = 60
"""More than anything here should take."""

HEADERS = {"X-OpenStack-Ironic-API-Version": "1.82"}


@pytest.fixture
def client() -> Iterator[requests.Session]:
    with requests.Session() as session:
        session.headers.update(HEADERS)
        # As it is with urllib3 2: a body that is cut off is an error.
        session.hooks["response"].append(
            lambda answer, **_: setattr(answer.raw, "enforce_content_length", True)
        )
        yield session


def nodes(client: requests.Session, server: FakeIronicServer) -> list[str]:
    body = client.get(f"{server.url}/v1/nodes", timeout=SECONDS).json()
    return [row["uuid"] for row in body["nodes"]]


def test_a_hanging_request_holds_up_nobody_else(fake_ironic_server, client) -> None:
    fake_ironic_server.fake.faults.hang("GET", "/conductors")
    with pytest.raises(requests.ReadTimeout):
        client.get(f"{fake_ironic_server.url}/v1/conductors", timeout=0.2)
    assert nodes(client, fake_ironic_server) == []


def test_the_server_stops_in_the_middle_of_a_hang() -> None:
    server = FakeIronicServer().start()
    server.fake.faults.hang()
    struck = threading.Event()
    server.fake.requests.listener = lambda entry: struck.set()
    with socket.create_connection(("127.0.0.1", server.port), timeout=SECONDS) as raw:
        raw.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert struck.wait(SECONDS)
        server.stop()
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", server.port), timeout=SECONDS)


COMMAND = (sys.executable, "-m", "ironic_virt.cmd.fake_ironic")
OPTIONS = (
    "--port 0 --nodes 6 --shards 2 --conductor-groups ,rack1 --resource-class gold silver iron"
    " --max-version 1.82 --json"
)


@pytest.fixture
def command() -> Iterator[subprocess.Popen[str]]:
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([*COMMAND, *OPTIONS.split()], **pipes) as process:
        yield process
        process.kill()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_command_serves_as_told_until_it_is_stopped(command, client, number) -> None:
    assert command.stdout is not None
    assert command.stderr is not None
    url = json.loads(command.stdout.readline())["url"]
    fields = "fields=shard,conductor_group,resource_class,provision_state"
    rows = client.get(f"{url}/v1/nodes?{fields}", timeout=SECONDS).json()["nodes"]
    assert {row["shard"] for row in rows} == {"shard-1", "shard-2"}
    assert {row["conductor_group"] for row in rows} == {"", "rack1"}
    assert {row["resource_class"] for row in rows} == {"gold", "silver", "iron"}
    assert {row["provision_state"] for row in rows} == {"available"}
    client.headers["X-OpenStack-Ironic-API-Version"] = "1.83"
    assert client.get(f"{url}/v1/nodes", timeout=SECONDS).status_code == 406
    command.send_signal(number)
    assert command.wait(SECONDS) == 0
    log = command.stderr.read()
    assert f"GET /v1/nodes?{fields} 200" in log
    assert "Traceback" not in log


def test_the_command_says_that_its_port_is_taken(fake_ironic_server: FakeIronicServer) -> None:
    port = str(fake_ironic_server.port)
    done = subprocess.run(
        [*COMMAND, "--port", port], capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert done.returncode == 2
    said = f"ironic-virt-fake-ironic: can't listen on 127.0.0.1:{port}: Address already in use\n"
    assert done.stderr == said
