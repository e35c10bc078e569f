# SPDX-License-Identifier: Apache-2.0

"""``nova-manage db ironic_compute_node_move``: from a dead compute service to another one."""

import pytest

from ironic_virt.testing.fault_proxy import FaultProxy
from tests.nova import figures
from tests.nova.services import Services

MOVE = "nova-manage db ironic_compute_node_move --ironic-node-uuid {} --destination-host {}"


class Moving(Services, starts=True):
    """Two compute services with a shard each; the node of the first has a server."""

    def setUp(self) -> None:
        super().setUp()
        (self.node_in_a,) = self.make_nodes(1, shard="a")
        self.make_nodes(1, shard="b")
        self.a = self.start_compute("compute-a", shard="a")
        self.b = self.start_compute("compute-b", shard="b")
        self.moved = self.boot_at("compute-a", self.node_in_a)

    def change_shard(self) -> None:
        """What an operator does in Ironic."""
        self.set_on_node(self.node_in_a, shard="b")

    def test_the_other_service_goes_on_with_the_server(self) -> None:
        before = self.record_ids()
        self.a.stop()
        self.force_down("compute-a")
        self.change_shard()
        self.move(self.node_in_a, "compute-b")
        self.refresh(self.b)
        assert self.record_ids() == before
        assert self.hosts()[self.node_in_a] == "compute-b"
        assert self.node_in_a in self.b.manager.driver.get_available_nodes()
        assert self.host_of(self.moved) == "compute-b"
        self.reboot(self.moved)
        self.delete(self.moved)
        there = self.wait_for_node(self.node_in_a, "available")
        assert there["instance_uuid"] is None
        self.refresh(self.b)
        assert self.record_ids() == before


class TestMovingInTree(Moving, driver=figures.IN_TREE):
    """Nova's own driver."""


class TestMoving(Moving, driver=figures.OURS):
    """Ours, and what only ours does."""

    def test_before_it_is_moved_nobody_acts_and_the_command_is_named(self) -> None:
        self.change_shard()
        was = self.node(self.node_in_a)
        sent = len(self.counted.log)
        self.api.post_server_action(self.moved["id"], {"reboot": {"type": "HARD"}})
        self.until(
            lambda: self.told_by_the_events(self.moved),
            # Nova cuts what it shows at 255 characters; the log has all of it.
            lambda told: MOVE.partition(" --")[0] in told,
        )
        assert MOVE.format(self.node_in_a, "<its host>") in self.stdlog.logger.output
        self.refresh(self.b)
        assert self.node_in_a not in self.b.manager.driver.get_available_nodes()
        changes = [line for line in self.counted.log[sent:] if line.startswith(CHANGES)]
        assert changes == []
        assert self.node(self.node_in_a) == was
        assert MOVE.format(self.node_in_a, "compute-b") in self.stdlog.logger.output

    def test_a_moved_record_stays_moved_during_an_outage(self) -> None:
        self.move_while_ironic_is_silent()

    @pytest.mark.seldom
    def test_it_stays_so_where_nova_asked_for_the_records(self) -> None:
        self.stub_out("ironic_virt.nova.virtapi._FEW", 0)
        self.move_while_ironic_is_silent()
        assert "was moved to another host" in self.stdlog.logger.output

    def move_while_ironic_is_silent(self) -> None:
        """Move a node between two running services while one can't list its nodes."""
        with FaultProxy(self._real.url) as proxy:
            (node,) = self.make_nodes(1, shard="c")
            c = self.start_compute(
                "compute-c", shard="c", endpoint_override=proxy.url, api_max_retries=0
            )
            assert self.hosts()[node] == "compute-c"
            self.set_on_node(node, shard="b")
            # What Nova's command asks for.  The service lives on.
            self.force_down("compute-c")
            self.move(node, "compute-b")
            self.refresh(self.b)
            with proxy.away():
                self.refresh(c)
                assert self.hosts()[node] == "compute-b"
            self.refresh(c, self.b)
            assert self.hosts()[node] == "compute-b"


CHANGES = tuple(f"ironic {method}" for method in ("POST", "PUT", "PATCH", "DELETE"))
