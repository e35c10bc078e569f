# SPDX-License-Identifier: Apache-2.0

"""Which server the lines of the log are about, as Nova shows it: ``[instance: UUID]``."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator
from typing import Any

from oslo_context import context


@contextlib.contextmanager
def about(instance: Any) -> Iterator[None]:
    """Have every line that this thread logs in the block name the instance.

    :param instance: Nova's; ``None``: it is about none.
    """
    former = context.get_current()
    if instance is None or former is None:
        yield
        return
    # Another thread may carry the same request out for another server.
    ours = copy.copy(former)
    ours.resource_uuid = instance.uuid
    ours.update_store()
    try:
        yield
    finally:
        former.update_store()
