# SPDX-License-Identifier: Apache-2.0

"""The API version that requests are sent with: one table, and one version at a time.

A version is pinned when a server has said what it speaks: the newest that both sides know.
All requests are sent with it, and ask only for the fields of nodes that it has.  Nothing that
decides needs more than :data:`FLOOR`.

An Ironic is several API servers, which are upgraded one after the other.  So what one of
them refuses counts for all of them for some minutes, and what one of them has counts only
after that.  Each answer says in two headers what its server speaks.

Source: Ironic's REST API version history.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

from oslo_log import log as logging

from ironic_virt import exceptions

LOG = logging.getLogger(__name__)

MIXED_FOR = 300.0
"""Seconds for which Ironic counts as being upgraded after a version was refused."""

_MINIMUM = "X-OpenStack-Ironic-API-Minimum-Version"
_MAXIMUM = "X-OpenStack-Ironic-API-Maximum-Version"


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

NEWEST = max(NEWER_FIELDS.values())
"""The newest version that the driver uses: what came later never changes an answer."""


class ServerVersions(NamedTuple):
    """The range of versions that a server speaks."""

    minimum: Microversion
    maximum: Microversion

    @classmethod
    def parse(cls, minimum: str, maximum: str) -> ServerVersions:
        """Read ``"1.1"`` and ``"1.115"``.

        :raises ValueError: one of them is not a version.
        """
        return cls(Microversion.parse(minimum), Microversion.parse(maximum))


@dataclasses.dataclass(frozen=True, slots=True)
class Pinned:
    """What requests are sent with.

    :ivar server: the versions that Ironic speaks.
    :ivar version: for the header.
    :ivar lacking: those of :data:`NEWER_FIELDS` that it doesn't have.
    """

    server: ServerVersions
    version: str
    lacking: frozenset[str]

    @classmethod
    def to(cls, server: ServerVersions) -> Pinned:
        """What fits a server.

        :raises MicroversionNotSupported: it is too old for the driver.
        """
        if server.maximum < FLOOR:
            raise exceptions.MicroversionNotSupported(
                "this driver", str(FLOOR), str(server.maximum)
            )
        version = max(server.minimum, min(server.maximum, NEWEST))
        lacking = (name for name, since in NEWER_FIELDS.items() if since > version)
        return cls(server, str(version), frozenset(lacking))


class Negotiation:
    """The version that one Ironic is asked with.  Thread-safe; nothing is sent here.

    :ivar pinned: ``None``: none of its servers has answered yet.

    :param clock: a monotonic clock in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.pinned: Pinned | None = None
        self._maximum: str | None = None
        self._clock = clock
        self._refused_at = float("-inf")

    def answered(self, headers: Mapping[str, str]) -> None:
        """Note what the headers of an answer say; a newer server than before is used soon."""
        if headers.get(_MAXIMUM) in (None, self._maximum):
            return
        server = _server_of(headers)
        if server is None or self.pinned is None:
            return
        is_mixed = self._clock() - self._refused_at < MIXED_FOR
        if server.maximum > self.pinned.server.maximum and not is_mixed:
            self.pin(server)

    def refused(self, headers: Mapping[str, str]) -> Pinned:
        """Pin what fits a server that refused the version of a request.

        :raises MicroversionNotSupported: it is too old for the driver.
        """
        self._refused_at = self._clock()
        # A proxy may hide the headers.
        return self.pin(_server_of(headers) or ServerVersions(FLOOR, FLOOR))

    def pin(self, server: ServerVersions) -> Pinned:
        """Take a server's versions for Ironic's.

        :raises MicroversionNotSupported: it is too old for the driver.
        """
        pinned = Pinned.to(server)
        if pinned != self.pinned:
            LOG.info("Ironic speaks API versions %s to %s; %s is used", *server, pinned.version)
        self.pinned, self._maximum = pinned, str(server.maximum)
        return pinned


def _server_of(headers: Mapping[str, str]) -> ServerVersions | None:
    try:
        return ServerVersions.parse(headers[_MINIMUM], headers[_MAXIMUM])
    except (LookupError, ValueError):
        return None
