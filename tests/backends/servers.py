# SPDX-License-Identifier: Apache-2.0

"""A Redis or an etcd of a test's own."""

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ironic_virt.testing.server_process import ServerProcess
from tests.nova_deployment.processes import listens, wait_for
from tools.real_ironic.ports import free_port

_PROGRAMS = {"redis": "redis-server", "etcd": "etcd"}


class Backend:
    """One server.

    :ivar url: as tooz wants it.
    :param more: further options of the program, by their names with underscores; ``PORT`` in a
        value is the server's.
    """

    def __init__(self, kind: str, program: str, **more: str) -> None:
        self.port, peers = free_port(), free_port()
        self._directory = Path(tempfile.mkdtemp(prefix=f"ironic-virt-{kind}-"))
        here, there = (f"http://127.0.0.1:{port}" for port in (self.port, peers))
        if kind == "redis":
            self.url = f"redis://127.0.0.1:{self.port}"
            options = {"port": str(self.port), "bind": "127.0.0.1", "save": ""}
        else:
            self.url = f"etcd3+{here}"
            options = {
                "data-dir": str(self._directory / "data"),
                "listen-client-urls": here,
                "advertise-client-urls": here,
                "listen-peer-urls": there,
                "initial-advertise-peer-urls": there,
                "initial-cluster": f"default={there}",
            }
        self._command = [program]
        for name, value in {**options, **more}.items():
            self._command += [
                f"--{name.replace('_', '-')}",
                *value.replace("PORT", str(self.port)).split(" "),
            ]
        self.start()

    def start(self) -> None:
        """Start it, with what it had stored on disk before."""
        self._process = ServerProcess(
            self._command, directory=self._directory, log=self._directory / "log"
        )
        wait_for(" ".join(self._command), lambda: listens(self.port))

    def kill(self) -> None:
        """End it as a power cut would."""
        self._process.kill()

    def stop(self) -> None:
        self._process.stop()
        shutil.rmtree(self._directory, ignore_errors=True)


@contextlib.contextmanager
def backend(kind: str, **more: str) -> Iterator[Backend]:
    """A server of a kind; the test is skipped where its program is not installed."""
    program = shutil.which(_PROGRAMS[kind])
    if program is None:
        pytest.skip(f"{_PROGRAMS[kind]} is not installed")
    made = Backend(kind, program, **more)
    try:
        yield made
    finally:
        made.stop()
