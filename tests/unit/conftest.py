# SPDX-License-Identifier: Apache-2.0

"""Holds unit tests to their promise: a test that opens a connection fails."""

import socket
from typing import Any, NoReturn

import pytest


@pytest.fixture(autouse=True)
def no_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse every connection and every listener, also on the loopback."""

    def refuse(self: socket.socket, address: Any, *args: Any) -> NoReturn:
        pytest.fail(f"a unit test may not use the network, this one wants {address!r}")

    for method in ("bind", "connect", "connect_ex"):
        monkeypatch.setattr(socket.socket, method, refuse)
