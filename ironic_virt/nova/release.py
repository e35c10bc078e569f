# SPDX-License-Identifier: Apache-2.0

"""What the installed release of Nova has and lacks, found by looking, never by its number.

All that the driver does differently for an older Nova is listed here.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable

import nova.conf
from nova.conf import ironic
from nova.virt import driver

from ironic_virt import exceptions

OLDEST = "2024.1 (Nova 29)"


@dataclasses.dataclass(frozen=True, slots=True)
class Feature:
    """Something that came to Nova after the oldest release that works.

    :ivar name: in Nova's words.
    :ivar is_there: whether the installed release has it.
    :ivar without: what the driver does where it is missing, or what then does not work.
    """

    name: str
    is_there: Callable[[], bool]
    without: str


FEATURES = (
    Feature(
        "[ironic] vnc_console_state_timeout",
        lambda: _has_ironic_option("vnc_console_state_timeout"),
        "the driver adds the option",
    ),
    Feature(
        "shares of Manila in rescue",
        lambda: "share_info" in inspect.signature(driver.ComputeDriver.rescue).parameters,
        "no difference: bare metal has no shares",
    ),
    Feature(
        "ComputeDriver.process_instances_at_startup",
        lambda: hasattr(driver.ComputeDriver, "process_instances_at_startup"),
        "a build that a restart has interrupted ends in ERROR",
    ),
    Feature(
        "[compute] update_resources_max_workers",
        lambda: "update_resources_max_workers" in nova.conf.CONF.compute,
        "Nova updates compute node records one after the other",
    ),
)
"""The newest last."""


def check() -> None:
    """See that this Nova is one that the driver works with.

    :raises InvalidConfiguration: it is too old.
    """
    if not _has_ironic_option("shard"):
        raise exceptions.InvalidConfiguration(
            "[DEFAULT] compute_driver",
            "ironic_virt does not work with this release of Nova, which has no [ironic] shard. "
            f"The oldest release that works is {OLDEST}",
        )


def lacking() -> list[Feature]:
    """The features that the installed release doesn't have."""
    return [feature for feature in FEATURES if not feature.is_there()]


def _has_ironic_option(name: str) -> bool:
    return any(option.dest == name for option in ironic.ironic_options)
