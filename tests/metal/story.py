# SPDX-License-Identifier: Apache-2.0

"""The steps of the story.  What they assert is seen on the machine, never by Ironic's word alone.

A step goes on from what the one before has left, so one that fails ends the story.
"""

import json
import re
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable
from urllib import parse

from tools.real_ironic.metal import ADDRESS, Lab, Machine
from tools.real_ironic.metal.machine import wait_for

SECONDS = 3600.0
"""More than any step should take, on a host that emulates slowly and is busy."""

PASSWORD = "Sesame-open-7"
SECTOR = 512

_USER_DATA = """#cloud-config
write_files:
  - path: /root/from-user-data
    content: it-was-here
runcmd:
  - [sh, -c, 'echo METAL-USER-DATA $(hostname) $(cat /root/from-user-data) > /dev/ttyS0']
"""


class Broken(Exception):
    """Something was not as it should be."""


class Story:
    """The lab, its machines, a compute service, and what was counted.

    :param night: there are two machines, the second with UEFI, and Ironic picks the node.
    :ivar machines: the first one is the machine of steps that need only one.
    :ivar checks: how many things were seen to be right.
    """

    def __init__(self, lab: Lab, night: bool = False) -> None:
        self.lab = lab
        self.machines = [lab.machine(), *([lab.machine(1, uefi=True)] if night else [])]
        self.machine = self.machines[0]
        self.raw = self.image("disk.raw")
        self.checks = 0
        self.boot_ids: list[str] = []
        self.user_data = lab.directory / "user-data"
        self.user_data.write_text(_USER_DATA)
        self.conf = lab.directory / "ironic-virt.conf"
        self.conf.write_text(
            f"[DEFAULT]\nhost = metal\nstate_path = {lab.directory}/state\n"
            "[compute]\nresource_refresh_interval = 10\nshutdown_timeout = 900\n"
            f"[ironic]\nauth_type = none\nendpoint_override = {lab.ironic_url}\n"
            "deploy_timeout = 7200\nrescue_timeout = 7200\npower_timeout = 1800\ntimeout = 300\n"
            "serial_console_state_timeout = 900\n"
            f"node_selection = {'ironic' if night else 'scheduler'}\n"
        )
        (lab.directory / "state").mkdir()

    # -- asking ---------------------------------------------------------------

    def check(self, what: str, right: object, seen: object = "") -> None:
        """Count something that was seen.

        :raises Broken: it is not right.
        """
        if not right:
            raise Broken(f"{what}: {seen!r}")
        self.checks += 1
        print(f"    {what}: {str(seen).strip() or 'yes'}", flush=True)

    def command(self, *argv: str, fails: bool = False) -> str:
        """Run ``ironic-virt``; what it prints.

        :param fails: it has to fail; with what it prints on standard error.
        """
        program = (sys.executable, "-m", "ironic_virt.cmd.shell", "--config-file", str(self.conf))
        done = subprocess.run([*program, *argv], capture_output=True, text=True, check=False)
        if bool(done.returncode) is not fails:
            raise Broken(f"ironic-virt {' '.join(argv)}: {done.returncode}\n{done.stderr}")
        return done.stdout + done.stderr if fails else done.stdout

    def ask(self, *argv: str, fails: bool = False) -> str:
        """Ask for something of a server, and wait until it is done."""
        return self.command("server", *argv, "--wait", "--timeout", "7200", fails=fails)

    def image(self, name: str) -> tuple[str, ...]:
        """The arguments that name an image of the lab's."""
        url, checksum = f"{self.lab.web}/{name}", self.lab.images.checksum(name)
        return ("--image", url, "--image-checksum", checksum)

    def start_service(self) -> None:
        """Start a compute service, and return when it knows the nodes."""
        module, options = "ironic_virt.cmd.compute", ("--config-file", str(self.conf))
        self.service = self.lab.run(
            "ironic-virt-compute", [sys.executable, "-m", module, *options]
        )
        listing = ("node", "list", *(["--pools"] if self.machines[1:] else []), "-f", "value")

        def are_known() -> bool:
            return len(self.command(*listing).splitlines()) >= len(self.machines)

        self.check("the service's nodes", wait_for("the service's nodes", are_known, SECONDS))

    def create(self, name: str, machine: Machine, *image: str, flavor: str = "metal") -> None:
        """Ask for a server with a config drive, and return when its user data has come."""
        mark = machine.mark()
        self.ask("create", "--flavor", flavor, *image, *self.given(machine), name)
        line = machine.wait_for_line(f"METAL-USER-DATA {name}", mark, SECONDS)
        self.check("user data on the serial line", line.endswith(f"{name} it-was-here"), line)

    def given(self, machine: Machine) -> tuple[str, ...]:
        """The arguments of what a server's config drive has."""
        return (
            *("--network", f"address={machine.address}/24,gateway={ADDRESS}"),
            *("--user-data", str(self.user_data), "--key", f"{self.lab.key}.pub"),
        )

    def inside(self, command: str, machine: Machine | None = None) -> str:
        """Run a command in the server's system, as soon as it lets us in."""
        return (machine or self.machine).wait_for_ssh(command, SECONDS).strip()

    def boot_id(self, machine: Machine | None = None) -> str:
        """Which boot the server's system is in; noted, and another one than ever before."""
        boot_id = self.inside("cat /proc/sys/kernel/random/boot_id", machine)
        self.check("a boot of its own", boot_id not in self.boot_ids, boot_id)
        self.boot_ids.append(boot_id)
        return boot_id

    def log_in_to_rescue(self, machine: Machine) -> None:
        """Log in to the rescue system, with the password."""
        found = machine.wait_for_ssh("id -un; hostname", SECONDS, user="rescue", password=PASSWORD)
        self.check("the rescue's password", found.split() == ["rescue", "ramdisk"], found.split())

    def status(self, server: str = "web") -> dict[str, str]:
        """What the service knows of a server."""
        shown: dict[str, str] = json.loads(self.command("server", "show", server, "-f", "json"))
        return shown


def enroll(story: Story) -> None:
    """The node is enrolled, and the service finds it."""
    lab, machine = story.lab, story.machine
    lab.enroll(machine)
    lab.provision(machine, "provide", "available")
    story.command("flavor", "create", "metal", "--resource-class", "metal")
    story.start_service()


def create(story: Story) -> None:
    """A raw image by URL, without its format, with a config drive."""
    machine = story.machine
    story.create("web", machine, *story.raw)
    name = story.inside("hostname")
    story.check("key and host name", name == "web", name)
    network = story.inside("cat /etc/network/interfaces.d/*; ip -4 -oneline address")
    static = re.search(rf"inet static(\n.*)*address {re.escape(machine.address)}", network)
    story.check("static address", static, static and static[0].split("\n")[-1])
    root = story.inside("df --output=size -m / | tail -n 1")
    story.check("root file system grown, MiB", int(root) > 4000, root)
    story.boot_id()


def reboot(story: Story) -> None:
    """A soft reboot, which the system hears."""
    mark = story.machine.mark()
    story.ask("reboot", "web")
    line = story.machine.wait_for_line("reboot: ", mark, SECONDS)
    story.check("the system has shut down", line, line)
    story.machine.wait_for_line("Linux version", mark, SECONDS)
    story.boot_id()


def console(story: Story) -> None:
    """The serial console shows a hard reboot."""
    url = story.command("server", "console", "url", "show", "web", "-f", "value", "-c", "url")
    place = parse.urlsplit(url.strip())
    seen = bytearray()
    # Not any one line: the BMC drops what comes faster than it sends.  What it has kept from
    # before is later than a boot's first seconds.
    kernel = re.compile(rb"\[ {4}\d\.\d{6}\] ")

    def read() -> None:
        with socket.create_connection((place.hostname, place.port), timeout=SECONDS) as line:
            while not kernel.search(seen) and (data := line.recv(4096)):
                seen.extend(data)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    mark = story.machine.mark()
    story.ask("reboot", "--hard", "web")
    story.machine.wait_for_line("Linux version", mark, SECONDS)
    story.boot_id()
    reader.join(60)
    story.check("kernel on the console", kernel.search(seen), f"{len(seen)} bytes")


def nmi(story: Story) -> None:
    """An NMI crashes the system, which boots again."""
    mark = story.machine.mark()
    story.ask("dump", "create", "web")
    line = story.machine.wait_for_line("Kernel panic", mark, SECONDS)
    story.check("panic on the serial line", "NMI" in line, line)
    story.machine.wait_for_line("Linux version", mark, SECONDS)
    story.boot_id()


def rescue(story: Story) -> None:
    """Without fast track Ironic powers the node off: a failure; with it the password works."""
    machine = story.machine
    secret = story.lab.directory / "rescue-password"
    secret.write_text(PASSWORD)
    secret.chmod(0o600)
    asked = ("rescue", "--password-file", str(secret), "web")
    said = story.ask(*asked, fails=True)
    story.check("a node that is off is no rescue", "fast_track" in said, said.splitlines()[-1])
    story.check("the server's status", (status := story.status()["status"]) == "ACTIVE", status)
    story.boot_id()
    story.lab.change(machine, "driver_info/fast_track", True)
    story.ask(*asked)
    story.log_in_to_rescue(machine)
    story.ask("unrescue", "web")
    story.lab.change(machine, "driver_info/fast_track", False)
    story.boot_id()


def stop(story: Story) -> None:
    """A stop lets the system shut down; a hard one does not."""
    machine = story.machine
    mark = machine.mark()
    story.ask("stop", "web")
    line = machine.wait_for_line("Power down", mark, 60)
    story.check("the system has shut down", line and not machine.is_on, line)
    story.ask("start", "web")
    story.boot_id()
    mark = machine.mark()
    story.ask("stop", "--hard", "web")
    story.check("the power is cut", not machine.is_on and "Power down" not in machine.said(mark))


def delete(story: Story) -> None:
    """Cleaning wipes the disk."""
    wipe(story, story.machine)


def wipe(story: Story, machine: Machine) -> None:
    """Delete the server, and see that cleaning wipes the machine's disk."""
    lab = story.lab
    before = machine.first_megabyte()
    story.check("a partition table", before[SECTOR : SECTOR + 8] == b"EFI PART")
    lab.change(machine, "automated_clean", True)
    story.ask("delete", "web")
    lab.wait_for_state(machine, "available")
    after = machine.first_megabyte()
    wiped = b"EFI PART" not in after and after[510:512] != b"\x55\xaa"
    story.check("the disk is wiped", wiped and not machine.is_on)
    lab.change(machine, "automated_clean", False)


def checksum(story: Story) -> None:
    """A wrong checksum ends with its reason, and no other node is looked for."""
    said = story.ask(
        *("create", "--flavor", "metal"),
        *("--image", f"{story.lab.web}/kernel", "--image-format", "raw"),
        *("--image-checksum", "0" * 64, "bad"),
        fails=True,
    )
    fault = str(story.status("bad").get("fault"))
    story.check("its reason", "failed to verify against checksum" in fault, fault[:400])
    story.check("no other node is tried", "no other node" not in said + fault)
    story.ask("delete", "bad")
    for machine in story.machines:
        story.lab.wait_for_state(machine, "available")


Steps = dict[str, Callable[[Story], None]]

STEPS: Steps = {
    step.__name__: step
    for step in (enroll, create, reboot, console, nmi, rescue, stop, delete, checksum)
}


def tell(lab: Lab, steps: Steps, *, built: float, night: bool = False) -> int:
    """Go through the steps, and print the last line; return the exit code.

    :param built: seconds that were spent on images before.
    """
    began = time.monotonic()
    took: dict[str, float] = {}
    story = None
    ended = "all right"
    try:
        story = Story(lab, night)
        for name, step in steps.items():
            print(f"  {name}: {step.__doc__}", flush=True)
            at = time.monotonic()
            step(story)
            took[name] = time.monotonic() - at
            print(f"  {name}: {took[name]:.0f} s", flush=True)
    except Exception as error:
        traceback.print_exc()
        for name, text in lab.logs():
            print(f"--- {name}, the end ---", *text.splitlines()[-60:], sep="\n", flush=True)
        ended = f"FAILED: {(str(error) or type(error).__name__).splitlines()[0]}"
    times = ", ".join(f"{name} {seconds:.0f}" for name, seconds in took.items())
    print(
        f"metal{'-night' if night else ''}: {len(took)} steps, "
        f"{story.checks if story else 0} checks, {time.monotonic() - began:.0f} s ({times}), "
        f"images {built:.0f} s: {ended}",
        flush=True,
    )
    return int(ended != "all right")
