# SPDX-License-Identifier: Apache-2.0

"""Pools as candidates: several instances each, and as many as there are places."""

import dataclasses
from collections import Counter
from typing import Any

import pytest

from ironic_virt import exceptions
from ironic_virt.request.spec import RequestSpec
from ironic_virt.scheduler.filter_scheduler import FilterScheduler
from tests.unit.scheduler.records import Record, options, scheduler

EXACT = options().scheduler.baremetal_enabled_filters
SPEC = RequestSpec(memory_mb=16384, vcpus=8, root_gb=480, resources={"CUSTOM_GOLD": 1})


@dataclasses.dataclass(frozen=True, slots=True)
class PoolRecord(Record):
    """A pool's record: its sizes are those of each of its nodes."""

    free: int = 3
    used: int = 0

    @property
    def total(self) -> int:
        return self.free + self.used


def pool(host: str, free: int = 3, used: int = 0) -> PoolRecord:
    return PoolRecord(f"gold~{host}", host, free=free, used=used, available=free > 0)


def refuse(
    picker: FilterScheduler, records: list[Record], count: int = 1, **wants: Any
) -> exceptions.NoValidHost:
    """The error when no record has what the request needs."""
    with pytest.raises(exceptions.NoValidHost) as refused:
        picker.select(dataclasses.replace(SPEC, **wants), records, count)
    return refused.value


def test_each_instance_takes_one_place_until_there_is_none() -> None:
    records = [pool("a", 2), pool("b", 1)]
    picked = scheduler(*EXACT).select(SPEC, records, 3)
    assert Counter(host.nodename for host in picked) == {"gold~a": 2, "gold~b": 1}
    refused = refuse(scheduler(*EXACT), records, count=4)
    assert (refused.found, refused.free) == (3, 3)


def test_no_service_gets_more_instances_than_allowed() -> None:
    records = [pool("a", used=2), pool("b", used=1)]
    limited = scheduler("NumInstancesFilter", max_instances_per_host=3)
    picked = limited.select(SPEC, records, 3)
    assert Counter(host.host for host in picked) == {"a": 1, "b": 2}
    assert str(refuse(limited, records, count=4)) == (
        "No valid host: 6 of 9 nodes free; "
        "NumInstancesFilter (fewer than 3 servers on the compute service) left 3; "
        "a node was found for 3 of 4 servers"
    )
    taken = [Record(f"taken{number}", "c", in_use=True) for number in range(3)]
    assert "NumInstancesFilter" in str(refuse(limited, [Record("free", "c"), *taken]))
