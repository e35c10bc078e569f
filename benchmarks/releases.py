# SPDX-License-Identifier: Apache-2.0

"""The Nova that a side runs: this environment's, or an older one of ``make releases``."""

from __future__ import annotations

import dataclasses
import functools
import pathlib
import subprocess
from collections.abc import Callable
from importlib import metadata

from benchmarks.registry import Progress
from benchmarks.side import Side
from tests.releases import catalogue

NEWEST = "2026.2"
"""That of this environment."""

_ENVIRONMENTS = pathlib.Path(__file__).parents[1] / ".envs"


@dataclasses.dataclass(frozen=True)
class Environment:
    """Where sides with a Nova run.

    :param side: makes one.
    :param versions: of what is installed there.
    """

    side: Callable[..., Side]
    versions: dict[str, str]


def environment(name: str, progress: Progress) -> Environment:
    """That of a release; what is not there yet is made.

    :param name: as ``tests/releases/releases.toml`` has it.
    :raises subprocess.CalledProcessError: it can't be made.
    """
    if name == NEWEST:
        versions = {one: metadata.version(one) for one in ("nova", "openstack-placement")}
        return Environment(Side, versions)
    release = catalogue.releases()[name]
    progress(f"Installing Nova {release.nova}, unless it is")
    # That environment has what installs others.
    python = _ENVIRONMENTS / "uv" / "bin" / "python"
    installed = subprocess.run(
        [str(python), "-m", "tests.releases", name, "--install"],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    directory = pathlib.Path(installed.stdout.splitlines()[-1])
    eventlet = release.threading[0] == "eventlet"
    return Environment(
        functools.partial(Side, python=str(directory / "bin" / "python"), eventlet=eventlet),
        {"nova": release.nova, "openstack-placement": release.placement},
    )
