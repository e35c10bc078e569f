# SPDX-License-Identifier: Apache-2.0

"""A client of the real Ironic with something between the two that gets in the way."""

import dataclasses
from pathlib import Path

import pytest

from ironic_virt import conf, exceptions
from ironic_virt.baremetal.client import IronicClient
from ironic_virt.baremetal.node_filter import NodeFilter
from ironic_virt.testing.fault_proxy import FaultProxy, MaxVersion, Redirect
from ironic_virt.testing.fault_proxy.exchange import Reply, Request
from ironic_virt.testing.fault_proxy.faults import Fault, PassOn
from tests.integration.services import new_nodes, write_conf
from tools import real_ironic

OURS = NodeFilter(shard="between-ours", conductor_group="")


@pytest.fixture(scope="module")
def ours(ironic: real_ironic.RealIronic) -> list[str]:
    """Nodes of our shard; there are others."""
    new_nodes(ironic, 1, shard="between-theirs")
    return new_nodes(ironic, 2, shard=OURS.shard)


@pytest.fixture
def client(ironic: real_ironic.RealIronic, proxy: FaultProxy, tmp_path: Path) -> IronicClient:
    path = write_conf(tmp_path, ironic, endpoint_override=proxy.url, api_retry_interval=0)
    return IronicClient.from_conf(conf.load([str(path)]))


def uuids(client: IronicClient) -> list[str]:
    return sorted(node.uuid for node in client.list_nodes(OURS))


def test_an_older_api_server_costs_one_request_more(client, proxy, ours) -> None:
    """Each third request comes to one that is not upgraded yet."""
    proxy.add(MaxVersion("1.90"), every=3)
    assert uuids(client) == sorted(ours)
    assert {client.get_node(ours[0]).shard for _ in range(9)} == {OURS.shard}
    assert [e.status for e in proxy.requests if e.status != 200] == [406]
    assert len(proxy.requests) == 1 + 1 + 1 + 9 + 1, "a discovery, the versions, a list, nodes"


def test_a_change_that_an_older_api_server_refuses_is_made_once(client, proxy, ours) -> None:
    client.get_node(ours[0])
    proxy.add(MaxVersion("1.90"))
    patch = [{"op": "add", "path": "/extra/between", "value": "yes"}]
    node = client.patch_node(ours[0], patch)
    assert node.extra is not None
    assert node.extra["between"] == "yes"
    assert [e.status for e in proxy.requests if e.method == "PATCH"] == [406, 200]


@pytest.mark.parametrize("keep_query", [True, False])
def test_a_redirect_gets_neither_a_change_nor_a_list_further(
    client, proxy, ironic, ours, keep_query
) -> None:
    _ = client.versions
    with FaultProxy(ironic.url) as other:
        proxy.add(Redirect(other.url, keep_query=keep_query))
        for ask in (
            lambda: client.list_nodes(OURS),
            lambda: client.get_node(ours[0]),
            lambda: client.patch_node(ours[0], [{"op": "remove", "path": "/shard"}]),
        ):
            with pytest.raises(exceptions.UnexpectedAnswer, match=f"{proxy.url}.*{other.url}"):
                ask()
        assert list(other.requests) == []


@dataclasses.dataclass(frozen=True)
class DropQuery(Fault):
    """Pass requests on without their query."""

    kind = "drop-query"

    def act(self, request: Request, pass_on: PassOn) -> Reply:
        return pass_on(dataclasses.replace(request, path=request.path.partition("?")[0]))


def test_a_list_without_its_filter_is_refused(client, proxy, ours) -> None:
    assert uuids(client) == sorted(ours)
    proxy.add(DropQuery())
    for ask in (client.list_nodes, client.lists.sweep, client.lists.listed):
        with pytest.raises(exceptions.UnexpectedAnswer, match="drop the query"):
            list(ask(OURS))
