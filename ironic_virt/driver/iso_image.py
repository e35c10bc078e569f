# SPDX-License-Identifier: Apache-2.0

"""Making an ISO 9660 image of files, as Ironic's conductor makes one of a config drive."""

from __future__ import annotations

import base64
import gzip
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePosixPath

PROGRAMS = ("genisoimage", "mkisofs", "xorrisofs")
"""These take the same arguments; the first that is installed is used."""

LABEL = "config-2"
"""What cloud-init and its like look for."""

_ARGUMENTS = ("-quiet", "-J", "-r", "-l", "-ldots", "-allow-lowercase", "-allow-multidot")
_TIMEOUT = 300.0
_LONGEST_TEXT = 300


class NotMade(Exception):
    """There is no image; the text says why, and has nothing of its contents."""


def _run(arguments: Sequence[str]) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(arguments, capture_output=True, timeout=_TIMEOUT, check=False)


def build(
    files: Mapping[str, bytes],
    *,
    run: Callable[[Sequence[str]], subprocess.CompletedProcess[bytes]] = _run,
) -> str:
    """An image of files.

    :param files: contents by path, without a leading slash.
    :returns: the image, gzipped, in base64.
    :raises NotMade: no program for it is installed, or it failed.
    """
    with tempfile.TemporaryDirectory(prefix="ironic-virt-") as directory:
        tree, image = Path(directory, "tree"), Path(directory, "image")
        tree.mkdir()
        for path, content in files.items():
            file = tree.joinpath(_inside(path))
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
        _make(image, tree, run)
        packed = gzip.compress(image.read_bytes(), mtime=0)
    return base64.b64encode(packed).decode("ascii")


def _inside(path: str) -> PurePosixPath:
    parts = PurePosixPath(path)
    if parts.is_absolute() or ".." in parts.parts:
        raise NotMade(f"the path {path!r} leads out of the image")
    return parts


def _make(
    image: Path,
    tree: Path,
    run: Callable[[Sequence[str]], subprocess.CompletedProcess[bytes]],
) -> None:
    for program in PROGRAMS:
        try:
            done = run([program, "-o", str(image), *_ARGUMENTS, "-V", LABEL, str(tree)])
        except FileNotFoundError:
            continue
        except (OSError, subprocess.SubprocessError) as exc:
            raise NotMade(f"{program} could not be run ({type(exc).__name__})") from exc
        if done.returncode:
            said = done.stderr.decode("utf-8", "replace").strip()[-_LONGEST_TEXT:]
            raise NotMade(f"{program} failed with status {done.returncode}: {said}")
        return
    raise NotMade(f"none of {', '.join(PROGRAMS)} is installed on this host; install one of them")
