# SPDX-License-Identifier: Apache-2.0

"""From any state: every combination of what Ironic, Nova and Placement say of one node."""

import os
from typing import Any

# Nova's test support patches threads unless this is set before its first import.
os.environ.setdefault("OS_NOVA_DISABLE_EVENTLET_PATCHING", "1")


def begin(cores: Any) -> None:
    """Start a process: on one core, as its threads take turns and would wait for each other.

    :param cores: a queue of numbers, one for each process.
    """
    from nova import monkey_patch

    monkey_patch.patch()
    os.sched_setaffinity(0, {cores.get()})
