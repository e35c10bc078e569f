# SPDX-License-Identifier: Apache-2.0

"""Taking off the protection of the nodes of services that go back to another driver."""

from collections.abc import Iterator
from typing import Any
from unittest import mock

import pytest

from ironic_virt import exceptions
from ironic_virt.baremetal.client import IronicClient
from ironic_virt.baremetal.http.retry import RetryPolicy
from ironic_virt.driver import resources
from ironic_virt.driver.claim import KEY_PREFIX
from ironic_virt.fleet.deployment import Deployment, Record
from ironic_virt.fleet.plans.apply import Effect
from ironic_virt.fleet.unprotection import unprotect_nodes
from ironic_virt.testing.fake_ironic import FakeIronic
from tests.in_process import InProcessChannel
from tests.unit.fleet.deployments import NOW, server_uuid

HOST = "compute-a"


@pytest.fixture
def fake() -> FakeIronic:
    return FakeIronic()


@pytest.fixture
def client(fake: FakeIronic) -> IronicClient:
    return IronicClient(InProcessChannel(fake, "http://ironic.test"), RetryPolicy(0))


def protected(fake: FakeIronic, number: int, **fields: Any) -> str:
    """A node with a server, protected by the driver."""
    server = server_uuid(number)
    given = {
        "provision_state": "active",
        "instance_uuid": server,
        "instance_info": {KEY_PREFIX + server: "3"},
        "protected": True,
        "protected_reason": resources.protection_of(server),
        **fields,
    }
    node = fake.add_node()
    fake.set_node(node, **given)
    return node


def deployed(client: IronicClient, *nodes: str) -> Deployment:
    """What was read of nodes a moment ago."""
    read = {node: client.get_node(node) for node in nodes}
    records = [Record("cell1", 1, node, HOST, node) for node in nodes]
    return Deployment(NOW, nodes=read, records=records)


def outcomes(reports: Iterator[Any]) -> dict[str, Effect]:
    return {one.change.uuid: one.outcome for one in reports}


def test_only_what_this_package_protects_is_taken_off(fake, client) -> None:
    ours, theirs = protected(fake, 1), protected(fake, 2, protected_reason="the payroll")
    free = protected(fake, 3, protected=False, protected_reason=None)
    deployment = deployed(client, ours, theirs, free)
    fake.requests.clear()
    dry = unprotect_nodes(deployment, [HOST], client, None)
    assert outcomes(dry) == {ours: Effect.WOULD, theirs: Effect.REFUSED}
    assert {entry.method for entry in fake.requests} == {"GET"}
    assert outcomes(unprotect_nodes(deployment, ["compute-b"], client, lambda: None)) == {}
    fake.requests.clear()
    done = unprotect_nodes(deployment, [HOST], client, lambda: None)
    assert outcomes(done) == {ours: Effect.DONE, theirs: Effect.REFUSED}
    (patch,) = fake.requests.mutating()
    assert patch.path.endswith(ours)
    assert (fake.node(ours)["protected"], fake.node(theirs)["protected"]) == (False, True)
    again = unprotect_nodes(deployment, [HOST], client, lambda: None)
    assert outcomes(again)[ours] is Effect.ALREADY
    silent = mock.Mock(**{"get_node.side_effect": exceptions.IronicUnreachable("gone")})
    with pytest.raises(exceptions.IronicUnreachable):
        list(unprotect_nodes(deployment, [HOST], silent, lambda: None))


def test_a_node_that_is_now_another_servers_stays_protected(fake, client) -> None:
    node = protected(fake, 1)
    handle = fake.handle

    def given_away(method: str, *more: Any) -> Any:
        if method == "PATCH":
            fake.set_node(node, instance_uuid=server_uuid(9), instance_info={})
        return handle(method, *more)

    deployment = deployed(client, node)
    fake.handle = given_away  # type: ignore[method-assign]
    (report,) = unprotect_nodes(deployment, [HOST], client, lambda: None)
    assert report.outcome is Effect.FAILED
    assert report.reason
    assert fake.node(node)["protected"]
