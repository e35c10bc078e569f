# SPDX-License-Identifier: Apache-2.0

"""One machine of QEMU's: what it is, what it says on its serial line, and how to log in."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from tools.real_ironic.metal import host

T = TypeVar("T")

_DOMAIN = """
<domain type='qemu'>
  <name>{name}</name><memory unit='MiB'>2048</memory><vcpu>1</vcpu>
  <os><type arch='x86_64' machine='pc'>hvm</type><boot dev='hd'/><bios useserial='yes'/></os>
  <features><acpi/><apic/></features><clock offset='utc'/>
  <on_poweroff>destroy</on_poweroff><on_reboot>restart</on_reboot><on_crash>restart</on_crash>
  <devices>
    <emulator>/usr/bin/qemu-system-x86_64</emulator>
    <disk type='file' device='disk'>
      <driver name='qemu' type='qcow2' cache='unsafe'/><source file='{disk}'/>
      <target dev='vda' bus='virtio'/><serial>{name}-disk</serial>
    </disk>
    <interface type='bridge'>
      <mac address='{mac}'/><source bridge='br0'/><model type='virtio'/>
    </interface>
    <serial type='unix'>
      <source mode='bind' path='{line}'/><log file='{log}' append='on'/><target port='0'/>
    </serial>
    <rng model='virtio'><backend model='random'>/dev/urandom</backend></rng>
    <video><model type='none'/></video><memballoon model='none'/>
  </devices>
</domain>
"""

_SSH = (
    *("-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null"),
    *("-o", "ConnectTimeout=60", "-o", "LogLevel=ERROR"),
    # A system that is powered off says no farewell.
    *("-o", "ServerAliveInterval=60", "-o", "ServerAliveCountMax=5"),
)


def wait_for(what: str, look: Callable[[], T | None], seconds: float, pause: float = 1.0) -> T:
    """Look until there is something, and return it.

    :raises TimeoutError: there never was.
    """
    deadline = time.monotonic() + seconds
    while True:
        result = look()
        if result:
            return result
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {seconds:.0f} s")
        time.sleep(pause)


class Machine:
    """A machine with an empty disk, switched off.

    :param directory: for its disk and its serial line.
    :param libvirt: the URI of libvirt.
    :param key: the private key that ``ssh`` is given.
    :ivar line: the UNIX socket of its serial line.
    """

    def __init__(self, name: str, mac: str, directory: Path, libvirt: str, key: Path) -> None:
        self.name = name
        self.mac = mac
        self.line = directory / f"{name}.line"
        self._log = directory / f"{name}.log"
        self._disk = directory / f"{name}.qcow2"
        self._libvirt = libvirt
        self._key = key
        self._log.touch()
        host.run("qemu-img", "create", "-q", "-f", "qcow2", str(self._disk), "6G")
        definition = directory / f"{name}.xml"
        definition.write_text(
            _DOMAIN.format(name=name, mac=mac, disk=self._disk, line=self.line, log=self._log)
        )
        self.virsh("define", str(definition))
        self.uuid = self.virsh("domuuid", name).strip()

    def virsh(self, *arguments: str) -> str:
        """Ask libvirt; what it prints."""
        return host.run("virsh", "--connect", self._libvirt, *arguments)

    @property
    def is_on(self) -> bool:
        """Whether it runs, as libvirt has it."""
        return self.virsh("domstate", self.name).strip() == "running"

    # -- its serial line ------------------------------------------------------

    def mark(self) -> int:
        """Where its serial log ends now."""
        return self._log.stat().st_size

    def said(self, since: int = 0) -> str:
        """What it has written on its serial line since a mark."""
        with self._log.open("rb") as log:
            log.seek(since)
            return log.read().decode(errors="replace").replace("\r", "")

    def wait_for_line(self, text: str, since: int, seconds: float) -> str:
        """The line of its serial log that has a text."""

        def look() -> str | None:
            # One that has not ended may be written in part.
            lines = self.said(since).split("\n")[:-1]
            return next((line.strip() for line in lines if text in line), None)

        return wait_for(f"{text!r} on the serial line of {self.name}", look, seconds)

    # -- its system -----------------------------------------------------------

    def ssh(self, address: str, command: str, *, user: str = "debian", password: str = "") -> str:
        """Run a command in its system; what it prints.

        :param password: in place of the key.
        :raises RuntimeError: it can't be reached, or the command fails.
        """
        if not password:
            options = ("-i", str(self._key), "-o", "BatchMode=yes")
            return host.run("ssh", *options, *_SSH, f"{user}@{address}", command)
        asker = self._key.with_name("askpass")
        asker.write_text('#!/bin/sh\necho "$METAL_PASSWORD"\n')
        asker.chmod(0o700)
        options = ("-o", "PubkeyAuthentication=no", "-o", "NumberOfPasswordPrompts=1")
        return host.run(
            *("ssh", *options, *_SSH, f"{user}@{address}", command),
            SSH_ASKPASS=str(asker),
            SSH_ASKPASS_REQUIRE="force",
            METAL_PASSWORD=password,
        )

    def wait_for_ssh(self, address: str, command: str, seconds: float, **who: str) -> str:
        """Run a command in its system as soon as that lets us in."""
        last = ""

        def look() -> list[str] | None:
            nonlocal last
            try:
                return [self.ssh(address, command, **who)]
            except RuntimeError as error:
                last = str(error)
                return None

        try:
            return wait_for(f"ssh to {address}", look, seconds)[0]
        except TimeoutError as error:
            raise TimeoutError(f"{error}; last: {last}") from None

    # -- its disk -------------------------------------------------------------

    def first_megabyte(self) -> bytes:
        """What its disk begins with, the partition table among it; to be asked when it is off."""
        part = self._disk.with_suffix(".head")
        host.run(
            *("qemu-img", "dd", "-f", "qcow2", "-O", "raw", "bs=1M", "count=1"),
            *(f"if={self._disk}", f"of={part}"),
        )
        return part.read_bytes()
