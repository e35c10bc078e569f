# SPDX-License-Identifier: Apache-2.0

"""Several instances, several services, one Ironic."""

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from ironic_virt import exceptions, virt
from ironic_virt.testing.fake_ironic import FakeIronicServer
from tests.functional.compute.processes import wait_for
from tests.functional.driver.conftest import Service

Start = Callable[..., Service]
AT_ONCE = 20


def test_many_instances_at_once_come_and_go(server, start_service) -> None:
    service = start_service()
    nodes = server.fake.add_nodes(AT_ONCE, ports=1)
    before = [strip(node) for node in server.fake.nodes()]
    instances = [service.instance_on(node) for node in nodes]
    with ThreadPoolExecutor(AT_ONCE) as threads:
        list(threads.map(service.spawn, instances))
        assert {node["provision_state"] for node in server.fake.nodes()} == {"active"}
        assert sorted(service.driver.list_instance_uuids()) == sorted(
            instance.uuid for instance in instances
        )
        list(threads.map(service.destroy, instances))
    wait_until_available(server)
    assert [strip(node) for node in server.fake.nodes()] == before


def test_two_services_that_want_the_same_nodes_never_share_one(server, start_service) -> None:
    services = [start_service("compute1"), start_service("compute2")]
    nodes = server.fake.add_nodes(10, ports=1)
    wanted = [service.instance_on(node) for node in nodes for service in services]

    def spawn(instance: virt.Instance) -> str:
        service = services[0] if instance.host == "compute1" else services[1]
        try:
            service.spawn(instance)
        except exceptions.NodeNotAvailable:
            return "refused"
        return "spawned"

    with ThreadPoolExecutor(len(wanted)) as threads:
        outcomes = dict(zip(wanted, threads.map(spawn, wanted), strict=True))
    assert Counter(outcomes.values()) == {"spawned": 10, "refused": 10}
    spawned = {
        instance.node: instance.uuid for instance, how in outcomes.items() if how == "spawned"
    }
    assert {node["uuid"]: node["instance_uuid"] for node in server.fake.nodes()} == spawned
    assert {node["provision_state"] for node in server.fake.nodes()} == {"active"}


def strip(node: dict[str, object]) -> dict[str, object]:
    """What must be as it was: all but what tells of the past."""
    past = ("updated_at", "provision_updated_at", "power_state", "version")
    return {key: value for key, value in node.items() if key not in past}


def wait_until_available(server: FakeIronicServer) -> None:
    """Until cleaning is over: the fake says when, nobody sleeps for luck."""
    wait_for(
        "all to be available",
        lambda: {node["provision_state"] for node in server.fake.nodes()} == {"available"},
    )
