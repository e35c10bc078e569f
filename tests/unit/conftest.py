# SPDX-License-Identifier: Apache-2.0

"""Holds unit tests to their promise: a test that opens a connection fails."""

import socket
from typing import Any, NoReturn

import hypothesis
import pytest

from tests import depth

hypothesis.settings.register_profile(
    "ironic_virt",
    # How long an example takes says more of the machine than of the code.
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
    max_examples=depth.choose(40, 1000),
    # A nightly run looks for what nobody has found yet; what it finds, it prints.
    derandomize=depth.choose(True, False),
    database=None,
    print_blob=True,
)
hypothesis.settings.load_profile("ironic_virt")


@pytest.fixture(autouse=True)
def no_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse every connection and every listener, also on the loopback."""

    def refuse(self: socket.socket, address: Any, *args: Any) -> NoReturn:
        pytest.fail(f"a unit test may not use the network, this one wants {address!r}")

    for method in ("bind", "connect", "connect_ex"):
        monkeypatch.setattr(socket.socket, method, refuse)
