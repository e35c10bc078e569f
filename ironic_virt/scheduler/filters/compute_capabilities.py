# SPDX-License-Identifier: Apache-2.0

"""``ComputeCapabilitiesFilter``: a flavor's extra specs against a node's capabilities."""

from __future__ import annotations

import functools
import json
from typing import Any

from ironic_virt.request import requirements
from ironic_virt.request.spec import RequestSpec
from ironic_virt.scheduler.filters import BaseHostFilter
from ironic_virt.scheduler.host_state import FACTS, HostState

_SCOPE = "capabilities"


class ComputeCapabilitiesFilter(BaseHostFilter):
    """The node's capabilities fulfil the flavor's extra specs.

    ``capabilities:boot_mode`` names a capability, which the node must have;
    ``capabilities:cpu_info:features`` one inside a capability that is JSON.  A key
    without a scope counts only for nodes that have such a capability or fact, and
    keys of other scopes don't count.
    """

    def why_not(self, host: HostState, spec: RequestSpec) -> str | None:
        """See :class:`BaseHostFilter`."""
        for key, requirement in spec.extra_specs.items():
            path, scoped = _path(key)
            if not path or not (scoped or path[0] in FACTS or path[0] in host.stats):
                continue
            value = _value(host, path)
            if value is None:
                return f"it has no capability {':'.join(path)}"
            if not requirements.matches(str(value), requirement):
                return f"its {':'.join(path)} is {value}, not {requirement}"
        return None

    def wish(self, spec: RequestSpec) -> str:
        """See :class:`BaseHostFilter`."""
        wishes = [
            f"{':'.join(path)} {requirement}"
            for key, requirement in spec.extra_specs.items()
            for path, scoped in [_path(key)]
            if path and scoped
        ]
        return ", ".join(wishes) or "any capabilities"


@functools.lru_cache(maxsize=1024)
def _path(key: str) -> tuple[tuple[str, ...], bool]:
    """The capability that a key names, and whether by its scope; none: ``()``."""
    first, *rest = key.split(":")
    if not rest:
        return (first,), False
    return (tuple(rest) if first == _SCOPE else ()), True


def _value(host: HostState, path: tuple[str, ...]) -> Any:
    first, *rest = path
    value = getattr(host, first, None) if first in FACTS else None
    if value is None:
        value = host.stats.get(first)
    for name in rest:
        if isinstance(value, str):
            try:
                value = json.loads(value)
            except ValueError:
                return None
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return value
