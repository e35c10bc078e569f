# SPDX-License-Identifier: Apache-2.0

"""Records of compute nodes, options and schedulers for the tests of this room."""

import dataclasses
import datetime
import random
from collections.abc import Mapping
from typing import Any

from oslo_config import cfg

from ironic_virt import conf
from ironic_virt.scheduler.filter_scheduler import FilterScheduler


@dataclasses.dataclass(frozen=True, slots=True)
class Record:
    """A bare metal node's record, free unless it is said otherwise."""

    uuid: str = "node-1"
    host: str = "compute-1"
    vcpus: int = 8
    memory_mb: int = 16384
    local_gb: int = 480
    resource_class: str | None = "gold"
    traits: frozenset[str] = frozenset()
    stats: Mapping[str, str] = dataclasses.field(default_factory=dict)
    in_use: bool = False
    available: bool = True
    instance_uuid: str | None = None
    updated_at: datetime.datetime | None = None


def options(**values: Any) -> cfg.ConfigOpts:
    """The options, those of ``[scheduler]`` with values of the test's."""
    loaded = cfg.ConfigOpts()
    conf.register_opts(loaded)
    loaded([], default_config_files=[], default_config_dirs=[])
    for name, value in values.items():
        loaded.set_override(name, value, "scheduler")
    return loaded


def scheduler(*filters: str, seed: int = 1, **values: Any) -> FilterScheduler:
    return FilterScheduler.from_conf(
        options(enabled_filters=list(filters), **values), random.Random(seed)
    )
