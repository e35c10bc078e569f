# SPDX-License-Identifier: Apache-2.0

"""What a filter of server groups asks Nova's databases in a large group, and what it takes."""

import sys
import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa
from nova import context, objects
from nova.db.main import api as main_db
from nova.db.main import models
from sqlalchemy import event

from ironic_virt.nova import server_groups, sizes
from tests.nova.fleets import Fleet
from tests.nova.test_group_filters import NEW, host

NODES, RACKS, LIVE, DEAD = 1000, 50, 100, 900
OF_CELLS = ("FROM instances", "FROM instance_", "FROM compute_nodes")


@pytest.fixture
def statements() -> Iterator[list[str]]:
    """What is asked of any database."""
    found: list[str] = []

    def note(_: Any, __: Any, statement: str, *more: Any) -> None:
        found.append(" ".join(statement.split()))

    event.listen(sa.engine.Engine, "before_cursor_execute", note)
    yield found
    event.remove(sa.engine.Engine, "before_cursor_execute", note)


class TestCost(Fleet):
    """A group of a hundred members, and nine hundred that were deleted and not archived yet."""

    @pytest.fixture(autouse=True)
    def _listen(self, statements: list[str]) -> None:
        self.statements = statements

    def insert(self, table: Any, rows: list[dict[str, Any]]) -> None:
        admin = context.get_admin_context()
        with main_db.get_context_manager(admin).writer.using(admin) as session:
            session.execute(sa.insert(table), rows)

    def make_members(self) -> list[str]:
        """Members; each live one has noted its domain."""
        uuids = [str(uuid.UUID(int=number)) for number in range(1, LIVE + DEAD + 1)]
        rows = [
            {"uuid": one, "deleted": number if number > LIVE else 0, "vm_state": "active"}
            | {"host": "compute1", "node": one, "hidden": False}
            for number, one in enumerate(uuids, start=1)
        ]
        self.insert(models.Instance, rows)
        notes = [
            {"instance_uuid": one, "key": sizes.FAILURE_DOMAIN, "value": f"r{number % RACKS}"}
            for number, one in enumerate(uuids)
        ]
        self.insert(models.InstanceSystemMetadata, notes)
        return uuids

    def test_one_query_a_cell(self) -> None:
        members = self.make_members()
        group = objects.InstanceGroup(
            uuid=NEW,
            name="web",
            policy="anti-affinity",
            members=[*members, NEW],
            rules={"max_server_per_host": 3},
        )
        hosts = [host(f"n{number}", f"r{number % RACKS}") for number in range(NODES)]
        # The first request compiles its queries.
        for _ in range(2):
            spec = objects.RequestSpec(
                instance_uuid=NEW, instance_group=group, num_instances=1, scheduler_hints={}
            )
            self.statements.clear()
            # Of all threads, as a cell is read in its own.
            began = time.process_time()
            passing = server_groups.ServerGroupAntiAffinityFilter().filter_all(hosts, spec)
            read = time.process_time() - began
        in_cells = [text for text in self.statements if any(name in text for name in OF_CELLS)]
        assert len(in_cells) == 1, in_cells
        # Two members in each rack, and three may be there.
        assert len(passing) == NODES
        self.statements.clear()
        assert server_groups.ServerGroupAntiAffinityFilter().filter_all(hosts, spec) == passing
        assert not self.statements
        sys.stdout.write(f"{NODES} nodes, {LIVE + DEAD} members: {1000 * read:.1f} ms\n")
