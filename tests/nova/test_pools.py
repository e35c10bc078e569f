# SPDX-License-Identifier: Apache-2.0

"""Ironic picks the nodes: several computes serve the same ones, in the real Nova."""

from collections import Counter
from typing import Any

import pytest

from tests import depth
from tests.nova.deployment import Deployment

KINDS: dict[str, dict[str, Any]] = {
    "gold": {"resource_class": "pool-gold"},
    "gpu": {"resource_class": "pool-gold", "traits": ["CUSTOM_POOL_GPU"]},
    "silver": {"resource_class": "pool-silver"},
}
EACH = depth.choose(5, nightly=20)
COMPUTES = ("compute1", "compute2", "compute3")


class TestPools(Deployment):
    """Three computes without shards, ``capacity = total``, and nodes of three kinds."""

    def setUp(self) -> None:
        # Before the scheduler starts.
        self.flags(
            weight_classes=[
                "nova.scheduler.weights.all_weighers",
                "ironic_virt.nova.weighers.PlainPoolWeigher",
            ],
            group="filter_scheduler",
        )
        super().setUp()
        self.start_nova(
            self._real,
            api_retry_interval=1,
            node_selection="ironic",
            capacity="total",
            # All want one at the same time.
            allocation_timeout=600,
        )
        self.flags(max_attempts=5, group="scheduler")
        # Equal hosts would be taken in the same order each time.
        self.flags(
            num_instances_weight_multiplier=-1.0,
            shuffle_best_same_weighed_hosts=True,
            group="filter_scheduler",
        )
        self.flags(instances=-1, group="quota")
        self.kinds = {name: set(self.make_nodes(EACH, **fields)) for name, fields in KINDS.items()}
        self.flavors = {
            "gold": self.flavor("CUSTOM_POOL_GOLD"),
            "gpu": self.flavor("CUSTOM_POOL_GOLD", **{"trait:CUSTOM_POOL_GPU": "required"}),
            "silver": self.flavor("CUSTOM_POOL_SILVER"),
        }

    def flavor(self, resource_class: str, **more: str) -> str:
        return self._create_flavor(
            memory_mb=16384,
            vcpu=8,
            disk=100,
            ephemeral=0,
            extra_spec={
                f"resources:{resource_class}": "1",
                "resources:VCPU": "0",
                "resources:MEMORY_MB": "0",
                "resources:DISK_GB": "0",
                **more,
            },
        )

    def allocations(self) -> list[dict[str, Any]]:
        """Ironic's, those of our nodes."""
        found = self.ironic("GET", "/allocations")["allocations"]
        return [one for one in found if one["resource_class"].startswith("pool-")]

    def carriers(self) -> dict[str, str]:
        """The node of each instance, by instance."""
        nodes = self.ironic("GET", "/nodes?associated=true&fields=uuid,instance_uuid")["nodes"]
        return {one["instance_uuid"]: one["uuid"] for one in nodes}

    @pytest.mark.seldom
    @pytest.mark.timeout(1800, method="thread")
    def test_a_server_on_every_node_at_once(self) -> None:
        computes = [self.start_service("compute", host) for host in COMPUTES]
        providers = {one["name"]: one["uuid"] for one in self._get_all_providers()}
        assert len(providers) == 9, "one for each kind and compute"
        for name, uuid in providers.items():
            [inventory] = self._get_provider_inventory(uuid).values()
            assert (inventory["total"], inventory["reserved"]) == (EACH, 0), name

        servers: dict[str, str] = {}
        for kind in ("gold", "silver", "gpu"):
            for number in range(EACH):
                server = self.boot(f"{kind}-{number}", flavorRef=self.flavors[kind])
                servers[server["id"]] = kind
        for server in servers:
            self.wait_for({"id": server}, "ACTIVE")
        carriers = self.carriers()
        pools = Counter(self.node_of({"id": one}).rpartition("~")[0] for one in servers)
        assert len(pools) == 3, pools
        assert set(pools.values()) == {EACH}, "none in the pool of another kind"
        assert len({carriers[server] for server in servers}) == 3 * EACH
        right = {server: carriers[server] in self.kinds[kind] for server, kind in servers.items()}
        assert all(right.values()), Counter(right.values())
        assert len(self.allocations()) == 3 * EACH
        hosts = Counter(self.server({"id": one})["OS-EXT-SRV-ATTR:host"] for one in servers)
        assert set(hosts) == set(COMPUTES), "spread over all"

        self.refresh(*computes)
        for kind, flavor in self.flavors.items():
            one_more = self.boot(f"one more {kind}", flavorRef=flavor)
            fault = self.wait_for(one_more, "ERROR")["fault"]
            assert "No valid host" in fault["message"]
            self.delete(one_more)

        for server in servers:
            self.api.delete_server(server)
        for server in servers:
            self.wait_until_gone({"id": server})
        for node in set().union(*self.kinds.values()):
            assert self.wait_for_node(node, "available")["instance_uuid"] is None
        assert self.allocations() == []
        self.refresh(*computes)
        for name, uuid in providers.items():
            [inventory] = self._get_provider_inventory(uuid).values()
            assert (inventory["total"], inventory["reserved"]) == (EACH, 0), name
