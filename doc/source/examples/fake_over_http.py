# SPDX-License-Identifier: Apache-2.0

"""A fake Ironic on a port of its own, and a fault that its client has to survive."""

import requests

from ironic_virt.testing.fake_ironic import Durations, FakeIronicServer

with FakeIronicServer(durations=Durations(deploy=(5, 30))) as server:
    server.fake.add_nodes(100)
    nodes = requests.get(f"{server.url}/v1/nodes").json()["nodes"]
    assert len(nodes) == 100

    # The next change of a node is made, but its reply is lost.
    server.fake.faults.lose_reply("PATCH", "/v1/nodes/", count=1)
    patch = [{"op": "add", "path": "/extra/rack", "value": "12"}]
    try:
        requests.patch(f"{server.url}/v1/nodes/{nodes[0]['uuid']}", json=patch)
    except requests.ConnectionError:
        pass
    assert server.fake.node(nodes[0]["uuid"])["extra"] == {"rack": "12"}
