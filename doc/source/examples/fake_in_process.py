# SPDX-License-Identifier: Apache-2.0

"""A fake Ironic in the test's own process: no socket, and time at our command."""

import requests

from ironic_virt.testing.fake_ironic import Durations, FakeIronic

fake = FakeIronic(durations=Durations(deploy=60))
node = fake.add_node(resource_class="gold", traits=["CUSTOM_GPU"], shard="a")

with fake.mock("http://ironic.test"):
    url = f"http://ironic.test/v1/nodes/{node}/states/provision"
    headers = {"X-OpenStack-Ironic-API-Version": "1.82"}
    image = {"image_source": "http://image.test/debian.raw", "image_checksum": "0" * 32}
    fake.set_node(node, instance_info=image)
    answer = requests.put(url, json={"target": "active"}, headers=headers)
    assert answer.status_code == 202
    assert fake.node(node)["provision_state"] == "deploying"

    fake.advance(60)
    assert fake.node(node)["provision_state"] == "active"

# Every request is on record.
assert [entry.method for entry in fake.requests.mutating()] == ["PUT"]
