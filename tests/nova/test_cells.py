# SPDX-License-Identifier: Apache-2.0

"""Threads that have targeted a cell don't wait for those that target another one."""

from __future__ import annotations

import threading

from nova import context, objects

from tests.nova.deployment import Deployment

_PATIENCE = 300.0


class TestCells(Deployment, given=None):
    """All of Nova is in this process, and its threads use two cells at a time."""

    def test_a_cell_can_be_targeted_while_another_one_is(self) -> None:
        found: list[objects.InstanceList] = []

        def look(cell: str) -> None:
            with context.target_cell(context.get_admin_context(), self.cell_mappings[cell]) as one:
                found.append(objects.InstanceList.get_all(one))

        def report() -> None:
            # In one transaction, two questions that target no cell: as a service does.
            record.save()

        record = objects.Service.get_by_host_and_binary(
            context.get_admin_context(), self.scheduler_service.host, "nova-scheduler"
        )
        record.report_count += 1
        admin = context.get_admin_context()
        with context.target_cell(admin, self.cell_mappings["cell1"]):
            threads = [
                threading.Thread(target=look, args=("cell0",), daemon=True),
                threading.Thread(target=report, daemon=True),
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(_PATIENCE)
            assert not any(thread.is_alive() for thread in threads)
        assert len(found) == 1

    def test_what_targets_no_cell_is_in_the_one_with_the_services(self) -> None:
        admin = context.get_admin_context()
        with context.target_cell(admin, self.cell_mappings["cell0"]) as targeted:
            assert not objects.ServiceList.get_all(targeted)
            assert objects.ServiceList.get_all(context.get_admin_context())
