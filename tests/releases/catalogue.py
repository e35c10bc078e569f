# SPDX-License-Identifier: Apache-2.0

"""The releases of OpenStack, as ``releases.toml`` lists them."""

import dataclasses
import tomllib
from pathlib import Path

HERE = Path(__file__).parent
CANARY = "canary"
NEWEST = "newest"
"""Stands for the newest version, pre-releases included."""


@dataclasses.dataclass(frozen=True)
class Release:
    """A release of OpenStack.

    :ivar name: ``2025.1`` for instance.
    :ivar nova: the version of it, or :data:`NEWEST`; likewise ``placement`` and ``ironic``.
    :ivar python: the version of Python that it is tried with.
    :ivar threading: ``eventlet`` and ``threads``: how nova-compute runs, its default first.
    :ivar packages: what else has to be installed with it.
    :ivar constraints: the file with its upper constraints, if there is one.
    :ivar only: which scenarios, for pytest's ``-k``; all if empty.
    :ivar only_as_processes: the ways of threading that Nova's test fixtures don't work with.
    """

    name: str
    nova: str
    placement: str
    ironic: str
    python: str
    threading: list[str]
    packages: list[str] = dataclasses.field(default_factory=list)
    constraints: str = ""
    only: str = ""
    only_as_processes: list[str] = dataclasses.field(default_factory=list)

    @property
    def is_newest(self) -> bool:
        """Whether it is the newest version in the package index."""
        return self.nova == NEWEST

    @property
    def constraints_file(self) -> Path | None:
        """The upper constraints, if it has any."""
        return HERE / "constraints" / self.constraints if self.constraints else None


def releases() -> dict[str, Release]:
    """All of them by name, oldest first."""
    with (HERE / "releases.toml").open("rb") as file:
        tables = tomllib.load(file)["release"]
    return {name: Release(name, **table) for name, table in tables.items()}


def canary() -> Release:
    """The newest of everything, in the ways of the newest release."""
    *_, newest = releases().values()
    return dataclasses.replace(
        newest, name=CANARY, nova=NEWEST, placement=NEWEST, ironic=NEWEST, constraints=""
    )


def pin(package: str, version: str) -> str:
    """What is installed of a package."""
    return package if version == NEWEST else f"{package}=={version}"
