# SPDX-License-Identifier: Apache-2.0

"""Pick free nodes for instances of a flavor, from records of compute nodes."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping

from ironic_virt import conf, exceptions, virt
from ironic_virt.request.spec import RequestSpec
from ironic_virt.scheduler.filter_scheduler import FilterScheduler


@dataclasses.dataclass(frozen=True)
class ComputeNode:
    """A record of a service's own: the attributes of ``ComputeNodeLike``."""

    uuid: str
    host: str
    memory_mb: int
    resource_class: str
    vcpus: int = 8
    local_gb: int = 480
    hypervisor_type: str = "ironic"
    traits: frozenset[str] = frozenset()
    stats: Mapping[str, str] = dataclasses.field(default_factory=dict)
    in_use: bool = False
    available: bool = True
    instance_uuid: str | None = None


def pick(config_file: str) -> None:
    scheduler = FilterScheduler.from_conf(conf.load([config_file]))
    nodes = {
        f"node-{i}": ComputeNode(f"node-{i}", f"compute-{i % 2}", 65536 << i % 2, "gold")
        for i in range(4)
    }
    gold = virt.Flavor("gold", memory_mb=65536, extra_specs={"resources:CUSTOM_GOLD": "1"})
    for number in range(5):
        spec = RequestSpec.from_flavor(gold, instance_uuid=f"instance-{number}")
        try:
            (node,) = scheduler.select(spec, nodes.values())
        except exceptions.NoValidHost as exc:
            print(exc)
        else:
            print(f"{spec.instance_uuid}: {node.nodename} of {node.host}")
            # A service writes this claim into its records, unless another was first.
            claimed = dataclasses.replace(nodes[node.nodename], instance_uuid=spec.instance_uuid)
            nodes[node.nodename] = claimed


if __name__ == "__main__":
    pick(sys.argv[1])
