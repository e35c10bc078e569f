# SPDX-License-Identifier: Apache-2.0

"""The demo on a machine: enroll it, create a server on it, and delete the server.

    python -m tools.demo_metal

``make demo IRONIC=metal`` runs it.  What the machine says on its serial line is shown between the
lines of progress, after a bar: a kernel that starts, what the agent does, the system that was
deployed.  All of it, a thousand lines for each boot, is shown with ``-v``.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable

from ironic_virt.cmd.configured import ENVIRONMENT
from ironic_virt.cmd.demo.commands import Commands, DemoFailed, Display
from tools import real_ironic
from tools.real_ironic import metal
from tools.real_ironic.metal import host
from tools.real_ironic.metal.machine import wait_for

_CONFIG = """\
[DEFAULT]
host = demo
state_path = {directory}
[compute]
resource_refresh_interval = 2
[ironic]
auth_type = none
endpoint_override = {url}
deploy_timeout = 7200
power_timeout = 1800
timeout = 300
"""
_USER_DATA = """\
#cloud-config
runcmd:
  - [sh, -c, 'echo "$(hostname): $(uptime --pretty), on $(uname -r)" > /dev/ttyS0']
"""
_SECONDS = 3600.0
_WIDTH = 76
# Of the thousand lines that a boot has.
_SHOWN = re.compile(
    r"Linux version|METAL-RAMDISK|Image streamed|Executing command: [a-z]+\.(prepare|execute)"
    r"|Welcome to|cloud-init\[.*(running|finished)|login:|web: up|Power down"
)
_NOISE = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]|[^\x20-\x7e]")


class SerialLine:
    """Shows what a machine says.

    :param whole: every line.
    """

    def __init__(self, machine: metal.Machine, display: Display, whole: bool) -> None:
        self._machine = machine
        self._display = display
        self._whole = whole
        self._seen = 0

    def show(self) -> None:
        """Show the lines that are new."""
        lines, self._seen = self._machine.lines(self._seen)
        for line in lines:
            if self._whole or _SHOWN.search(line):
                text = " ".join(_NOISE.sub("", line).split())
                self._display.note(f"  \x1b[32m\u2502\x1b[0m {text[:_WIDTH]}")


def _follow(line: SerialLine, what: str, look: Callable[[], object]) -> None:
    """Wait for something, and show the serial line meanwhile."""

    def look_beside() -> object:
        line.show()
        return look()

    wait_for(what, look_beside, _SECONDS, pause=0.2)


def _run(lab: metal.Lab, display: Display) -> None:
    config, data = lab.directory / "ironic-virt.conf", lab.directory / "user-data"
    config.write_text(_CONFIG.format(directory=lab.directory, url=lab.ironic_url))
    data.write_text(_USER_DATA)
    os.environ[ENVIRONMENT] = str(config)
    os.chdir(lab.directory)
    machine = lab.machine()
    line = SerialLine(machine, display, "-v" in sys.argv)
    command = Commands(display)
    command.meanwhile = line.show

    began = time.monotonic()
    display.command("# 1. The machine becomes a node of Ironic's")
    lab.enroll(machine)
    lab.provision(machine, "provide", "available")
    display.done(f"Node {machine.name} is available", time.monotonic() - began)
    service = lab.run("compute", [sys.executable, "-m", "ironic_virt.cmd.compute"])
    command("flavor", "create", "metal", "--resource-class", "metal")

    def is_known() -> bool:
        if service.poll() is not None:
            raise DemoFailed("ironic-virt-compute has ended")
        listing = ("-m", "ironic_virt.cmd.shell", "node", "list", "-f", "value")
        return machine.name in host.run(sys.executable, *listing)

    _follow(line, "the service's node", is_known)

    display.command("# 2. A server is built on it")
    checksum = lab.images.checksum("disk.raw")
    mark = machine.mark()
    command(
        *("server", "create", "--flavor", "metal", "--image", f"{lab.web}/disk.raw"),
        *("--image-checksum", checksum, "--user-data", data.name, "--key", "key.pub"),
        *("--network", f"address={machine.address}/24,gateway={metal.ADDRESS}"),
        *("--wait", "-c", "name", "-c", "status", "web"),
    )
    display.note("The server's system boots ...")
    _follow(line, "the system", lambda: "web: up" in machine.said(mark))
    seen = machine.wait_for_ssh("hostname; uptime --pretty", _SECONDS)
    display.command(f"ssh debian@{machine.address} 'hostname; uptime --pretty'")
    display.note(seen.strip())

    display.command("# 3. The server is deleted, and Ironic cleans the disk")
    lab.change(machine, "automated_clean", True)
    command("server", "delete", "web", "--wait")
    _follow(line, "the clean node", lambda: lab.is_in(machine, "available"))
    display.note("Node metal-0 is available again, and its disk has no partition table")
    if b"EFI PART" in machine.first_megabyte():
        raise DemoFailed("the disk was not wiped")


def main() -> int:
    """Return the exit code; 2: something is missing, which is said in one line."""
    display = Display(sys.stdout)
    began = time.monotonic()
    try:
        environment, images, _ = metal.enter("tools.demo_metal", display.note)
        display.note("ironic-virt: a server on a machine, with its serial line after the bar")
        with metal.Lab(images, environment, progress=display.note) as lab:
            _run(lab, display)
    except (real_ironic.RealIronicError, DemoFailed, TimeoutError, RuntimeError) as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    display.done("All is removed", time.monotonic() - began)
    return 0


if __name__ == "__main__":
    sys.exit(main())
