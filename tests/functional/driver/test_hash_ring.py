# SPDX-License-Identifier: Apache-2.0

"""Three services that share the nodes of one Ironic by a ``peer_list``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

import pytest

from ironic_virt.testing.fake_ironic import FakeIronicServer
from tests.functional.driver.conftest import Records, Service

Start = Callable[..., Service]
HOSTS = ["compute1", "compute2", "compute3"]
NODES = 30


def offers(services: Iterable[Service], records: Records) -> dict[str, str]:
    """Refresh each service and keep its records, as a resource tracker does.

    :returns: node to the host that offers it.
    """
    offered = []
    for service in services:
        nodes = service.driver.get_available_nodes(refresh=True)
        offered += [(node, service.host) for node in nodes]
        for node in nodes:
            records.nodes[node] = service.host
        mine = {node for node, host in records.nodes.items() if host == service.host}
        for node in mine - set(nodes):
            assert not service.driver.is_node_deleted(node), "its record would be deleted"
    assert set(Counter(node for node, _ in offered).values()) == {1}, "a node is offered twice"
    return dict(offered)


@pytest.fixture
def start(start_service: Start, records: Records) -> Callable[[str], Service]:
    """Start one of the peers; from then on it is up."""

    def begin(host: str) -> Service:
        records.live.add(host)
        return start_service(host, peer_list=",".join(HOSTS))

    return begin


def test_nodes_are_split_move_when_a_service_dies_and_come_back(
    server: FakeIronicServer, start: Callable[[str], Service], records: Records
) -> None:
    nodes = set(server.fake.add_nodes(NODES, ports=1))
    services = [start(host) for host in HOSTS]
    split = offers(services, records)
    assert set(split) == nodes
    assert set(split.values()) == set(HOSTS)

    dying, survivors = services[2], services[:2]
    taken = next(node for node, host in split.items() if host == dying.host)
    instance = dying.instance_on(taken)
    dying.spawn(instance)
    dying.driver.cleanup_host()
    records.live.remove(dying.host)
    for _ in range(2):
        moved = offers(survivors, records)
        assert set(moved) == nodes - {taken}, "its free nodes moved, the taken one stayed"
        assert all(moved[node] == host for node, host in split.items() if host != dying.host)
    assert records.nodes[taken] == dying.host
    assert server.fake.node(taken)["provision_state"] == "active"

    returned = start(dying.host)
    assert offers([*survivors, returned], records) == split
    assert returned.driver.list_instance_uuids() == [instance.uuid]
    returned.destroy(instance)
    assert offers([*survivors, returned], records) == split
    assert set(records.nodes) == nodes, "no record was ever deleted"


def test_the_last_one_standing_takes_nothing(
    server: FakeIronicServer, start: Callable[[str], Service], records: Records
) -> None:
    server.fake.add_nodes(NODES)
    services = [start(host) for host in HOSTS]
    split = offers(services, records)
    records.live = {"compute1"}
    alone = offers(services[:1], records)
    assert alone == {node: host for node, host in split.items() if host == "compute1"}
