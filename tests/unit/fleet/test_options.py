# SPDX-License-Identifier: Apache-2.0

"""What the files of compute services say of their nodes."""

from pathlib import Path

import pytest

from ironic_virt import exceptions
from ironic_virt.fleet import options
from ironic_virt.fleet.options import ServiceOptions
from tests.unit.fleet.deployments import node

IN_TREE = "ironic.IronicDriver"
OURS = "ironic_virt.IronicDriver"


def service(host: str, driver: str = OURS, **written: str) -> ServiceOptions:
    return ServiceOptions(host, written=written, defaults={"compute_driver": driver})


def test_the_last_file_counts(tmp_path: Path) -> None:
    first, second = tmp_path / "nova.conf", tmp_path / "compute.conf"
    interval = "update_resources_interval = 3600"
    first.write_text(
        f"[DEFAULT]\ncompute_driver = x\n{interval}\n[ironic]\nshard = a\nconductor_group = g\n"
    )
    second.write_text(
        "[ironic]\nshard = b\npeer_list = x,y\nauth-type = none\nnovas = 1\nshardd = a\n"
    )
    found = options.read("one", [str(first), str(second)])
    assert (found.shard, found.conductor_group, found.peers) == ("b", "g", ())
    assert (found.defaults["compute_driver"], found.written["auth_type"]) == ("x", "none")
    assert found.number("update_resources_interval", 0) == 3600
    assert found.unknown_names({"novas"}) == ["shardd"]


def test_values_may_name_others_and_files_may_be_directories(tmp_path: Path) -> None:
    file, directory = tmp_path / "nova.conf", tmp_path / "nova.conf.d"
    file.write_text(
        "[DEFAULT]\nhost = one\nmy_ip = 192.0.2.1\nreport_interval = 3\n"
        "[ironic]\nshard = rack-$my_ip\nconductor_group = $host\npassword = a$b\n"
    )
    directory.mkdir()
    (directory / "b.conf").write_text("[ironic]\nconductor_group = last\n")
    (directory / "a.conf").write_text("[ironic]\nconductor_group = first\n")
    found = options.read("one", [str(file)])
    assert (found.shard, found.conductor_group) == ("rack-192.0.2.1", "one")
    assert (found.written["password"], found.number("report_interval", 10)) == ("a$b", 3)
    assert found.number("max_concurrent_builds", 10) == 10
    assert options.read("one", [str(file), str(directory)]).conductor_group == "last"


def test_what_is_said_by_hand() -> None:
    one = options.parse_serves("one=rack:a:b")
    assert (one.host, one.shard, one.conductor_group) == ("one", "rack", "a:b")
    assert options.parse_serves("one=rack:").conductor_group == ""
    assert options.parse_serves("one=rack").conductor_group is None
    for text in ("one", "one=", "=rack", "one=:group"):
        with pytest.raises(ValueError, match="not <host>=<shard>"):
            options.parse_serves(text)


def test_a_file_that_can_not_be_read(tmp_path: Path) -> None:
    path = tmp_path / "nova.conf"
    for text, why in (
        (None, r"nova\.conf"),
        ("", r"nova\.conf.*sets neither compute_driver"),
        ("[ironic]\nshard = a\nhunt'er2\n", r"nova\.conf"),
        ("[DEFAULT]\nhost = two\n[ironic]\nshard = a\n", "host is two, not one"),
        ("[ironic]\nshard = rack-$my_ip\n", r"rack-\$my_ip.*--serves one="),
    ):
        if text is not None:
            path.write_text(text)
        with pytest.raises(exceptions.InvalidConfiguration, match=why) as error:
            options.read("one", [str(path)])
        assert "er2" not in str(error.value), "it may be a password"


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
        (service("a"), service("b"), False),
        (service("a", IN_TREE), service("b", IN_TREE), True),
        (service("a", IN_TREE, shard="x"), service("b", IN_TREE, shard="x"), False),
        (service("a", peer_list="a,B"), service("b", peer_list="A, b"), True),
        (service("a", peer_list="a,b"), service("b"), False),
        (service("a", node_selection="ironic"), service("b", node_selection="ironic"), True),
    ],
    ids=["ours-without-peers", "in-tree", "shard", "peers", "one-knows-the-other", "ironic-picks"],
)
def test_which_services_share_their_nodes(one, other, share) -> None:
    assert one.shares_with(other) is share
    assert other.shares_with(one) is share


@pytest.mark.parametrize(
    ("written", "standby"),
    [
        ({}, None),
        ({"standby_backend_url": "etcd3://e", "standby_ttl": "30"}, ("etcd3://e", 30, "")),
        ({"standby_backend_url": "z://z", "standby_namespace": "one"}, ("z://z", 15, "one")),
        ({"standby_backend_url": "file:///locks"}, None),
    ],
)
def test_whose_lease_can_be_looked_at(written, standby) -> None:
    assert ServiceOptions("compute-a", written=written).standby == standby
