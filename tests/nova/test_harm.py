# SPDX-License-Identifier: Apache-2.0

"""What goes wrong in Ironic behind Nova's back: what its own driver does then, and what ours."""

from collections.abc import Iterator
from typing import Any

import openstack.exceptions
import pytest

from ironic_virt.testing.fault_proxy import FaultProxy, Status
from tests.nova import figures
from tests.nova.services import Services
from tools import real_ironic

CHANGES = tuple(f"ironic {method}" for method in ("POST", "PUT", "PATCH", "DELETE"))


class Moved(Services, starts=True):
    """Two nodes, one with a server, that have gone to another service's shard unseen."""

    def setUp(self) -> None:
        super().setUp()
        self.used, self.free = self.make_nodes(2, shard="a")
        self.start_compute("compute1", shard="a")
        self.booted = self.boot_at("compute1", self.used)
        self.change_shard("b")
        self.before = self.both()

    def change_shard(self, shard: str) -> None:
        for node in (self.used, self.free):
            self.set_on_node(node, shard=shard)

    def both(self) -> list[dict[str, Any]]:
        """The nodes as they are."""
        return [self.node(self.used), self.node(self.free)]


class TestMovedInTree(Moved, driver=figures.IN_TREE):
    """Nova's own driver."""

    def test_it_acts_on_nodes_of_another_shard(self) -> None:
        self.reboot(self.booted)
        self.boot_at("compute1", self.free, "second")
        assert {node["shard"] for node in self.both()} == {"b"}
        assert self.node(self.free)["provision_state"] == "active"
        self.delete_and_free(self.booted)


class TestMoved(Moved, driver=figures.OURS):
    """Ours."""

    def test_it_refuses_and_changes_nothing(self) -> None:
        sent = len(self.counted.log)
        self.act(self.booted, reboot={"type": "HARD"})
        # A server that is off, as fake hardware is, and doesn't reboot is in ERROR for Nova.
        failed = self.wait_for(self.booted, "ERROR")
        assert "its shard is 'b'" in failed["fault"]["message"]
        second = self.boot("second")
        self.wait_for(second, "ERROR")
        self.api.delete_server(self.booted["id"])
        self.until(
            lambda: self.server(self.booted)["fault"]["message"],
            lambda told: "could not be torn down: its shard is 'b'" in told,
        )
        self.wait_for(self.booted, "ERROR")
        assert [line for line in self.counted.log[sent:] if line.startswith(CHANGES)] == []
        assert self.both() == self.before
        self.change_shard("a")
        self.delete_and_free(self.booted)


@pytest.fixture(scope="module")
def small_pages(progress) -> Iterator[real_ironic.RealIronic]:
    """A real Ironic that lists two nodes at a time."""
    options = real_ironic.Options(overrides={"api": {"max_limit": "2"}})
    with real_ironic.RealIronic(options, progress=progress) as ironic:
        yield ironic


class HalfAList(Services, given="small_pages"):
    """The second page of a list of nodes fails."""

    def setUp(self) -> None:
        super().setUp()
        proxy = self.proxy = self.enterContext(FaultProxy(self._real.url))
        self.start_nova(self._real, endpoint_override=proxy.url, api_max_retries=1)
        self.nodes = self.make_nodes(5)
        # Ours would ask for changes only.
        self.compute = self.start_compute("compute1", inventory_full_resync_period=0)
        self.before = self.records()
        assert set(self.before) == set(self.nodes)
        self.second_page = proxy.add(Status(500), path="marker=")


class TestHalfAListInTree(HalfAList, driver=figures.IN_TREE):
    """Nova's own driver."""

    def test_the_periodic_task_ends_in_an_error(self) -> None:
        with pytest.raises(openstack.exceptions.HttpException):
            self.refresh(self.compute)
        assert self.second_page.hits
        assert self.records() == self.before


class TestHalfAList(HalfAList, driver=figures.OURS):
    """Ours."""

    def test_the_former_list_stays_in_force(self) -> None:
        self.refresh(self.compute)
        assert self.second_page.hits
        assert set(self.compute.manager.driver.get_available_nodes()) == set(self.nodes)
        assert self.records() == self.before
        gone = self.nodes[0]
        self.ironic("DELETE", f"/nodes/{gone}")
        self.refresh(self.compute)
        assert self.records() == self.before
        self.proxy.rules.clear()
        self.refresh(self.compute)
        assert set(self.records()) == set(self.nodes) - {gone}


class Refused(Services):
    """A node whose trait somebody has taken away: Ironic refuses to deploy to it."""

    def told_of_a_boot(self) -> str:
        """What the owner of such a server can read of it."""
        self.start_nova(self._real, api_retry_interval=1)
        (node,) = self.make_nodes(1, traits=["CUSTOM_GPU"])
        self.start_compute("compute1")
        self.flavor_id = self.make_flavor(trait__CUSTOM_GPU="required")
        self.ironic("DELETE", f"/nodes/{node}/traits/CUSTOM_GPU")
        server = self.wait_for(self.boot(), "ERROR")
        self.wait_for_node(node, "available")
        return server["fault"]["message"] + self.told_by_the_events(server)


REASON = "Cannot specify instance traits that are not also set on the node"


class TestRefusedInTree(Refused, driver=figures.IN_TREE):
    """Nova's own driver."""

    def test_why_is_lost(self) -> None:
        assert REASON not in self.told_of_a_boot()


class TestRefused(Refused, driver=figures.OURS):
    """Ours."""

    def test_why_is_told(self) -> None:
        assert REASON in self.told_of_a_boot()
