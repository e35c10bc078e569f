# SPDX-License-Identifier: Apache-2.0

"""A change that Ironic carries out, though its client hears nothing of it."""

import requests

from ironic_virt.testing.fake_ironic import FakeIronicServer
from ironic_virt.testing.fault_proxy import FaultProxy, ResetAfter, Status

with FakeIronicServer() as ironic, FaultProxy(ironic.url) as proxy:
    node = ironic.fake.add_node()
    url = f"{proxy.url}/v1/nodes/{node}"
    patch = [{"op": "add", "path": "/extra/rack", "value": "12"}]

    lost = proxy.add(ResetAfter(), "PATCH", "/v1/nodes/", times=1)
    try:
        requests.patch(url, json=patch)
    except requests.ConnectionError:
        pass
    assert lost.hits == 1
    assert ironic.fake.node(node)["extra"] == {"rack": "12"}

    # About three requests of ten are refused; with this seed always the same.
    busy = Status(429, headers={"Retry-After": "2"})
    proxy.add(busy, "GET", rate=0.3, seed=7)
    answers = [requests.get(url).status_code for _ in range(10)]
    assert 429 in answers
    assert 200 in answers
    assert [entry.status for entry in proxy.requests.matching("GET")] == answers
