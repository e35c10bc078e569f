# SPDX-License-Identifier: Apache-2.0

"""A site with an Ironic, records and compute services, on which a page can be followed.

Commands are run by a shell as they stand on the page, and so are ``ironic-virt``,
``ironic-virt-manage``, ``ironic-virt-compute`` and Ironic's ``baremetal`` for real.
Two things are not an operator's: ``/etc/ironic-virt`` is a directory of the test, and
``systemctl`` a script that starts and stops the processes, as there is no systemd.
"""

import contextlib
import json
import os
import shutil
import signal
import sqlite3
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests import programs
from tests.functional.compute.processes import wait_for
from tests.functional.procedures.pages import Command, File, steps

ETC = "/etc/ironic-virt"
_HERE = Path(__file__).parent
_SECONDS = 600
_SCRIPTS = {
    "ironic-virt": programs.COMMAND,
    "ironic-virt-manage": programs.MANAGE,
    "ironic-virt-compute": programs.COMPUTE,
    "baremetal": "ironicclient.shell",
}


class Failed(AssertionError):
    """A command ended otherwise than well."""


class Site:
    """One site.

    :param directory: for everything of it.
    :param ironic_url: of an Ironic that asks nobody who he is.
    :param database_url: of the records, in SQLite.
    """

    def __init__(self, directory: Path, ironic_url: str, database_url: str) -> None:
        self.etc = directory / "etc"
        self._bin = directory / "bin"
        self.home = directory / "home"
        for path in (self.etc, self._bin, self.home):
            path.mkdir()
        shutil.copy(_HERE / "systemctl", self._bin)
        for name, module in _SCRIPTS.items():
            programs.write_script(self._bin / name, module)
        self._records = database_url.removeprefix("sqlite:///")
        self._transcript: list[str] = []
        self._environment = {
            **os.environ,
            "PATH": os.pathsep.join([str(self._bin), os.environ["PATH"]]),
            "HOME": str(self.home),
            "CONFIG": str(self.etc),
            "IRONIC_VIRT_CONFIG_FILE": str(self.etc / "ironic-virt.conf"),
            "OS_AUTH_TYPE": "none",
            "OS_ENDPOINT": ironic_url,
        }
        # On a host that is busy, a service reports late; one story waits for this time to pass.
        self.configure(
            "ironic-virt",
            f"""\
[DEFAULT]
state_path = {directory}
report_interval = 1
service_down_time = 8
[compute]
task_interval = 0.2
resource_refresh_interval = 1
[database]
connection = {database_url}
[ironic]
auth_type = none
endpoint_override = {ironic_url}
api_retry_interval = 1
""",
        )

    def configure(self, name: str, text: str) -> None:
        """Write a file into ``/etc/ironic-virt``."""
        (self.etc / f"{name}.conf").write_text(text)

    def follow(self, page: str, replaced: Mapping[str, str] | None = None) -> None:
        """Do what a page says.

        :param page: below ``admin``.
        :param replaced: what a test has in place of what is printed.
        :raises Failed: a command failed.
        """
        shell: list[str] = ["set -euo pipefail"]
        for step in steps(page):
            match step:
                case File(path, text):
                    shell.append(f"cat > {path} <<'EOF_OF_FILE'\n{text}EOF_OF_FILE")
                case Command(text):
                    shell += [f"cat >&2 <<'EOF_OF_COMMAND'\n$ {text}\nEOF_OF_COMMAND", text]
        # One shell, as what an operator has set stays set.
        text = "\n".join(shell).replace(ETC, str(self.etc))
        for old, new in (replaced or {}).items():
            assert old in text, old
            text = text.replace(old, new)
        self._shell(text)

    def run(self, command: str) -> str:
        """Run one command.

        :returns: its standard output.
        :raises Failed: it failed.
        """
        return self._shell(f"set -euo pipefail\n{command}")

    def read(self, command: str) -> Any:
        """What one of our commands finds, as JSON."""
        return json.loads(self.run(f"{command} -f json"))

    def owners(self) -> dict[str, str]:
        """The services that have nodes, by the node's uuid."""
        return {row["UUID"]: row["Host"] for row in self.read("ironic-virt node list")}

    def services(self) -> dict[str, str]:
        """The services, up or down, by name."""
        return {row["Host"]: row["State"] for row in self.read("ironic-virt service list")}

    def start(self, *names: str) -> None:
        """Start services."""
        self.run("systemctl start " + " ".join(f"ironic-virt-compute@{name}" for name in names))

    def create(self, names: Sequence[str]) -> None:
        """Create active instances with a new flavor."""
        self.run("ironic-virt flavor create --property resources:CUSTOM_GOLD=1 gold")
        for name in names:
            self.run(
                "ironic-virt server create --wait --flavor gold --image "
                f"https://images.example.test/a.raw --image-checksum {'ab' * 16} {name}"
            )

    def pid(self, name: str) -> int:
        """The process of a service."""
        return int((self._bin / f"{name}.pid").read_text())

    def hang(self, pid: int) -> None:
        """Stop a process, but not in a change of the records: SQLite's file would stay locked."""

        def hangs() -> bool:
            os.kill(pid, signal.SIGSTOP)
            # A thread that is within a system call goes on to the end of that.
            wait_for("all of its threads to stand still", lambda: _states(pid) == {"T"})
            try:
                with contextlib.closing(
                    sqlite3.connect(self._records, timeout=1, isolation_level=None)
                ) as records:
                    records.execute("BEGIN IMMEDIATE")
                    records.execute("ROLLBACK")
            except sqlite3.OperationalError:
                os.kill(pid, signal.SIGCONT)
                return False
            return True

        wait_for("a moment without a change of the records", hangs)

    def close(self) -> None:
        """End all processes."""
        for path in self._bin.glob("*.pid"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(path.read_text()), signal.SIGKILL)

    def _shell(self, script: str) -> str:
        # Into files: a service that is started keeps what it was given.
        out, err = self.home / "stdout", self.home / "stderr"
        with out.open("w") as stdout, err.open("w") as stderr:
            code = subprocess.run(
                ["bash", "-c", script],
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                cwd=self.home,
                env=self._environment,
                timeout=_SECONDS,
                check=False,
            ).returncode
        if code:
            logs = "".join(
                f"--- {path.name}\n{path.read_text()[-4000:]}" for path in self._bin.glob("*.log")
            )
            raise Failed(f"exit code {code}\n{err.read_text()}{out.read_text()}{logs}")
        return out.read_text()


def _states(pid: int) -> set[str]:
    """The states of a process's threads, as the kernel names them."""
    found = set()
    for path in Path(f"/proc/{pid}/task").glob("*/stat"):
        with contextlib.suppress(OSError):  # it may have ended meanwhile
            found.add(path.read_text().rpartition(")")[2].split()[0])
    return found
