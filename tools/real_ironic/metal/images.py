# SPDX-License-Identifier: Apache-2.0

"""What the lab is built of, made once for each user: ramdisk, disk image, Redfish emulator.

It is next to Ironic's environment, see :mod:`tools.real_ironic.environment`, under a name with
a digest of what it is made by.
"""

import hashlib
import platform
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tools.real_ironic import errors
from tools.real_ironic.environment import (
    MARKER,
    Progress,
    cache_directory,
    ignore_progress,
    locked,
    run_step,
)

AGENT = "ironic-python-agent==13.0.0"
EMULATOR = "sushy-tools==2.2.0"
_SCRIPTS = Path(__file__).with_name("images")
_PYTHON = "/usr/bin/python3"


@dataclass(frozen=True, slots=True)
class Images:
    """What was built.

    :ivar directory: with ``kernel`` and ``ramdisk``, which run the agent, ``esp.img``, which
        boots them by UEFI, ``disk.raw``, ``disk.qcow2`` and ``part.raw``, which servers are built
        with, and ``SHA256SUMS`` of these three.
    """

    directory: Path

    @property
    def emulator(self) -> Path:
        """The program of the Redfish emulator."""
        return self.directory / "emulator/bin/sushy-emulator"

    def checksum(self, name: str) -> str:
        """The SHA-256 of a disk image."""
        lines = (self.directory / "SHA256SUMS").read_text().splitlines()
        return {name: digest for digest, name in map(str.split, lines)}[name]


def ensure_images(cache: Path | None = None, *, progress: Progress = ignore_progress) -> Images:
    """Return the lab's images, building them first when there are none: some ten minutes.

    :raises EnvironmentBuildError: they can't be built; nothing half-built is used later.
    """
    cache = cache_directory() if cache is None else cache
    suite = _suite()
    digest = hashlib.sha256(f"{AGENT} {EMULATOR}".encode())
    for script in sorted(_SCRIPTS.iterdir()):
        digest.update(script.read_bytes())
    images = Images(cache / f"metal-{suite}-{digest.hexdigest()[:8]}")
    marker = images.directory / MARKER
    if marker.exists():
        return images
    cache.mkdir(parents=True, exist_ok=True)
    with locked(images.directory.with_suffix(".lock"), "building the lab's images", progress):
        if not marker.exists():
            _build(images, suite, progress)
            marker.write_text(f"{AGENT} {EMULATOR}\n")
    return images


def _suite() -> str:
    release = platform.freedesktop_os_release()
    suite = release.get("VERSION_CODENAME")
    if release.get("ID") != "debian" or not suite:
        raise errors.EnvironmentBuildError("The lab's images are built on Debian only", "")
    return suite


def _build(images: Images, suite: str, progress: Progress) -> None:
    progress(f"Building the lab's images into {images.directory} (once, some ten minutes)")
    shutil.rmtree(images.directory, ignore_errors=True)
    images.directory.mkdir()
    # Debian's own Python, which has libvirt's bindings, and is that of the ramdisk.
    emulator = images.directory / "emulator"
    pip = str(emulator / "bin/pip")
    run_step(
        [_PYTHON, "-m", "venv", "--system-site-packages", str(emulator)],
        "make a virtualenv",
        progress,
    )
    run_step([pip, "install", "--no-input", EMULATOR], "install the Redfish emulator", progress)
    out = str(images.directory)
    with tempfile.TemporaryDirectory(prefix="ironic-virt-metal-") as scratch:
        progress("Building the disk image")
        run_step(
            [str(_SCRIPTS / "disk.sh"), suite, scratch, out], "build the disk image", progress
        )
        progress("Building the ramdisk")
        run_step(
            [str(_SCRIPTS / "ramdisk.sh"), suite, scratch, out, pip, AGENT],
            "build the ramdisk",
            progress,
        )
    progress("Built the lab's images")
