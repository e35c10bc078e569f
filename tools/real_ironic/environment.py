# SPDX-License-Identifier: Apache-2.0

"""The virtualenv that the real Ironic runs in, made once for each user.

It lives in the user's cache directory, outside any checkout, because it is
large (some 300 MB) and the same for all.  A virtualenv can't be renamed, so it
is built in place under a file lock, and a marker file, written last, says that
it is whole.  Any number of processes may ask for it at once: one builds, the
others wait.

``IRONIC_VIRT_REAL_IRONIC`` names a virtualenv to use instead, with another
release of Ironic in it.
"""

import contextlib
import functools
import hashlib
import os
import shutil
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from oslo_concurrency import lockutils

from tools.real_ironic import errors

IRONIC_VERSION = "39.0.0"
CACHE_VARIABLE = "IRONIC_VIRT_CACHE"
OWN_VARIABLE = "IRONIC_VIRT_REAL_IRONIC"
CONSTRAINTS = Path(__file__).with_name("constraints.txt")
MARKER = "complete"

_KEPT_LINES = 20
_SHOWN_BY_PIP = ("Collecting", "Building", "Installing")

Progress = Callable[[str], None]
"""Is given one line of text for the user at a time."""


def ignore_progress(line: str) -> None:
    """A :data:`Progress` for who doesn't want to know."""


@dataclass(frozen=True, slots=True)
class IronicEnvironment:
    """A virtualenv with Ironic in it.

    :ivar directory: the virtualenv.
    :ivar version: the version of Ironic that is installed there.
    """

    directory: Path
    version: str = IRONIC_VERSION

    @property
    def python(self) -> Path:
        return self.directory / "bin" / "python"

    def program(self, name: str) -> Path:
        """The path of a console script, ``ironic-dbsync`` for instance."""
        return self.directory / "bin" / name

    def interfaces(self, kind: str) -> frozenset[str]:
        """The hardware interfaces that this Ironic knows, by name; ``console`` is a kind."""
        entry_points = _installed(self.directory).entry_points
        return frozenset(entry_points.select(group=f"ironic.hardware.interfaces.{kind}").names)


def cache_directory(variables: Mapping[str, str] | None = None) -> Path:
    """Where environments are kept.

    :param variables: environment variables; those of this process when None.
    :returns: ``$IRONIC_VIRT_CACHE``, else ``ironic-virt`` in ``$XDG_CACHE_HOME`` or
        ``~/.cache``.
    """
    variables = os.environ if variables is None else variables
    if own := variables.get(CACHE_VARIABLE):
        return Path(own).expanduser().absolute()
    shared = variables.get("XDG_CACHE_HOME") or str(
        Path(variables.get("HOME") or Path.home()) / ".cache"
    )
    return Path(shared).absolute() / "ironic-virt"


def environment_name(
    constraints: str,
    *,
    ironic_version: str = IRONIC_VERSION,
    python_version: tuple[int, int] = (sys.version_info[0], sys.version_info[1]),
) -> str:
    """The directory name: it contains everything that would change the environment."""
    digest = hashlib.sha256(constraints.encode()).hexdigest()[:8]
    return f"ironic-{ironic_version}-py{python_version[0]}.{python_version[1]}-{digest}"


def ensure_environment(
    cache: Path | None = None,
    *,
    progress: Progress = ignore_progress,
    python: str = sys.executable,
    constraints: Path = CONSTRAINTS,
) -> IronicEnvironment:
    """Return Ironic's environment, building it first when there is none.

    With ``$IRONIC_VIRT_REAL_IRONIC`` it is that one, which is never built.

    :param cache: the directory that environments are kept in; see :func:`cache_directory`.
    :param progress: called with what is being done, if anything.
    :param python: the Python that the environment is made with, of the same version as ours.
    :param constraints: the versions to install, in pip's constraints format.
    :raises EnvironmentBuildError: when it can't be built; nothing half-built is used later.
    """
    if own := os.environ.get(OWN_VARIABLE):
        directory = Path(own).absolute()
        return IronicEnvironment(directory, _installed(directory).version)
    cache = cache_directory() if cache is None else cache
    environment = IronicEnvironment(cache / environment_name(constraints.read_text()))
    marker = environment.directory / MARKER
    if marker.exists():
        return environment
    cache.mkdir(parents=True, exist_ok=True)
    with locked(environment.directory.with_suffix(".lock"), "installing Ironic", progress):
        if not marker.exists():
            _build(environment, python=python, constraints=constraints, progress=progress)
            marker.write_text(f"ironic {environment.version}\n")
    return environment


@functools.cache
def _installed(directory: Path) -> metadata.Distribution:
    """Ironic, as it is installed in a virtualenv."""
    places = [str(path) for path in directory.glob("lib/python3*/site-packages")]
    for found in metadata.distributions(name="ironic", path=places):
        return found
    raise errors.EnvironmentBuildError(f"There is no Ironic in {directory}", "")


@contextlib.contextmanager
def locked(path: Path, what: str, progress: Progress) -> Iterator[None]:
    """Keep other processes and threads out.

    :param what: the operation in progress that others wait for.
    """
    for blocking in (False, True):
        # The file keeps other processes out, the semaphore other threads.
        lock = lockutils.lock(
            path.name, external=True, lock_path=str(path.parent), blocking=blocking
        )
        try:
            with lock:
                yield
                return
        except lockutils.AcquireLockFailedException:
            progress(f"Another process is {what}; waiting for it")


def _build(
    environment: IronicEnvironment, *, python: str, constraints: Path, progress: Progress
) -> None:
    directory = environment.directory
    progress(f"Installing Ironic {environment.version} into {directory} (once, a minute or two)")
    # What is there without a marker was left by a build that did not end.
    shutil.rmtree(directory, ignore_errors=True)
    run_step([python, "-m", "venv", str(directory)], "make a virtualenv", progress)
    run_step(
        [
            *(str(environment.python), "-m", "pip", "install"),
            *("--disable-pip-version-check", "--no-input", "--progress-bar", "off"),
            *("--constraint", str(constraints)),
            f"ironic=={environment.version}",
            "PyMySQL",
        ],
        f"install Ironic {environment.version}",
        progress,
    )
    progress(f"Installed Ironic {environment.version}")


def run_step(command: Sequence[str], purpose: str, progress: Progress) -> None:
    """Run one step of a build, passing on the lines that show that it goes on.

    :raises EnvironmentBuildError: it failed; with its last lines.
    """
    # oslo.concurrency's processutils hands lines over only when all is done.
    last_lines: deque[str] = deque(maxlen=_KEPT_LINES)
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                last_lines.append(line.rstrip())
                if line.startswith(_SHOWN_BY_PIP):
                    progress(line.strip()[:100])
        except BaseException:
            # Somebody gave up: leaving the block would wait for the step's end.
            process.kill()
            raise
    if process.returncode:
        raise errors.EnvironmentBuildError(
            f"Could not {purpose} ({' '.join(command[:4])} ... ended with status "
            f"{process.returncode}). Its last lines:",
            "\n".join(last_lines),
        )
