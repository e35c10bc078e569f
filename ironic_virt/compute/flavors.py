# SPDX-License-Identifier: Apache-2.0

"""Flavors as people write them, checked before anything is made of them."""

from __future__ import annotations

from ironic_virt import virt
from ironic_virt.request.spec import RequestSpec


def check(flavor: virt.FlavorLike) -> None:
    """See that a flavor's extra specs can be read.

    :raises InvalidExtraSpec: one that is understood has an impossible value.
    """
    RequestSpec.from_flavor(flavor)
    if any(name.startswith("ironic:") for name in flavor.extra_specs):
        # The driver takes long to import, and commands mostly do without.
        from ironic_virt.driver.deploy import steps

        steps.wanted(flavor)
