# SPDX-License-Identifier: Apache-2.0

"""Nova's own driver and this one say the same of nodes in all states, but for a few things."""

import itertools
from typing import Any

import pytest
from nova.compute import provider_tree
from nova.virt.ironic import driver as in_tree

from ironic_virt.baremetal import states
from tests.nova.fleets import Fleet

OTHERS = "5c0d0f6e-0000-4000-8000-{:012d}"
NODES = 500
"""More than there are combinations of what a node can be like."""


def offered(driver: Any, name: str) -> dict[str, Any]:
    """What a driver reports of a node, without what it says of itself."""
    tree = provider_tree.ProviderTree()
    tree.new_root(name, name)
    driver.update_provider_tree(tree, name)
    resource = dict(driver.get_available_resource(name))
    resource["supported_instances"] = [
        list(map(str, one)) for one in resource["supported_instances"]
    ]
    stats = resource.pop("stats")
    data = tree.data(name)
    return {
        **resource,
        "stats": {key: one for key, one in stats.items() if not key.startswith("ironic_virt.")},
        "inventory": data.inventory,
        "traits": {trait for trait in data.traits if not trait.startswith("COMPUTE_")},
    }


class TestBothDrivers(Fleet):
    """One service with two servers."""

    def make_mixed(self, count: int) -> set[str]:
        """Nodes of all states, in the shard; those that carry an instance of somebody else."""
        foreign = set()
        kinds = itertools.product(
            sorted(states.ALL),
            ("power on", "power off", "error", None),
            ({}, {"maintenance": True}, {"protected": True}),
        )
        for number, (state, power, flags) in enumerate(
            itertools.islice(itertools.cycle(kinds), count)
        ):
            instance = OTHERS.format(number) if state in states.DEPLOYED else None
            nodes = self.make_nodes(
                1,
                shard="a",
                provision_state=state,
                power_state=power,
                instance_uuid=instance,
                resource_class=("baremetal-gold", "R640 (96G)", "CUSTOM_Y")[number % 3],
                traits=["CUSTOM_SSD", "HW_CPU_X86_VMX"][: number % 3],
                properties={
                    "cpus": str(number),
                    "memory_mb": 1024 * number,
                    "cpu_arch": ("x86_64", "aarch64", None)[number % 3],
                    "capabilities": ("", "boot_mode:uefi", "a:b,c:d")[number % 3],
                },
                **flags,
            )
            foreign.update(nodes if instance else ())
        return foreign

    @pytest.mark.seldom
    def test_of_nodes_in_all_states_both_say_the_same(self) -> None:
        self.make_nodes(3, shard="a", traits=["CUSTOM_SSD"])
        compute = self.start_compute("compute-a", shard="a")
        servers = {self.boot(f"server-{number}")["id"] for number in range(2)}
        for server in servers:
            self.wait_for({"id": server}, "ACTIVE")
        self.flags(host="compute-a")
        self.flags(shard="a", group="ironic")
        foreign = self.make_mixed(NODES)
        self.refresh(compute)
        ours, theirs = compute.manager.driver, in_tree.IronicDriver(None)
        theirs.init_host("compute-a")
        self.fake.requests.clear()
        names, their_names = set(ours.get_available_nodes()), set(theirs.get_available_nodes())
        assert len(names) == NODES + 3
        assert names - their_names == foreign
        assert their_names <= names
        for name in sorted(their_names):
            assert offered(ours, name) == offered(theirs, name)
        for driver in (ours, theirs):
            assert servers <= set(driver.list_instance_uuids())
        assert list(self.fake.requests.mutating()) == []
