# SPDX-License-Identifier: Apache-2.0

"""TCP ports for servers that can't choose one for themselves."""

import random
import socket
from pathlib import Path

_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_LOWEST = 10000
_ATTEMPTS = 100


def free_port() -> int:
    """A TCP port of 127.0.0.1 that was free just now.

    Where that can be known, it is none of those that the system gives to connections: on a
    machine with many of them one would take it before the server does.
    """
    above = _lowest_given()
    rng = random.SystemRandom()
    for _ in range(_ATTEMPTS if above > _LOWEST else 0):
        port = rng.randrange(_LOWEST, above)
        if _is_free(port):
            return port
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        given: int = probe.getsockname()[1]
    return given


def free_address(port: int) -> str:
    """A loopback address whose TCP port was free just now (Linux: it has 16 million)."""
    rng = random.SystemRandom()
    while True:
        address = ".".join(map(str, (127, *(rng.randrange(1, 255) for _ in range(3)))))
        if _is_free(port, address):
            return address


def _lowest_given() -> int:
    """The lowest port that the system gives to connections; 0: not known."""
    try:
        return int(_RANGE.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return 0


def _is_free(port: int, address: str = "127.0.0.1") -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((address, port))
        except OSError:
            return False
    return True
