# SPDX-License-Identifier: Apache-2.0

"""What the options mean together."""

import sys
from pathlib import Path

import pytest

from ironic_virt import exceptions
from ironic_virt.sharding.policy import Policy
from ironic_virt.sharding.selector import TargetSet
from tests.unit.driver.stage import make_conf


def policy(directory: Path, host: str = "compute1", **options: str) -> Policy:
    return Policy.from_conf(make_conf(directory, host, **options), host)


def test_peers_are_told_to_go_and_with_a_shard_they_are_ignored(tmp_path: Path) -> None:
    found = policy(tmp_path, peer_list="Compute1, compute2,")
    assert found.peers == {"compute1", "compute2"}
    (warning,) = found.warnings
    assert "deprecated" in warning
    assert "shard_key" in warning
    found = policy(tmp_path, shard_key="s1", peer_list="compute1,compute2", conductor_group="g")
    assert (found.peers, found.target) == (frozenset(), TargetSet("g", "s1"))
    (warning,) = found.warnings
    assert "peer_list is ignored" in warning


@pytest.mark.parametrize("group", ["g", ""])
def test_a_group_with_peers_but_without_this_host_is_an_error(tmp_path: Path, group: str) -> None:
    with pytest.raises(exceptions.InvalidConfiguration, match="'compute3'") as caught:
        policy(tmp_path, "compute3", conductor_group=group, peer_list="compute1,compute2")
    assert caught.value.option == "[ironic] peer_list"


def test_a_host_that_its_list_lacks_is_warned_of(tmp_path: Path) -> None:
    found = policy(tmp_path, "compute3", peer_list="compute1,compute2")
    assert any("does not name this host, 'compute3'" in warning for warning in found.warnings)


def test_a_ring_of_two_needs_tooz_and_a_host_alone_does_not(tmp_path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "tooz.hashring", None)
    assert policy(tmp_path, peer_list="compute1").peers == {"compute1"}
    with pytest.raises(exceptions.InvalidConfiguration, match=r"extra .hashring"):
        policy(tmp_path, peer_list="compute1,compute2")


def test_the_log_names_group_shard_and_peers() -> None:
    assert str(Policy(TargetSet())) == "conductor group any, shard any, peers none"
    shown = str(Policy(TargetSet("g", "s"), frozenset({"b", "a"})))
    assert shown == "conductor group 'g', shard 's', peers a, b"
