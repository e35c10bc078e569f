# SPDX-License-Identifier: Apache-2.0

"""Server groups over two cells, in the real Nova.

Nova's test support has one database for all code that names no cell, and our code names none: in
production, a nova-compute has its cell's database.  So here each thread's context gets a cell:
that of the request to nova-compute, or of the nova-compute that starts.
"""

import contextlib
from collections.abc import Iterator
from typing import Any, ClassVar

from nova import context
from oslo_context import context as oslo_context

from tests.nova.test_server_groups import Racks


class TwoCells(Racks):
    """A compute service in each cell; racks ``r1`` to ``r3`` have a node of each."""

    NUMBER_OF_CELLS = 2
    sizes: ClassVar[tuple[int, ...]] = ()

    def start(self) -> None:
        make = context.get_admin_context

        def of_the_thread(*args: Any, **kwargs: Any) -> Any:
            made, current = make(*args, **kwargs), oslo_context.get_current()
            made.db_connection = getattr(current, "db_connection", None)
            return made

        self.stub_out("nova.context.get_admin_context", of_the_thread)
        self.computes: dict[str, Any] = {}
        for cell, shard in (("cell1", "a"), ("cell2", "b")):
            for rack in ("r1", "r2", "r3"):
                self.make_rack(rack, 1, shard=shard)
            with self.inside(cell):
                self.computes[cell] = self.start_compute(
                    f"of-{cell}", shard=shard, failure_domain="capabilities/rack", **self.own
                )

    def start_service(self, name: str, host: str | None = None, **kwargs: Any) -> Any:
        if name == "compute":
            kwargs["cell_name"] = (host or "").removeprefix("of-")
        return super().start_service(name, host, **kwargs)

    @contextlib.contextmanager
    def inside(self, cell: str) -> Iterator[None]:
        """Have what this thread does be of a cell."""
        with context.target_cell(context.RequestContext(), self.cell_mappings[cell]) as targeted:
            targeted.update_store()
            yield
        context.RequestContext().update_store()

    def refresh_both(self) -> None:
        for cell, compute in self.computes.items():
            with self.inside(cell):
                self.refresh(compute)

    def used_hosts(self) -> set[str]:
        return {server["OS-EXT-SRV-ATTR:host"] for server in self.settle()} - {None}

    def take_away(self, shard: str, rack: str) -> None:
        """Have a node not be free."""
        nodes = {self.node(node)["shard"]: node for node in self.racks if self.racks[node] == rack}
        self.ironic("PUT", f"/nodes/{nodes[shard]}/maintenance", {"reason": "away"})

    def test_members_in_both_cells_count(self) -> None:
        self.take_away("a", "r3")
        self.take_away("b", "r1")
        self.refresh_both()
        group = self.make_group("anti-affinity")
        for number in range(3):
            self.wait_for(self.ask(name=f"s{number}", group=group), "ACTIVE")
        assert self.used_racks() == {"r1": 1, "r2": 1, "r3": 1}
        assert self.used_hosts() == {"of-cell1", "of-cell2"}
        self.refresh_both()
        reason = self.refused(self.ask(group=group))
        assert "r2 1/1" in reason, reason
        self.check_allocated(3)

    def test_members_in_both_cells_are_packed(self) -> None:
        self.ask(2, group=self.make_group("affinity"))
        assert self.statuses() == {"ACTIVE": 2}
        assert list(self.used_racks().values()) == [2]
        assert self.used_hosts() == {"of-cell1", "of-cell2"}
        self.ask(3, name="more", group=self.make_group("affinity"))
        assert self.statuses() == {"ACTIVE": 2, "ERROR": 3}
        self.check_allocated(2)


class TestTwoCells(TwoCells):
    """Nova's scheduler picks the node."""

    __test__ = True


class TestTwoCellsInPools(TwoCells):
    """The driver picks the failure domain."""

    __test__ = True
    own: ClassVar[dict[str, Any]] = {"node_selection": "ironic"}
