# SPDX-License-Identifier: Apache-2.0

"""The filters of server groups alone: which class Nova loads, and what hypervisors get."""

import json
from typing import Any

import pytest
from nova import conf as nova_conf
from nova import exception, objects
from nova.scheduler import host_manager, weights
from nova.scheduler.filters import (
    HostFilterHandler,
)
from oslo_config import cfg

from ironic_virt.nova import options, server_groups, sizes

objects.register_all()

AVAILABLE = [
    "nova.scheduler.filters.all_filters",
    "ironic_virt.nova.server_groups.all_filters",
]
OURS = "ironic_virt.nova.server_groups"
M1, M2, NEW = (f"{number}" * 8 + "-0000-4000-8000-000000000000" for number in "123")


def host(
    name: str, rack: str | None = None, servers: tuple[str, ...] = (), **free: int
) -> host_manager.HostState:
    """A host state: of a node in a failure domain, of a pool, or of neither."""
    domains = free if rack is None else {rack: 1}
    state = host_manager.HostState("compute1" if domains else name, name, "cell1")
    state.uuid = name if rack is not None else M1
    state.stats = {sizes.FAILURE_DOMAINS: json.dumps(domains)} if domains else {}
    state.instances = dict.fromkeys(servers)
    return state


def request(policy: str, members: dict[str, str], count: int = 1, **more: Any) -> Any:
    """A request for servers of a group, whose members are in these failure domains."""
    group = objects.InstanceGroup(
        uuid=M1, name="web", policy=policy, members=[M1, M2], rules={}, hosts=["kvm1"]
    )
    group.policies = [policy]
    fields = {"scheduler_hints": {}, "requested_destination": None, "ignore_hosts": None} | more
    spec = objects.RequestSpec(
        instance_uuid=NEW, instance_group=group, num_instances=count, **fields
    )
    known = server_groups.Members(members.values())
    known.silent += ["cell1"] if "silent" in members else []
    setattr(spec, server_groups._ATTRIBUTE, known)
    return spec


@pytest.fixture
def filters() -> dict[str, Any]:
    """The filters by name, as Nova's host manager takes them."""
    classes = HostFilterHandler().get_matching_classes(AVAILABLE)
    return {kind.__name__: kind for kind in classes}


def names(hosts: Any) -> list[str]:
    return [host.nodename for host in hosts]


NAMES = {"anti-affinity": "ServerGroupAntiAffinityFilter", "affinity": "ServerGroupAffinityFilter"}


def test_nova_takes_the_later_class_of_a_name(filters: dict[str, Any]) -> None:
    assert {filters[name].__module__ for name in NAMES.values()} == {OURS}


def test_hypervisors_are_left_to_novas_own(filters: dict[str, Any]) -> None:
    hosts = [
        host("kvm1", servers=(M2,)),
        host("kvm2"),
        host("n1", "r1"),
        host("n2", "r2"),
        host("n3", ""),
    ]
    chosen = {
        policy: names(filters[name]().filter_all(hosts, request(policy, {M1: "r1"})))
        for policy, name in NAMES.items()
    }
    assert chosen == {"anti-affinity": ["kvm2", "n2"], "affinity": ["kvm1", "n1"]}


def test_a_filter_passes_all_hosts_of_another_policy(filters: dict[str, Any]) -> None:
    hosts = [host("n1", "r1")]
    spec = request("affinity", {M1: "r1"})
    assert names(filters["ServerGroupAntiAffinityFilter"]().filter_all(hosts, spec)) == ["n1"]


@pytest.mark.parametrize("policy", NAMES)
def test_a_cell_that_is_silent_lets_no_strict_member_in(filters, policy) -> None:
    hosts = [host("n1", "r1")]
    with pytest.raises(exception.NoValidHost, match="cell cell1 does not answer"):
        filters[NAMES[policy]]().filter_all(hosts, request(policy, {"silent": "r9"}))


def test_once_something_is_claimed_nothing_is_raised(filters: dict[str, Any]) -> None:
    hosts = [host("n1", "r1"), host("n2", "r1")]
    spec = request("anti-affinity", {})
    assert names(filters["ServerGroupAntiAffinityFilter"]().filter_all(hosts, spec)) == [
        "n1",
        "n2",
    ]
    hosts[0].num_instances += 1
    spec.instance_uuid = M2
    assert filters["ServerGroupAntiAffinityFilter"]().filter_all(hosts, spec) == []


def test_pools_pass_by_what_is_free_in_them(filters: dict[str, Any]) -> None:
    pools = [
        host("gold~compute1", r1=2),
        host("gpu~compute1", r1=1, r2=1),
    ]
    spec = request("anti-affinity", {M1: "r1"})
    passing = filters["ServerGroupAntiAffinityFilter"]().filter_all(pools, spec)
    assert names(passing) == ["gpu~compute1"]
    with pytest.raises(exception.NoValidHost, match="r1 0/3, r2 0/1"):
        filters["ServerGroupAffinityFilter"]().filter_all(pools, request("affinity", {}, 4))


@pytest.mark.parametrize(
    ("policy", "members", "order"),
    [
        ("soft-anti-affinity", {M1: "r1"}, ["c", "a", "b", "d"]),
        ("soft-affinity", {M1: "r1"}, ["a", "b", "c", "d"]),
        ("affinity", {}, ["c", "a", "b", "d"]),
    ],
)
def test_the_order_in_which_nodes_are_tried(policy, members, order) -> None:
    hosts = [host(name, rack) for name, rack in zip("dabc", ("", "r1", "r1", "r2"), strict=True)]
    weigher = server_groups.FailureDomainWeigher()
    handler = weights.HostWeightHandler()
    weighed = handler.get_weighed_objects([weigher], hosts, request(policy, members))
    assert [one.obj.nodename for one in weighed] == order


@pytest.mark.parametrize(
    ("text", "ours", "off"),
    [
        ("", True, True),
        ("disable_group_policy_check_upcall = false", True, True),
        ("disable_group_policy_check_upcall = true", False, True),
    ],
)
def test_whose_late_check_is_made(tmp_path: Any, text: str, ours: bool, off: bool) -> None:
    file = tmp_path / "nova.conf"
    file.write_text(f"[workarounds]\n{text}\n")
    conf = cfg.ConfigOpts()
    # Groups that Nova makes share what is set in them.
    conf.register_opts(nova_conf.workarounds.ALL_OPTS, group="workarounds")
    conf(["--config-file", str(file)])
    assert options.take_over_group_check(conf) is ours
    assert conf.workarounds.disable_group_policy_check_upcall is off
    if not text:
        # Another driver in this process.
        assert options.take_over_group_check(conf) is ours
