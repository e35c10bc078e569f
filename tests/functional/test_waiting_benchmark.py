# SPDX-License-Identifier: Apache-2.0

"""Our side of the benchmark of waiting, on a fake Ironic over HTTP."""

from __future__ import annotations

import time
import uuid

from benchmarks.waiting_sides import Ours
from ironic_virt.testing.fake_ironic import FakeIronic, FakeIronicServer


def test_our_side_takes_up_what_is_being_deployed_and_tells_when_it_is_active() -> None:
    with FakeIronicServer(FakeIronic()) as server:
        fake = server.fake
        deployments = [(str(uuid.uuid4()), node) for node in fake.add_nodes(3, shard="ours-3")]
        for instance, node in deployments:
            fake.set_node(
                node,
                instance_uuid=instance,
                provision_state="deploying",
                target_provision_state="active",
            )
        side = Ours(server.url, "ours-3")
        side.begin(deployments)
        began = time.monotonic()
        for _, node in deployments:
            fake.set_node(node, provision_state="active")
        returned = side.returned()
        side.driver.cleanup_host("compute-1")
        assert set(returned) == {instance for instance, _ in deployments}
        assert min(returned.values()) > began
        assert not fake.requests.mutating()
