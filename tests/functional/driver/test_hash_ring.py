# SPDX-License-Identifier: Apache-2.0

"""Services that share the nodes of one Ironic, or of a conductor group, by a ``peer_list``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

import pytest

from ironic_virt.testing.fake_ironic import Conductor, Durations, FakeIronic, FakeIronicServer
from tests.clock import StoppableClock
from tests.functional.driver.conftest import Records, Service

Start = Callable[..., Service]
NODES = 30
PEERS = {"west": ["compute1", "compute2", "compute3"], "east": ["compute4", "compute5"]}


@pytest.fixture
def server(ironic_clock: StoppableClock) -> Iterator[FakeIronicServer]:
    """A fake Ironic over HTTP, with a conductor for each group."""
    fake = FakeIronic(
        clock=ironic_clock,
        durations=Durations(deploy=0.2, undeploy=0.1, clean=0.1),
        conductors=tuple(Conductor(f"conductor-{group}", group) for group in ("", *PEERS)),
    )
    with FakeIronicServer(fake) as running:
        yield running


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


def test_groups_share_nothing_and_a_node_whose_group_changes_follows_it_without_its_instance(
    server: FakeIronicServer, start_service: Start, records: Records
) -> None:
    nodes = {
        group: server.fake.add_nodes(NODES, ports=1, conductor_group=group) for group in PEERS
    }
    records.live = {host for hosts in PEERS.values() for host in hosts}
    services = [
        start_service(host, conductor_group=group, peer_list=",".join(hosts))
        for group, hosts in PEERS.items()
        for host in hosts
    ]
    split = offers(services, records)
    for group, hosts in PEERS.items():
        assert {split[node] for node in nodes[group]} == set(hosts)

    # Under running services some nodes change their group, one of them with an instance.
    leaving = nodes["west"][:10]
    taken = leaving[0]
    owner = next(service for service in services if service.host == split[taken])
    instance = owner.instance_on(taken)
    owner.spawn(instance)
    for node in leaving:
        server.fake.set_node(node, conductor_group="east")
    moved = offers(services, records)
    assert set(moved) == {*nodes["west"], *nodes["east"]}, "none is lost, none offered twice"
    assert moved[taken] == owner.host, "it stays with the service that has the instance"
    assert {moved[node] for node in leaving[1:]} <= set(PEERS["east"])
    assert all(moved[node] == split[node] for node in nodes["east"])
    assert all(moved[node] == split[node] for node in nodes["west"][10:])

    # Its owner still acts on it; without the instance it follows its group.
    owner.destroy(instance)
    assert offers(services, records)[taken] in PEERS["east"]
    assert server.fake.node(taken)["instance_uuid"] is None
