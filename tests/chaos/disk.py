# SPDX-License-Identifier: Apache-2.0

"""A small disk for the services' SQLite database, which gets full.  Needs root: it is mounted."""

import collections
import contextlib
import errno
import random
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

SIZE = "16m"
_PAGE = 4096


class NoDisk(Exception):
    """Nothing can be mounted here."""


@contextlib.contextmanager
def small(directory: Path) -> Iterator[Path]:
    """A file system of a few MiB in memory, gone in the end.

    :param directory: in which it is mounted.
    :raises NoDisk: that is not allowed.
    """
    place = directory / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={SIZE},mode=0700", "chaos", str(place)]
    try:
        subprocess.run(command, check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as exc:
        said = getattr(exc, "stderr", None) or str(exc)
        raise NoDisk(f"a disk that can be filled can't be mounted: {said.strip()}") from exc
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


class Disk:
    """A disk that is full for some seconds, now and then.

    :param place: where it is mounted.
    :param now: seconds since the beginning.
    :param tell: called with a line for each event.
    """

    def __init__(
        self,
        rng: random.Random,
        place: Path,
        now: Callable[[], float],
        tell: Callable[[str], None],
    ) -> None:
        self._rng = rng
        self._filler = place / "filler"
        self._now = now
        self._tell = tell
        self._next = rng.expovariate(1 / 5)
        self.met: collections.Counter[str] = collections.Counter()

    def act(self) -> None:
        """Fill or empty it when it is time."""
        if self._now() < self._next:
            return
        if self._filler.exists():
            self.end()
            self._next = self._now() + self._rng.expovariate(1 / 5)
            return
        free = self._rng.choice([0, 0, 1, 10, 100]) * _PAGE
        self.met["disk full"] += 1
        self._tell(f"the disk is full but for {free} bytes")
        _fill(self._filler, free)
        self._next = self._now() + self._rng.uniform(1, 10)

    def end(self) -> None:
        """Empty it."""
        self._filler.unlink(missing_ok=True)


def _fill(path: Path, free: int) -> None:
    with path.open("wb", buffering=0) as file:
        try:
            while file.write(bytes(_PAGE)):
                pass
        except OSError as exc:
            if exc.errno != errno.ENOSPC:
                raise
        file.truncate(max(0, file.tell() - free))
