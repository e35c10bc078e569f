# SPDX-License-Identifier: Apache-2.0

"""Server groups by failure domain, in the real Nova over the fake Ironic."""

from collections import Counter
from concurrent import futures
from typing import Any, ClassVar

import pytest
from nova.tests import fixtures as nova_fixtures

from tests.nova.deployment import IMAGE
from tests.nova.fleets import Fleet

FILTERS = [
    "ComputeFilter",
    "ServerGroupAntiAffinityFilter",
    "ServerGroupAffinityFilter",
    "FailureDomainFilter",
]
RACKS = 4
EACH = 3


class Racks(Fleet):
    """Racks of nodes, which one compute service has.

    :cvar own: options of the service.
    :cvar sizes: how many nodes each rack has.
    :ivar racks: the rack of each node.
    """

    own: ClassVar[dict[str, Any]] = {}
    sizes: ClassVar[tuple[int, ...]] = (EACH,) * RACKS

    def setUp(self) -> None:
        # Before the scheduler starts.
        self.flags(
            available_filters=[
                "nova.scheduler.filters.all_filters",
                "ironic_virt.nova.server_groups.all_filters",
            ],
            enabled_filters=FILTERS,
            weight_classes=[
                "nova.scheduler.weights.all_weighers",
                "ironic_virt.nova.server_groups.FailureDomainWeigher",
            ],
            group="filter_scheduler",
        )
        super().setUp()
        # Of several workers none knows what the others do; Nova's own way refuses a second one.
        for number in range(2):
            fixture = nova_fixtures.ServiceFixture("scheduler", f"scheduler{number}")
            self.useFixture(fixture)
        self.flags(instances=-1, server_group_members=-1, group="quota")
        self.racks: dict[str, str] = {}
        for number, size in enumerate(self.sizes):
            self.make_rack(f"r{number}", size)
        self.start()

    def start(self) -> None:
        """Start the compute service."""
        self.compute = self.start_compute(
            "compute1", failure_domain="capabilities/rack", **self.own
        )

    def make_rack(self, rack: str | None, count: int, **fields: Any) -> list[str]:
        properties = {"cpu_arch": "x86_64", "cpus": 8, "memory_mb": 16384, "local_gb": 100}
        if rack is not None:
            properties["capabilities"] = f"rack:{rack}"
        nodes = self.make_nodes(count, properties=properties, **fields)
        self.racks.update(dict.fromkeys(nodes, rack or ""))
        return nodes

    def make_group(self, policy: str, most: int | None = None) -> str:
        """A server group named after its policy."""
        body: dict[str, Any] = {"name": "web", "policy": policy}
        if most is not None:
            body["rules"] = {"max_server_per_host": most}
        return self.api.post_server_groups(body)["id"]

    def ask(self, count: int = 1, name: str = "server", **hints: str) -> dict[str, Any]:
        """Ask for servers, all in one request; the first of them."""
        body = {"name": name, "imageRef": IMAGE, "flavorRef": self.flavor_id, "networks": "none"}
        if count > 1:
            body.update(min_count=count, max_count=count)
        return self.api.post_server({"server": body, "os:scheduler_hints": hints})

    def ask_at_once(self, count: int, group: str) -> None:
        """Ask for servers, each in a separate request, all at once."""
        with futures.ThreadPoolExecutor(count) as pool:
            list(pool.map(lambda _: self.ask(group=group), range(count)))

    def settle(self) -> list[dict[str, Any]]:
        """All servers when nothing is done to any, and Nova has written why some failed."""
        # In older releases a list lacks the faults of servers that got no host.
        return self.until(
            lambda: [self.api.get_server(one["id"]) for one in self.api.get_servers()],
            lambda seen: all(
                (one["status"] == "ACTIVE" or "fault" in one) and not one["OS-EXT-STS:task_state"]
                for one in seen
            ),
        )

    def statuses(self) -> Counter[str]:
        return Counter(one["status"] for one in self.settle())

    def used_racks(self) -> dict[str, int]:
        """How many nodes of each rack have a server."""
        used = [rack for node, rack in self.racks.items() if self.node(node)["instance_uuid"]]
        return dict(sorted(Counter(used).items()))

    def check_allocated(self, count: int) -> None:
        """See that this many nodes are allocated, once Nova has deleted those of failed builds."""
        self.until(self.allocated, lambda seen: seen == count)

    def refused(self, server: dict[str, Any]) -> str:
        """Why a server was refused, as its user reads it."""
        return self.wait_for(server, "ERROR")["fault"]["message"]


class Groups(Racks):
    """Four racks of three nodes."""

    def test_strict_one_by_one(self) -> None:
        group = self.make_group("anti-affinity")
        for number in range(RACKS):
            self.wait_for(self.ask(name=f"s{number}", group=group), "ACTIVE")
        assert self.used_racks() == {"r0": 1, "r1": 1, "r2": 1, "r3": 1}
        # A pool's numbers are those of the last refresh.
        self.refresh(self.compute)
        reason = self.refused(self.ask(group=group))
        assert "server group web (anti-affinity)" in reason, reason
        assert "r0 1/2, r1 1/2, r2 1/2, r3 1/2" in reason, reason
        self.check_allocated(RACKS)

    def test_strict_at_once_is_all_or_none(self) -> None:
        group = self.make_group("anti-affinity")
        self.ask(RACKS + 1, group=group)
        assert self.statuses() == {"ERROR": RACKS + 1}
        reasons = {one["fault"]["message"] for one in self.settle()}
        assert all("5 to place, at most 1 to a failure domain" in reason for reason in reasons)
        assert self.used_racks() == {}
        self.check_allocated(0)

    def test_a_rule_is_of_failure_domains(self) -> None:
        self.ask(2 * RACKS, group=self.make_group("anti-affinity", most=2))
        assert self.statuses() == {"ACTIVE": 2 * RACKS}
        assert self.used_racks() == {"r0": 2, "r1": 2, "r2": 2, "r3": 2}

    def test_soft_at_once(self) -> None:
        self.ask(2 * RACKS, group=self.make_group("soft-anti-affinity"))
        assert self.statuses() == {"ACTIVE": 2 * RACKS}
        assert self.used_racks() == {"r0": 2, "r1": 2, "r2": 2, "r3": 2}

    def test_pack_at_once(self) -> None:
        in_the_way = self.ask()
        self.wait_for(in_the_way, "ACTIVE")
        (taken,) = self.used_racks()
        self.refresh(self.compute)
        self.ask(EACH, group=self.make_group("affinity"))
        assert self.statuses() == {"ACTIVE": EACH + 1}
        used = self.used_racks()
        assert used.pop(taken) == 1
        assert list(used.values()) == [EACH]

    def test_pack_beyond_a_rack_is_all_or_none(self) -> None:
        self.ask(EACH + 1, group=self.make_group("affinity"))
        assert self.statuses() == {"ERROR": EACH + 1}
        reasons = {one["fault"]["message"] for one in self.settle()}
        assert all("4 to place, all in one failure domain" in reason for reason in reasons)
        assert self.used_racks() == {}
        self.check_allocated(0)

    def test_pack_one_by_one(self) -> None:
        group = self.make_group("affinity")
        for number in range(EACH):
            self.wait_for(self.ask(name=f"s{number}", group=group), "ACTIVE")
        assert list(self.used_racks().values()) == [EACH]
        self.refresh(self.compute)
        assert "server group web (affinity)" in self.refused(self.ask(group=group))

    def test_nodes_without_a_domain(self) -> None:
        self.make_rack(None, 3)
        self.refresh(self.compute)
        strict = self.make_group("anti-affinity", most=EACH)
        self.ask(RACKS * EACH - 1, group=strict)
        assert self.statuses() == {"ACTIVE": RACKS * EACH - 1}
        assert "" not in self.used_racks()
        self.refresh(self.compute)
        soft = self.make_group("soft-anti-affinity")
        self.wait_for(self.ask(name="in a rack", group=soft), "ACTIVE")
        assert "" not in self.used_racks()
        self.wait_for(self.ask(name="elsewhere", group=soft), "ACTIVE")
        assert self.used_racks()[""] == 1
        self.refresh(self.compute)
        assert "server group web" in self.refused(self.ask(group=strict))

    def test_a_race(self) -> None:
        group = self.make_group("anti-affinity")
        self.ask_at_once(8, group)
        self.settle()
        used = self.used_racks()
        assert set(used.values()) == {1}, used
        self.check_allocated(len(used))

    def test_a_server_that_is_deleted_makes_room(self) -> None:
        group = self.make_group("anti-affinity")
        self.ask(RACKS, group=group)
        first, *_ = self.settle()
        self.delete(first)
        self.refresh(self.compute)
        self.wait_for(self.ask(name="another", group=group), "ACTIVE")
        assert self.used_racks() == {"r0": 1, "r1": 1, "r2": 1, "r3": 1}

    def test_hints_and_flavors_name_domains(self) -> None:
        for number in range(EACH):
            self.wait_for(self.ask(name=f"s{number}", failure_domain="r2"), "ACTIVE")
        assert self.used_racks() == {"r2": EACH}
        self.refused(self.ask(failure_domain="r2"))
        self.flavor_id = self.make_flavor(ironic_virt__failure_domain="r1,r2")
        self.wait_for(self.ask(name="by flavor"), "ACTIVE")
        assert self.used_racks() == {"r1": 1, "r2": EACH}
        self.refused(self.ask(failure_domain="r2,r3"))


class Twelve(Racks):
    """Half of the nodes are asked for."""

    sizes = (6,) * RACKS

    def test_twelve_of_24_are_three_to_a_rack(self) -> None:
        self.ask(12, group=self.make_group("soft-anti-affinity"))
        assert self.statuses() == {"ACTIVE": 12}
        assert self.used_racks() == {"r0": 3, "r1": 3, "r2": 3, "r3": 3}


class Large(Racks):
    """Racks; two have more nodes than the others."""

    sizes = (4, 18, 6, 17)

    @pytest.mark.seldom
    def test_eighteen_are_in_one_rack_or_refused(self) -> None:
        group = self.make_group("affinity")
        self.ask(18, group=group)
        assert self.statuses() == {"ACTIVE": 18}
        assert self.used_racks() == {"r1": 18}
        self.refresh(self.compute)
        self.ask(18, name="more", group=self.make_group("affinity"))
        assert self.statuses() == {"ACTIVE": 18, "ERROR": 18}
        assert self.used_racks() == {"r1": 18}
        self.check_allocated(18)


@pytest.mark.seldom
class TestGroups(Groups):
    """Nova's scheduler picks the node."""


class TestPools(Groups):
    """The driver picks the failure domain."""

    own: ClassVar[dict[str, Any]] = {"node_selection": "ironic"}


class TestTwelve(Twelve):
    """Nova's scheduler picks the node."""


class TestTwelveInPools(Twelve):
    """The driver picks the failure domain."""

    own: ClassVar[dict[str, Any]] = {"node_selection": "ironic"}


class TestLarge(Large):
    """Nova's scheduler picks the node."""


class TestLargeInPools(Large):
    """The driver picks the failure domain."""

    own: ClassVar[dict[str, Any]] = {"node_selection": "ironic"}


class TestWithoutTheOption(Racks):
    """Nothing names failure domains: groups are Nova's own, and count hosts."""

    def start(self) -> None:
        self.compute = self.start_compute("compute1")

    def test_groups_count_hosts(self) -> None:
        group = self.make_group("anti-affinity")
        self.wait_for(self.ask(group=group), "ACTIVE")
        assert "No valid host" in self.refused(self.ask(name="second", group=group))
        assert not self.compute.manager.driver._records.groups_checked
        self.ask(EACH + 1, group=self.make_group("affinity"))
        assert self.statuses() == {"ACTIVE": EACH + 2, "ERROR": 1}

    def test_nova_checks_late(self) -> None:
        group = self.make_group("anti-affinity")
        self.ask_at_once(4, group)
        assert self.statuses()["ACTIVE"] <= 1
