# SPDX-License-Identifier: Apache-2.0

"""Names of resource classes: Ironic's own and Placement's."""

from __future__ import annotations

import functools
import re

CUSTOM = "CUSTOM_"


@functools.lru_cache(maxsize=4096)
def placement_class(resource_class: str) -> str:
    """A resource class in Placement's form: ``gold.8`` is ``CUSTOM_GOLD_8``.

    A name that has that form already stays as it is.
    """
    normal = re.sub(r"[^A-Z0-9_]", "_", resource_class.upper())
    return normal if normal.startswith(CUSTOM) else f"{CUSTOM}{normal}"
