# SPDX-License-Identifier: Apache-2.0

"""How much of what has no natural end a run tries: seeds, histories, examples.

``IRONIC_VIRT_TEST_DEPTH`` is ``quick``, the default, or ``nightly``.
"""

import os
from typing import TypeVar

T = TypeVar("T")

VARIABLE = "IRONIC_VIRT_TEST_DEPTH"


def choose(quick: T, nightly: T) -> T:
    """Return the value for this run's depth.

    :raises ValueError: the variable has another value than the two.
    """
    depth = os.environ.get(VARIABLE, "quick")
    if depth not in {"quick", "nightly"}:
        raise ValueError(f"{VARIABLE} is {depth!r}, not 'quick' or 'nightly'")
    return nightly if depth == "nightly" else quick
