# SPDX-License-Identifier: Apache-2.0

"""``ironic-virt-compute`` as an operator runs it: their own processes, to be signalled.

A test waits for what it can see, in the records, in Ironic or in a log, never for
time to pass.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from ironic_virt import virt
from ironic_virt.compute.db import Database, records
from ironic_virt.testing.fake_ironic import FakeIronicServer
from tests import programs
from tests.functional.compute.stage import new_uuid
from tests.records import instance_of

T = TypeVar("T")

SECONDS = 120.0
"""More than anything here should take."""


def wait_for(what: str, look: Callable[[], T | None], seconds: float = SECONDS) -> T:
    """Look until there is something.

    :param look: its first result that is true is returned.
    """
    deadline = time.monotonic() + seconds
    while True:
        found = look()
        if found:
            return found
        assert time.monotonic() < deadline, f"{what}: not within {seconds} s"
        time.sleep(0.02)


class ComputeProcess:
    """One ``ironic-virt-compute``, started again as often as a test likes.

    :param directory: for its file and its log.
    """

    def __init__(
        self, directory: Path, host: str, database_url: str, ironic_url: str, **sections: Any
    ) -> None:
        self.host = host
        self.config = directory / f"{host}.conf"
        self.log = directory / f"{host}.log"
        self._sections: dict[str, dict[str, Any]] = {
            "DEFAULT": {"host": host, "state_path": directory, "report_interval": 1},
            "compute": {"task_interval": 0.1, "resource_refresh_interval": 1},
            "database": {"connection": database_url, "sqlite_synchronous": False},
            "ironic": {
                "auth_type": "none",
                "endpoint_override": ironic_url,
                "api_retry_interval": 1,
            },
        }
        self.configure(**sections)
        self._process: subprocess.Popen[bytes] | None = None

    def configure(self, **sections: dict[str, Any]) -> None:
        """Add options to its file; ``None`` takes one out."""
        for section, values in sections.items():
            kept = self._sections.setdefault(section, {})
            kept.update(values)
        lines = []
        for section, values in self._sections.items():
            lines.append(f"[{section}]")
            lines += [f"{name} = {value}" for name, value in values.items() if value is not None]
        self.config.write_text("\n".join(lines) + "\n")

    @property
    def module(self) -> str:
        """What is run."""
        return programs.COMPUTE

    def start(self, *argv: str) -> ComputeProcess:
        with self.log.open("ab") as log:
            options = ("--config-file", str(self.config), *argv)
            self._process = programs.start(self.module, *options, stdout=log, stderr=log)
        return self

    def started(self) -> ComputeProcess:
        """Start it, and return when it is up."""
        ups = self.text().count(" is up")
        self.start()
        self.wait_for_text(" is up", ups + 1)
        return self

    def text(self) -> str:
        """What it has logged so far."""
        return self.log.read_text() if self.log.exists() else ""

    def wait_for_text(self, text: str, times: int = 1) -> None:
        """Return when it has logged something so often."""

        def look() -> bool:
            assert self.running or self.text().count(text) >= times, self.text()
            return self.text().count(text) >= times

        wait_for(f"{text!r} in the log of {self.host}:\n{self.text()}", look)

    @property
    def running(self) -> bool:
        """Whether it runs."""
        return self._process is not None and self._process.poll() is None

    def signal(self, signum: signal.Signals) -> None:
        """Send it a signal."""
        assert self._process is not None
        self._process.send_signal(signum)

    def wait(self) -> int:
        """Wait for its end.

        :returns: its exit code; minus a signal's number if that ended it.
        """
        assert self._process is not None
        return self._process.wait(SECONDS)

    def kill(self) -> None:
        """End it as a power cut would."""
        if self._process is not None:
            if self.running:
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


Compute = Callable[..., ComputeProcess]
FLAVOR = virt.Flavor("bm", extra_specs={"resources:CUSTOM_GOLD": "1"})
GOLD: dict[str, Any] = {"resource_class": "gold", "ports": 1}
"""A node that does for it."""
IMAGE = virt.ImageMeta("https://images.example.test/a.raw", checksum="ab" * 16)


def create(db: Database, node: str, **fields: Any) -> str:
    """Want an instance on a node.

    :returns: its uuid.
    """
    new = records.NewInstance(uuid=new_uuid(), flavor=FLAVOR, image=IMAGE, **fields)
    db.instances.create_several([(new, db.compute_nodes.get(node))])
    return new.uuid


def wait_for_nodes(db: Database, host: str, nodes: list[str]) -> None:
    wait_for(
        f"the records of the nodes of {host}",
        lambda: set(db.compute_nodes.uuids(host)) == set(nodes),
    )


def wait_until(db: Database, uuid: str, vm_state: str) -> None:
    wait_for(
        f"instance {uuid} to be {vm_state}",
        lambda: instance_of(db, uuid).vm_state == vm_state,
    )


def built(db: Database, node: str, **fields: Any) -> str:
    """Want an instance, as :func:`create` does, and wait until it is active."""
    uuid = create(db, node, **fields)
    wait_until(db, uuid, "active")
    return uuid


def deployments(server: FakeIronicServer, verb: str = "active") -> list[str]:
    """The nodes that Ironic was asked to change, in the order of the requests."""
    return [
        entry.path.split("/")[3]
        for entry in server.fake.requests.matching("PUT", "/states/provision$")
        if entry.status == 202 and entry.body["target"] == verb
    ]
