# SPDX-License-Identifier: Apache-2.0

"""What the lab takes from the host, and how it is kept apart from it."""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

_PLACES = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

_NEEDED = {
    "qemu-system-x86_64": "qemu-system-x86",
    "qemu-img": "qemu-utils",
    "libvirtd": "libvirt-daemon-system",
    "/usr/lib/x86_64-linux-gnu/libvirt/connection-driver/libvirt_driver_qemu.so": (
        "libvirt-daemon-driver-qemu"
    ),
    "virsh": "libvirt-clients",
    "/usr/lib/python3/dist-packages/libvirt.py": "python3-libvirt",
    "ensurepip": "python3-venv",
    "dnsmasq": "dnsmasq-base",
    "ipmitool": "ipmitool",
    "ipmi_sim": "openipmi",
    "socat": "socat",
    "ip": "iproute2",
    "ssh": "openssh-client",
    "mkisofs": "genisoimage",
    "/usr/lib/ISOLINUX/isolinux.bin": "isolinux",
    "/usr/lib/syslinux/modules/bios/ldlinux.c32": "syslinux-common",
    "mmdebstrap": "mmdebstrap",
    "grub-mkimage": "grub-common",
    "/usr/lib/grub/i386-pc/boot.img": "grub-pc-bin",
    "/usr/lib/grub/x86_64-efi/linux.mod": "grub-efi-amd64-bin",
    "/usr/share/OVMF/OVMF_CODE_4M.fd": "ovmf",
    "mkfs.vfat": "dosfstools",
    "mcopy": "mtools",
    "sgdisk": "gdisk",
    "mkfs.ext4": "e2fsprogs",
    "modprobe": "kmod",
    "cpio": "cpio",
    "zstd": "zstd",
}
"""A program or file of each of Debian's packages that the lab needs."""

_LIBVIRTS = ("/etc/libvirt", "/var/lib/libvirt", "/var/cache/libvirt", "/var/log/libvirt")


def path() -> str:
    """A ``PATH`` that also has what is for root."""
    return f"{os.environ.get('PATH', '')}:{_PLACES}"


def missing() -> str | None:
    """What the lab can't do without, in one line; ``None``: nothing is missing."""
    if os.geteuid() != 0:
        return "the lab needs root, for namespaces and the machine's network"
    packages = sorted({package for name, package in _NEEDED.items() if not _is_there(name)})
    if not packages:
        return None
    return f"the lab needs: apt-get install --no-install-recommends {' '.join(packages)}"


def _is_there(name: str) -> bool:
    if name == "ensurepip":
        # Debian's Python has it in a directory that is named after its version.
        return any(Path("/usr/lib").glob("python3.*/ensurepip"))
    return Path(name).exists() if "/" in name else shutil.which(name, path=path()) is not None


def namespaces_command(command: Sequence[str]) -> list[str]:
    """A command that runs another one in its own namespaces: network, mounts, processes.

    When it ends, by any means, all that was started there ends.
    """
    # A shell as the first process: it also waits for those whose parents are gone.
    return [
        *("unshare", "--net", "--mount", "--propagation", "private", "--pid", "--fork"),
        *("--mount-proc", "--kill-child", "/bin/bash", "-c", '"$@"; exit $?', "metal", *command),
    ]


def prepare(directory: Path, address: str) -> None:
    """Make a bridge, and directories for a libvirt that the host knows nothing of.

    To be called in :func:`namespaces_command`.

    :param directory: for libvirt's files.
    :param address: of the bridge ``br0``, with its prefix length.
    """
    for arguments in (
        ("link", "set", "lo", "up"),
        ("link", "add", "br0", "type", "bridge"),
        ("address", "add", address, "dev", "br0"),
        ("link", "set", "br0", "up"),
    ):
        run("ip", *arguments)
    # A serial line's lock of a lab that was killed would name a process of this one.
    for place in (*_LIBVIRTS, "/run/libvirt", "/run/lock"):
        own = directory / place.strip("/").replace("/", "-")
        own.mkdir()
        Path(place).mkdir(parents=True, exist_ok=True)
        run("mount", "--bind", str(own), place)
    if Path("/dev/kvm").exists():
        # Where KVM is there and hangs, libvirt would hang, too.  It must not be writable: then
        # libvirt asks QEMU again, each time that it is asked anything, whether it has KVM now.
        (directory / "no-kvm").touch()
        run("mount", "--bind", str(directory / "no-kvm"), "/dev/kvm")
        run("mount", "-o", "remount,ro,bind", "/dev/kvm")


def run(*command: str, **more: str) -> str:
    """Run a program of the host's; what it prints."""
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PATH": path(), **more},
        stdin=subprocess.DEVNULL,
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(missing())
