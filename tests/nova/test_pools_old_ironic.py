# SPDX-License-Identifier: Apache-2.0

"""``node_selection = ironic`` at an Ironic that has no allocations, in the real Nova."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from nova import context

import real_ironic
from tests.nova.deployment import Deployment


@pytest.fixture(scope="module")
def ironic_151(progress) -> Iterator[real_ironic.RealIronic]:
    """A real Ironic that speaks no newer version than 1.51."""
    options = real_ironic.Options(max_api_version="1.51")
    with real_ironic.RealIronic(options, progress=progress) as ironic:
        yield ironic


@pytest.mark.seldom
class TestNoAllocations(Deployment):
    """The configuration of a site that waits for its Ironic to be upgraded."""

    given = "ironic_151"

    def setUp(self) -> None:
        super().setUp()
        self.start_nova(
            self._real, api_retry_interval=1, node_selection="ironic", capacity="total"
        )

    def test_the_scheduler_picks_as_before_and_one_warning_says_so(self) -> None:
        nodes = self.make_nodes(2)
        compute = self.start_service("compute", "compute1")
        compute.manager.update_available_resource(context.get_admin_context())
        assert {one["name"] for one in self._get_all_providers()} == set(nodes)
        server = self.wait_for(self.boot(), "ACTIVE")
        node = self.node_of(server)
        assert self.node(node)["instance_uuid"] == server["id"]
        self.act(server, reboot={"type": "HARD"})
        self.wait_for(server, "ACTIVE")
        self.delete(server)
        assert self.wait_for_node(node, "available")["instance_uuid"] is None
        lines = self.stdlog.logger.output.splitlines()
        told = [line for line in lines if "ironic_virt" in line and "WARNING" in line]
        # Others may be of an Ironic that is slow to answer.
        why = "Ironic speaks API version 1.51 and has allocations only from 1.52 on"
        assert len([line for line in told if why in line]) == 1, told
