# SPDX-License-Identifier: Apache-2.0

"""The real sizes of bare metal nodes, as scheduler filters and weighers find them.

Nova's compute nodes of bare metal have none.  Ours keep them in ``stats``
(:data:`STATS_PREFIX`), which the scheduler reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ironic_virt.driver.resources import HYPERVISOR_TYPE
from ironic_virt.request.sizes import Sizes

STATS_PREFIX = "ironic_virt."
TRAITS = f"{STATS_PREFIX}traits"
"""Where a pool's traits are, with commas between them."""
FAILURE_DOMAINS = f"{STATS_PREFIX}failure_domains"
"""Where a node or a pool has its free nodes by failure domain, as a JSON object."""
FAILURE_DOMAIN = f"{STATS_PREFIX}failure_domain"
"""Where a server's failure domain is in its ``system_metadata``."""
HINT = "failure_domain"
_EXTRA_SPEC = "ironic_virt:failure_domain"


def is_bare_metal(host: Any) -> bool:
    """Whether a host state is of a bare metal node, of any driver."""
    return bool(host.hypervisor_type == HYPERVISOR_TYPE)


def of_host(host: Any) -> Sizes:
    """What a node has; all of it is free, or Placement would not have offered it."""
    return Sizes(_stat(host, "vcpus"), _stat(host, "memory_mb"), 1024 * _stat(host, "local_gb"))


def named_domains(hint: Any, extra_specs: Mapping[str, str]) -> frozenset[str] | None:
    """The failure domains that a scheduler hint and a flavor both allow; ``None``: all."""
    hint = ",".join(map(str, hint)) if isinstance(hint, list) else hint
    texts = [str(text) for text in (hint, extra_specs.get(_EXTRA_SPEC)) if text]
    named = [frozenset(name.strip() for name in text.split(",")) - {""} for text in texts]
    return frozenset.intersection(*named) if named else None


def _stat(host: Any, name: str) -> int:
    text = (host.stats or {}).get(STATS_PREFIX + name)
    return int(text) if text and text.isdecimal() else 0
