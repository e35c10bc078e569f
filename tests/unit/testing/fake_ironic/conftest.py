# SPDX-License-Identifier: Apache-2.0

"""A fake Ironic and a session that reaches it without sockets."""

from collections.abc import Iterator
from typing import Any

import pytest
import requests

from ironic_virt.testing.fake_ironic import Durations, FakeIronic

URL = "http://ironic.test"


class Client:
    """Sends requests with an API version, and tells status and body."""

    def __init__(self, fake: FakeIronic, version: str = "latest") -> None:
        self.session = requests.Session()
        self.session.mount(URL, fake.adapter())
        self.version = version

    def send(
        self, method: str, path: str, body: Any = None, version: str | None = None
    ) -> requests.Response:
        headers = {"X-OpenStack-Ironic-API-Version": version or self.version}
        return self.session.request(method, f"{URL}/v1{path}", json=body, headers=headers)

    def get(self, path: str, version: str | None = None) -> Any:
        response = self.send("GET", path, version=version)
        assert response.status_code == 200, response.text
        return response.json()

    def refused(self, method: str, path: str, body: Any = None, version: str | None = None) -> Any:
        """Status and message of an answer that must be an error."""
        response = self.send(method, path, body, version)
        fault = requests.models.complexjson.loads(response.json()["error_message"])
        return response.status_code, fault.get("faultstring", fault.get("description"))

    def provision(self, node: str, target: str, **arguments: Any) -> None:
        response = self.send(
            "PUT", f"/nodes/{node}/states/provision", {"target": target, **arguments}
        )
        assert response.status_code == 202, response.text

    def power(self, node: str, target: str, **arguments: Any) -> None:
        response = self.send("PUT", f"/nodes/{node}/states/power", {"target": target, **arguments})
        assert response.status_code == 202, response.text


@pytest.fixture
def fake() -> FakeIronic:
    """A fake Ironic on which everything takes ten seconds."""
    spans = ("deploy", "undeploy", "clean", "inspect", "verify", "rescue", "unrescue", "adopt")
    durations = Durations(service=10.0, power=10.0, **dict.fromkeys(spans, 10.0))
    return FakeIronic(durations=durations)


@pytest.fixture
def api(fake: FakeIronic) -> Iterator[Client]:
    client = Client(fake)
    yield client
    client.session.close()
