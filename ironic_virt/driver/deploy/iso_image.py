# SPDX-License-Identifier: Apache-2.0

"""Makes an ISO 9660 image of files, with the names that cloud-init and its like look for.

The image has the names three times: as Rock Ridge, which Linux reads, as Joliet, which
Windows reads, and in the narrow form of ISO 9660, which everything else reads.  Ironic's
conductor and Nova make theirs with ``genisoimage -J -r``; a reader finds the same in ours.
No program is run.
"""

from __future__ import annotations

import base64
import gzip
import io
import re
from collections.abc import Mapping
from pathlib import PurePosixPath

LABEL = "config-2"
"""What cloud-init and its like look for."""

# Interchange level 3 of ISO 9660: 31 characters, two of them for a version.
_LEVEL = 3
_LONGEST = 24
_ROCK_RIDGE = "1.09"
# Rock Ridge's modes are those of ``genisoimage -r``: all may read, nobody may write.
_FILE_MODE = 0o100444
_DIRECTORY_MODE = 0o040555


class NotMade(Exception):
    """There is no image; the text says why, and has nothing of its contents."""


def pack_image(image: bytes) -> str:
    """Return an image as Ironic takes it: gzipped, in base64."""
    return base64.b64encode(gzip.compress(image, mtime=0)).decode("ascii")


def make_image(files: Mapping[str, bytes]) -> bytes:
    """Return an image of files.

    :param files: contents by path, without a leading slash.
    :raises NotMade: a path leads out of the image, or has no place in one.
    """
    # Imported here because few servers need an image that the driver makes.
    import pycdlib
    from pycdlib.pycdlibexception import PyCdlibException

    made = pycdlib.PyCdlib()
    try:
        made.new(interchange_level=_LEVEL, vol_ident=LABEL, joliet=_LEVEL, rock_ridge=_ROCK_RIDGE)
        names = _Names()
        for path, content in files.items():
            parts = PurePosixPath(path)
            if parts.is_absolute() or ".." in parts.parts:
                raise NotMade(f"the path {path!r} leads out of the image")
            for directory in reversed(parts.parents[:-1]):
                if directory not in names:
                    made.add_directory(
                        names.add(directory),
                        rr_name=directory.name,
                        joliet_path=f"/{directory}",
                        file_mode=_DIRECTORY_MODE,
                    )
            made.add_fp(
                io.BytesIO(content),
                len(content),
                f"{names.add(parts)}.;1",
                rr_name=parts.name,
                joliet_path=f"/{parts}",
                file_mode=_FILE_MODE,
            )
        written = io.BytesIO()
        made.write_fp(written)
        return written.getvalue()
    except PyCdlibException as exc:
        raise NotMade(f"the files have no place in an ISO 9660 image: {exc}") from exc


class _Names:
    """Paths in the narrow form: capitals, digits and underscores, each name once."""

    def __init__(self) -> None:
        self._narrow = {PurePosixPath(): ""}
        self._taken: set[str] = set()

    def __contains__(self, path: PurePosixPath) -> bool:
        return path in self._narrow

    def add(self, path: PurePosixPath) -> str:
        """Return a path's narrow form; its parent has been added before."""
        base = self._narrow[path.parent] + "/"
        plain = re.sub(r"[^A-Z0-9_]", "_", path.name.upper())[:_LONGEST]
        candidate, number = base + plain, 0
        while candidate in self._taken:
            number += 1
            candidate = f"{base}{plain}_{number}"
        self._taken.add(candidate)
        self._narrow[path] = candidate
        return candidate
