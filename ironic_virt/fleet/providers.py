# SPDX-License-Identifier: Apache-2.0

"""What Placement says of bare metal, as plain data.

Most of it comes in lists: all providers, those that have room for a resource class, those
that have a trait.  What is allocated, and what is in an inventory, Placement tells provider by
provider, so only providers are asked for it of which the lists don't say enough.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

CAPABILITY_TRAITS = "COMPUTE_"
"""Nova adds traits that begin so for what the driver can do."""


@dataclasses.dataclass(frozen=True, slots=True)
class Provider:
    """A resource provider.

    :ivar parent: the uuid of the provider that it is below; ``None``: of none.
    """

    uuid: str
    name: str
    parent: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Stock:
    """The inventory of one resource class."""

    total: int
    reserved: int = 0


Resources = Mapping[str, int]
"""Amounts by resource class."""


@dataclasses.dataclass(frozen=True)
class Placement:
    """What was read.

    :ivar providers: all, by uuid.
    :ivar room: by resource class, the providers that have room for one more.
    :ivar traits: by trait, the providers that have it; only of traits that were asked for.
    :ivar allocations: by provider, by consumer; only of providers that were asked.
    :ivar stocks: by provider, by resource class; only of providers that were asked.
    """

    providers: Mapping[str, Provider] = dataclasses.field(default_factory=dict)
    room: Mapping[str, frozenset[str]] = dataclasses.field(default_factory=dict)
    traits: Mapping[str, frozenset[str]] = dataclasses.field(default_factory=dict)
    allocations: Mapping[str, Mapping[str, Resources]] = dataclasses.field(default_factory=dict)
    stocks: Mapping[str, Mapping[str, Stock]] = dataclasses.field(default_factory=dict)

    def offers(self, provider: str) -> frozenset[str]:
        """The resource classes of which a provider has room for one more."""
        return frozenset(name for name, having in self.room.items() if provider in having)
