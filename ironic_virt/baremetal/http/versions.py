# SPDX-License-Identifier: Apache-2.0

"""Which API microversion is sent: one table.

A request is sent with the lowest version that carries all that it uses, so
that a newer server's other changes never change an answer under us.  That is
:data:`FLOOR` but for a few fields that only tell more of a node.

Source: Ironic's REST API version history.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import NamedTuple

from ironic_virt import exceptions


class Microversion(NamedTuple):
    """An API version; compares as numbers, so that 1.9 < 1.46."""

    major: int
    minor: int

    @classmethod
    def parse(cls, text: str) -> Microversion:
        """Read ``"1.46"``.

        :raises ValueError: it isn't two numbers with a dot.
        """
        major, minor = text.split(".")
        return cls(int(major), int(minor))

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


FLOOR = Microversion(1, 90)
"""The lowest version that the driver uses: that of Ironic 24.1 (OpenStack 2024.1).

Every filter and every action has it.
"""

NEWER_FIELDS: Mapping[str, Microversion] = {
    "disable_power_off": Microversion(1, 95),
    "instance_name": Microversion(1, 104),
    "health": Microversion(1, 109),
}
"""Fields of nodes that came later: read if the server has them, and done without if not."""


class ServerVersions(NamedTuple):
    """The range of versions that a server speaks."""

    minimum: Microversion
    maximum: Microversion

    @classmethod
    def parse(cls, minimum: str, maximum: str) -> ServerVersions:
        """Read ``"1.1"`` and ``"1.115"``.

        :raises ValueError: one is no version.
        """
        return cls(Microversion.parse(minimum), Microversion.parse(maximum))

    def require_floor(self) -> None:
        """Raise if the server is too old for the driver.

        :raises MicroversionNotSupported: with the version needed and found.
        """
        if self.maximum < FLOOR:
            raise exceptions.MicroversionNotSupported("this driver", str(FLOOR), str(self.maximum))


class Fitting(NamedTuple):
    """What is sent to a server.

    :ivar version: for the header.
    :ivar shown: the newer fields that it has.
    :ivar unasked: those that it lacks.
    """

    version: str
    shown: tuple[str, ...]
    unasked: frozenset[str]


@functools.lru_cache(maxsize=256)
def fitting(server: ServerVersions | None, newer: tuple[str, ...] = ()) -> Fitting:
    """The version and the newer fields that fit a server.

    Cached: the same few requests are sent again and again.

    :param server: ``None``: not known yet, which does for requests without newer fields.
    :param newer: names in :data:`NEWER_FIELDS`.
    """
    server = server or ServerVersions(FLOOR, FLOOR)
    shown = tuple(name for name in newer if NEWER_FIELDS[name] <= server.maximum)
    version = max([FLOOR, server.minimum, *(NEWER_FIELDS[name] for name in shown)])
    return Fitting(str(version), shown, frozenset(newer).difference(shown))
