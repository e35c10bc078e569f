# SPDX-License-Identifier: Apache-2.0

"""A machine with its own network, for one program: its power and its packets end at once.

A HAProxy in a second network passes connections on to this machine's 127.0.0.1.
"""

import contextlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator

import pytest

_AROUND, _HERE = "198.51.100.1", "198.51.100.2"
_LOCAL = re.compile(r"\b127\.0\.0\.1:(\d+)")
_SETTINGS = "defaults\n mode tcp\n timeout connect 10s\n timeout client 1h\n timeout server 1h\n"


class Machine:
    """It, as long as its networks are there.

    :ivar names: those of the networks, its own first.
    :ivar enter: the command that leads to it.
    """

    def __init__(self) -> None:
        self.names = tuple(f"ironic-virt-{os.getpid()}-{end}" for end in "ab")
        self.enter = ("ip", "netns", "exec", self.names[0])

    def connect(self, text: str) -> tuple[str, str]:
        """Bring what a file names at 127.0.0.1 within reach.

        :returns: the file for the HAProxy, and that for a program of the machine.
        """
        listens = "".join(
            f"listen at{port}\n bind {_AROUND}:{port} namespace {self.names[1]}\n"
            f" server there 127.0.0.1:{port}\n"
            for port in sorted(set(_LOCAL.findall(text)))
        )
        return _SETTINGS + listens, _LOCAL.sub(rf"{_AROUND}:\1", text)

    def cut_off(self) -> None:
        """Pull its cable: no packet passes any more, not even the end of a connection."""
        _ip(f"-n {self.names[0]} link set wire down")


@contextlib.contextmanager
def new_machine() -> Iterator[Machine]:
    """A machine; the test is skipped where there can be none."""
    if os.geteuid() != 0 or not (shutil.which("ip") and shutil.which("haproxy")):
        pytest.skip("a network needs root, ip and haproxy")
    machine = Machine()
    here, around = machine.names
    with contextlib.ExitStack() as stack:
        for name in machine.names:
            _ip(f"netns add {name}")
            stack.callback(_ip, f"netns delete {name}")
        _ip(f"-n {here} link add wire type veth peer name wire netns {around}")
        for name, address in ((here, _HERE), (around, _AROUND)):
            _ip(f"-n {name} address add {address}/30 dev wire")
            for device in ("wire", "lo"):
                _ip(f"-n {name} link set {device} up")
        yield machine


def _ip(arguments: str) -> None:
    subprocess.run(["ip", *arguments.split()], check=True, capture_output=True)
