# SPDX-License-Identifier: Apache-2.0

"""Which API microversion each feature needs: one table.

A request is sent with the lowest version that carries all that it uses, so
that a newer server's other changes never change an answer under us.

Source: Ironic's REST API version history.
"""

from __future__ import annotations

import enum
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


BASE = Microversion(1, 38)
"""The lowest version that the driver needs: traits (1.37) and rescue states (1.38)."""


class Feature(enum.Enum):
    """A feature that only some requests use; the value is (words, version)."""

    VOLUMES = ("volume connectors and volume targets", Microversion(1, 32))
    DETAIL = ("listing nodes in detail", Microversion(1, 43))
    CONDUCTOR_GROUP = ("filtering nodes by conductor group", Microversion(1, 46))
    PROTECTED = ("protecting nodes", Microversion(1, 48))
    OWNER = ("the owner of a node", Microversion(1, 50))
    ALLOCATIONS = ("reserving nodes by allocation", Microversion(1, 52))
    JSON_CONFIG_DRIVE = ("a config drive as JSON", Microversion(1, 56))
    VENDOR_DATA = ("vendor data in config drives", Microversion(1, 59))
    RETIRED = ("retiring nodes", Microversion(1, 61))
    LESSEE = ("the lessee of a node", Microversion(1, 65))
    DEPLOY_STEPS = ("steps of a deployment", Microversion(1, 69))
    HISTORY = ("the history of a node", Microversion(1, 78))
    SHARD = ("filtering nodes by shard", Microversion(1, 82))
    HOLD = ("holding a node between steps", Microversion(1, 85))
    DISABLE_POWER_OFF = ("nodes that are never powered off", Microversion(1, 95))
    INSTANCE_NAME = ("the name of a node's instance", Microversion(1, 104))
    HEALTH = ("the health of a node", Microversion(1, 109))

    # Asked for each request, and an enumeration's own hashes a text.
    __hash__ = object.__hash__

    @property
    def words(self) -> str:
        """Its name for people."""
        return self.value[0]

    @property
    def version(self) -> Microversion:
        """The first API version that has it."""
        return self.value[1]


class ServerVersions(NamedTuple):
    """The range of versions that a server speaks."""

    minimum: Microversion
    maximum: Microversion

    def has(self, feature: Feature) -> bool:
        """Whether the server has a feature."""
        return self.maximum >= feature.version

    def require(self, feature: Feature) -> None:
        """Raise if the server lacks a feature.

        :raises MicroversionNotSupported: with the version needed and found.
        """
        if not self.has(feature):
            raise exceptions.MicroversionNotSupported(
                feature.words, str(feature.version), str(self.maximum)
            )

    def carrying(self, *features: Feature) -> Microversion:
        """The lowest version that carries all features.

        :raises MicroversionNotSupported: the server is too old for one, or
            for what the driver can't do without.
        """
        for feature in features:
            self.require(feature)
        if self.maximum < BASE:
            raise exceptions.MicroversionNotSupported("this driver", str(BASE), str(self.maximum))
        return max([BASE, self.minimum, *(feature.version for feature in features)])
