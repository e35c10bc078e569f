# SPDX-License-Identifier: Apache-2.0

"""One machine of QEMU's: what it is, what it says on its serial line, and how to log in."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from tools.real_ironic.metal import host

T = TypeVar("T")

FIRMWARE = "/usr/share/OVMF/OVMF_CODE_4M.fd"
"""Of a machine that boots by UEFI."""

_BIOS = "<boot dev='hd'/><bios useserial='yes'/>"
_UEFI = """
  <loader readonly='yes' type='pflash'>{code}</loader>
  <nvram template='/usr/share/OVMF/OVMF_VARS_4M.fd'>{variables}</nvram>
"""

_DOMAIN = """
<domain type='qemu'>
  <name>{name}</name><memory unit='MiB'>2048</memory><vcpu>1</vcpu>
  <os><type arch='x86_64' machine='{type}'>hvm</type>{firmware}</os>
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


@dataclass(frozen=True, slots=True)
class Place:
    """What a machine is made of.

    :ivar address: that it gets by DHCP.
    :ivar directory: for its disk and its serial line.
    :ivar uefi: it boots by UEFI, not by BIOS.
    """

    name: str
    mac: str
    address: str
    directory: Path
    uefi: bool = False

    def file(self, kind: str) -> Path:
        """One of the machine's files, by its suffix."""
        return self.directory / f"{self.name}.{kind}"


class Machine:
    """A machine with an empty disk, switched off.

    :param libvirt: the URI of libvirt.
    :param key: the private key that ``ssh`` is given.
    :ivar line: the UNIX socket of its serial line.
    """

    def __init__(self, place: Place, libvirt: str, key: Path) -> None:
        self.name, self.mac, self.address = place.name, place.mac, place.address
        self.uefi = place.uefi
        self.line = place.file("line")
        self._log = place.file("log")
        self._disk = place.file("qcow2")
        self._libvirt = libvirt
        self._key = key
        self._log.touch()
        host.run("qemu-img", "create", "-q", "-f", "qcow2", str(self._disk), "6G")
        definition = place.file("xml")
        firmware = _UEFI.format(code=FIRMWARE, variables=place.file("nvram"))
        definition.write_text(
            _DOMAIN.format(
                name=self.name,
                mac=self.mac,
                type="q35" if self.uefi else "pc",
                firmware=firmware if self.uefi else _BIOS,
                disk=self._disk,
                line=self.line,
                log=self._log,
            )
        )
        self.virsh("define", str(definition))
        self.uuid = self.virsh("domuuid", self.name).strip()

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

    def lines(self, since: int) -> tuple[list[str], int]:
        """The lines that it has ended since a mark, and the mark after them."""
        with self._log.open("rb") as log:
            log.seek(since)
            whole, end, _ = log.read().rpartition(b"\n")
        text = whole.decode(errors="replace").replace("\r", "")
        return (text.split("\n") if end else []), since + len(whole) + len(end)

    def wait_for_line(self, text: str, since: int, seconds: float) -> str:
        """The line of its serial log that has a text."""

        def look() -> str | None:
            lines, _ = self.lines(since)
            return next((line.strip() for line in lines if text in line), None)

        return wait_for(f"{text!r} on the serial line of {self.name}", look, seconds)

    # -- its system -----------------------------------------------------------

    def ssh(self, command: str, *, user: str = "debian", password: str = "") -> str:
        """Run a command in its system; what it prints.

        :param password: in place of the key.
        :raises RuntimeError: it can't be reached, or the command fails.
        """
        if not password:
            options = ("-i", str(self._key), "-o", "BatchMode=yes")
            return host.run("ssh", *options, *_SSH, f"{user}@{self.address}", command)
        asker = self._key.with_name("askpass")
        asker.write_text('#!/bin/sh\necho "$METAL_PASSWORD"\n')
        asker.chmod(0o700)
        options = ("-o", "PubkeyAuthentication=no", "-o", "NumberOfPasswordPrompts=1")
        return host.run(
            *("ssh", *options, *_SSH, f"{user}@{self.address}", command),
            SSH_ASKPASS=str(asker),
            SSH_ASKPASS_REQUIRE="force",
            METAL_PASSWORD=password,
        )

    def wait_for_ssh(self, command: str, seconds: float, **who: str) -> str:
        """Run a command in its system as soon as that lets us in."""
        last = ""

        def look() -> list[str] | None:
            nonlocal last
            try:
                return [self.ssh(command, **who)]
            except RuntimeError as error:
                last = str(error)
                return None

        try:
            return wait_for(f"ssh to {self.address}", look, seconds)[0]
        except TimeoutError as error:
            raise TimeoutError(f"{error}; last: {last}") from None

    # -- its disk -------------------------------------------------------------

    def first_megabyte(self) -> bytes:
        """What its disk begins with, the partition table among it."""
        part = self._disk.with_suffix(".head")
        host.run(
            *("qemu-img", "dd", "-U", "-f", "qcow2", "-O", "raw", "bs=1M", "count=1"),
            *(f"if={self._disk}", f"of={part}"),
        )
        return part.read_bytes()
