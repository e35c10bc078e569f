# SPDX-License-Identifier: Apache-2.0

"""What Nova offers for virtual machines, asked of a server on bare metal."""

from __future__ import annotations

from tests.nova import figures
from tests.nova.deployment import Deployment


class NotForBareMetal(Deployment):
    """One compute service with one node."""

    __test__ = False
    starts = True

    def test_it_leaves_the_server_as_it_is(self) -> None:
        (node,) = self.make_nodes(1)
        self.start_service("compute", "compute1")
        server = self.wait_for(self.boot(), "ACTIVE")
        # Ironic lets go of the node a little later than Nova is done.
        before, sent = self.wait_for_node(node, "active"), len(self.counted.log)
        images = set(self.glance.images)
        for action in ("suspend", "pause", "createImage"):
            self.act(server, **{action: {"name": "copy"} if action == "createImage" else None})
            self.wait_for(server, "ACTIVE")
        # Nova sees to this when the server is at rest already; of an image it notes nothing.
        told = {"suspend": "Error", "pause": "Error"}
        self.until(
            lambda: self.api.get_instance_actions(server["id"]),
            lambda seen: told.items() <= {one["action"]: one["message"] for one in seen}.items(),
        )
        self.until(lambda: set(self.glance.images), lambda there: there == images)
        lines = [line for line in self.counted.log[sent:] if line.startswith("ironic ")]
        assert {line.split()[1] for line in lines} <= {"GET"}
        assert self.node(node) == before
        self.delete(server)


class TestNotForBareMetalInTree(NotForBareMetal):
    """Nova's own driver."""

    __test__ = True
    driver = figures.IN_TREE


class TestNotForBareMetal(NotForBareMetal):
    """Ours."""

    __test__ = True
    driver = figures.OURS
