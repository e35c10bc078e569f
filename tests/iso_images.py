# SPDX-License-Identifier: Apache-2.0

"""Reads an ISO 9660 image as Linux does (Rock Ridge) and as Windows does (Joliet)."""

import base64
import gzip
import io
from typing import Any

import pycdlib


def unpacked(form: object) -> bytes:
    """The image in a config drive as Ironic takes it: gzipped, in base64."""
    assert isinstance(form, str)
    return gzip.decompress(base64.b64decode(form))


def label(image: bytes) -> str:
    """The image's own name: the volume identifier (ECMA-119, 8.4)."""
    return image[16 * 2048 + 40 : 16 * 2048 + 72].decode().strip()


def contents(image: bytes, names: str = "rr_path") -> dict[str, bytes]:
    """The files on an image, by path without a leading slash.

    :param names: ``rr_path`` (Rock Ridge) or ``joliet_path``.
    """
    found: dict[str, bytes] = {}
    iso: Any = pycdlib.PyCdlib()
    iso.open_fp(io.BytesIO(image))
    for directory, _, files in iso.walk(**{names: "/"}):
        for name in files:
            path = f"{directory.rstrip('/')}/{name}"
            content = io.BytesIO()
            iso.get_file_from_iso_fp(content, **{names: path})
            found[path.lstrip("/")] = content.getvalue()
    iso.close()
    return found


def modes(image: bytes) -> dict[str, int]:
    """What Rock Ridge says of the rights of each file and directory below the top one."""
    found: dict[str, int] = {}
    iso: Any = pycdlib.PyCdlib()
    iso.open_fp(io.BytesIO(image))
    for directory, directories, files in iso.walk(rr_path="/"):
        for name in (*directories, *files):
            path = f"{directory.rstrip('/')}/{name}"
            found[path] = iso.get_record(rr_path=path).rock_ridge.get_file_mode()
    iso.close()
    return found
