# SPDX-License-Identifier: Apache-2.0

"""The driver: a thin façade, and one module for each capability.

The façade, and with it the HTTP stack, is loaded when it is first used: what only reads
flavors or the names of pools does without.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ironic_virt.driver.driver import IronicDriver

__all__ = ["IronicDriver"]


def __getattr__(name: str) -> Any:
    if name != "IronicDriver":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from ironic_virt.driver.driver import IronicDriver

    return IronicDriver
