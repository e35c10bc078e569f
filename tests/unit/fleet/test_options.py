# SPDX-License-Identifier: Apache-2.0

"""What the files of compute services say of their nodes."""

from __future__ import annotations

from pathlib import Path

import pytest

from ironic_virt import exceptions
from ironic_virt.fleet import options
from ironic_virt.fleet.options import ServiceOptions
from tests.unit.fleet.deployments import node

IN_TREE = "ironic.IronicDriver"
OURS = "ironic_virt.IronicDriver"


def service(host: str, driver: str = OURS, **written: str) -> ServiceOptions:
    return ServiceOptions(host, written=written, driver=driver)


def test_the_last_file_counts(tmp_path: Path) -> None:
    first, second = tmp_path / "nova.conf", tmp_path / "compute.conf"
    first.write_text("[DEFAULT]\ncompute_driver = x\n[ironic]\nshard = a\nconductor_group = g\n")
    second.write_text("[ironic]\nshard = b\npeer_list = x,y\nauth-type = none\n")
    found = options.read("one", [str(first), str(second)])
    assert (found.shard, found.conductor_group, found.peers) == ("b", "g", ())
    assert (found.driver, found.written["auth_type"]) == ("x", "none")
    assert found.unknown_names(set()) == []


@pytest.mark.parametrize("text", [None, "shard = a\nwhat is this\n"])
def test_a_file_that_can_not_be_read(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "nova.conf"
    if text is not None:
        path.write_text(text)
    with pytest.raises(exceptions.InvalidConfiguration, match=r"nova\.conf"):
        options.read("one", [str(path)])


@pytest.mark.parametrize(
    ("written", "serves"),
    [
        ({}, True),
        ({"shard": "A"}, True),
        ({"shard_key": "b"}, False),
        ({"conductor_group": ""}, False),
        ({"partition_key": "RACK"}, True),
        ({"shard": "a", "conductor_group": "other"}, False),
    ],
)
def test_which_nodes_a_service_is_for(written: dict[str, str], serves: bool) -> None:
    assert service("one", **written).serves(node(1, shard="a", conductor_group="rack")) is serves


@pytest.mark.parametrize(
    ("one", "other", "share"),
    [
        pytest.param(service("a"), service("b"), False, id="ours-without-peers"),
        pytest.param(service("a", IN_TREE), service("b", IN_TREE), True, id="in-tree"),
        pytest.param(
            service("a", IN_TREE, shard="x"), service("b", IN_TREE, shard="x"), False, id="shard"
        ),
        pytest.param(
            service("a", peer_list="a,B"), service("b", peer_list="A, b"), True, id="peers"
        ),
        pytest.param(service("a", peer_list="a,b"), service("b"), False, id="one-knows-the-other"),
        pytest.param(
            service("a", node_selection="ironic"),
            service("b", node_selection="ironic"),
            True,
            id="ironic-picks",
        ),
    ],
)
def test_which_services_share_their_nodes(
    one: ServiceOptions, other: ServiceOptions, share: bool
) -> None:
    assert one.shares_with(other) is share
    assert other.shares_with(one) is share


def test_options_of_nova_and_of_the_way_to_authenticate_are_known() -> None:
    written = {"auth_type": "password", "username": "nova", "novas": "1", "shardd": "a"}
    assert service("one", **written).unknown_names({"novas"}) == ["shardd"]


@pytest.mark.parametrize(
    ("written", "standby"),
    [
        ({}, None),
        ({"standby_backend_url": "etcd3+http://e", "standby_ttl": "30"}, ("etcd3+http://e", 30)),
        ({"standby_backend_url": "redis://r"}, ("redis://r", 15)),
        ({"standby_backend_url": "file:///locks"}, None),
    ],
)
def test_whose_lease_can_be_looked_at(
    written: dict[str, str], standby: tuple[str, int] | None
) -> None:
    assert ServiceOptions("compute-a", written=written).standby == standby
