# SPDX-License-Identifier: Apache-2.0

"""Each finding of the doctor: provoked in a sound deployment, and nothing else found."""

import datetime
import tomllib
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import pytest

from ironic_virt.driver import resources
from ironic_virt.driver.pools import names
from ironic_virt.fleet import checks
from ironic_virt.fleet.checks import domains
from ironic_virt.fleet.deployment import Deployment, Provider, Record, Server, Stock, pool_name
from ironic_virt.fleet.findings import Finding
from ironic_virt.fleet.hosts import Aggregate, Flavor, Group
from ironic_virt.fleet.options import ServiceOptions
from ironic_virt.standby import Look, Note
from tests.unit.fleet.deployments import (
    GOLD,
    NOW,
    changed,
    fleet,
    node,
    node_uuid,
    server_uuid,
    with_hosts,
    with_node,
    with_placement,
    with_server,
    with_service,
)

DOCUMENTED = Path(__file__).parents[3] / "doc" / "extensions" / "fleet_findings.toml"
FREE, TAKEN = node_uuid(1), node_uuid(2)
SERVER = server_uuid(2)
NOBODY = server_uuid(999)
STRANGE = node_uuid(500)

GOLDEN = frozenset({GOLD})
FLAVORS = [Flavor("silver", frozenset({"CUSTOM_SILVER"}))]
BYPASSED = Note(True, "machine-1", 1, "2026-11-26 10:00:00", "1.0", foreign_reports=3)
Spoil = Callable[[Deployment], Deployment]


def sound() -> Deployment:
    """Two services with three nodes each; nodes 2, 4 and 6 have servers."""
    return fleet({"compute-a": 3, "compute-b": 3}, traits=frozenset({"CUSTOM_SSD"}))


def with_leases(lease: Look) -> Spoil:
    return lambda deployment: changed(
        deployment, leases={"compute-a": lease, "compute-b": Look(age=1.0)}
    )


def with_server_record(deployment: Deployment, uuid: str, **fields: object) -> Deployment:
    other = changed(deployment.servers[uuid], **fields)
    return changed(deployment, servers={**deployment.servers, uuid: other})


def with_more(
    deployment: Deployment, host: str, defaults: Mapping[str, str] | None = None, **written: str
) -> Deployment:
    was = deployment.options[host]
    other = changed(was, written={**was.written, **written}, defaults=defaults or was.defaults)
    return changed(deployment, options={**deployment.options, host: other})


def with_interval(seconds: int, **written: str) -> Spoil:
    slow = {"update_resources_interval": str(seconds)}
    return lambda deployment: with_more(deployment, "compute-a", slow, **written)


def with_provider(deployment: Deployment, *fields: str) -> Deployment:
    made, known = Provider(*fields), deployment.placement.providers
    return with_placement(deployment, providers={**known, made.uuid: made})


def without_provider(deployment: Deployment, uuid: str) -> Deployment:
    providers = dict(deployment.placement.providers)
    del providers[uuid]
    room = {name: having - {uuid} for name, having in deployment.placement.room.items()}
    return with_placement(deployment, providers=providers, room=room)


def with_allocations(deployment: Deployment, uuid: str, consumers: Collection[str]) -> Deployment:
    held = {consumer: {GOLD: 1} for consumer in consumers}
    found = with_placement(
        deployment, allocations={**deployment.placement.allocations, uuid: held}
    )
    return with_room(found, GOLD, found.placement.room[GOLD] - {uuid}) if held else found


def with_room(deployment: Deployment, name: str, providers: Collection[str]) -> Deployment:
    room = {**deployment.placement.room, name: frozenset(providers)}
    return with_placement(deployment, room=room)


def two_processes(deployment: Deployment) -> Deployment:
    """One of two services has reported twice as often as its file says."""
    long_ago = NOW - datetime.timedelta(seconds=2000)
    found = with_service(deployment, "compute-a", created=long_ago, reports=400)
    found = with_service(found, "compute-b", created=long_ago, reports=200)
    for host in found.options:
        found = with_more(found, host, {"report_interval": "10"})
    return found


def a_free_node_is_reserved(deployment: Deployment) -> Deployment:
    found = with_room(deployment, GOLD, deployment.placement.room[GOLD] - {FREE})
    return with_placement(
        found,
        stocks={**found.placement.stocks, FREE: {GOLD: Stock(1, 1)}},
        allocations={**found.placement.allocations, FREE: {}},
    )


def a_record_is_copied(deployment: Deployment) -> Deployment:
    copy = changed(deployment.node_records[FREE], host="compute-b", uuid=STRANGE, id=99)
    return changed(deployment, records=[*deployment.records, copy])


def a_second_server(deployment: Deployment) -> Deployment:
    building = Server("cell1", NOBODY, "compute-a", TAKEN, "building", "spawning")
    return changed(deployment, servers={**deployment.servers, NOBODY: building})


def two_nodes_swap(deployment: Deployment) -> Deployment:
    """The server of the second node is carried by the first one."""
    found = with_node(deployment, TAKEN, instance_uuid=None, provision_state="cleaning")
    found = changed(found, nodes={**found.nodes, FREE: with_server(found.nodes[FREE], SERVER)})
    return with_room(found, GOLD, found.placement.room[GOLD] - {FREE})


def a_switch_leaves_a_node_protected(deployment: Deployment) -> Deployment:
    reason = resources.protection_of(SERVER)
    switched = with_more(deployment, "compute-a", {"compute_driver": "ironic.IronicDriver"})
    return with_node(switched, TAKEN, protected=True, protected_reason=reason)


def by_rack(deployment: Deployment, module: str = domains.FILTERS) -> Deployment:
    """All nodes in one rack; both services know it."""
    for host in deployment.options:
        deployment = with_more(deployment, host, failure_domain="capabilities/rack")
    for uuid in deployment.nodes:
        deployment = with_node(deployment, uuid, failure_domain="r1")
    return changed(deployment, group_filters={"ServerGroupAffinityFilter": module})


def with_group(deployment: Deployment, most: int | None) -> Deployment:
    """The servers of nodes 2 and 4 are in one group; each is alone in its rack."""
    group = Group("web", frozenset({SERVER, server_uuid(4), NOBODY}), most)
    found = with_node(by_rack(deployment), TAKEN, failure_domain="r2")
    return with_hosts(found, groups={SERVER: group, server_uuid(4): group})


def a_zone_without_a_node(deployment: Deployment) -> Deployment:
    zone = Aggregate("az1", "a1", frozenset({"compute-a", "kvm1"}), "az1")
    found = with_placement(deployment, aggregates={"a1": frozenset({FREE, TAKEN})})
    servers = {key: changed(one, zone=None) for key, one in found.servers.items()}
    return with_hosts(changed(found, servers=servers), aggregates=[zone])


PROVOKED: dict[str, tuple[Any, ...]] = {
    "node-without-record": (
        lambda d: changed(d, nodes={**d.nodes, STRANGE: node(500, shard="compute-a")}),
        STRANGE,
    ),
    "record-without-node": (
        lambda d: changed(d, nodes={k: v for k, v in d.nodes.items() if k != FREE}),
        FREE,
    ),
    "node-in-two-records": (a_record_is_copied, FREE),
    "node-in-no-target-set": (
        lambda d: with_node(d, FREE, shard="nobody's"),
        FREE,
        "node-outside-its-service",
    ),
    "node-in-two-target-sets": (
        lambda d: with_more(d, "compute-b", shard_key="compute-a"),
        FREE,
        "node-in-no-target-set",
        "node-outside-its-service",
    ),
    "node-outside-its-service": (lambda d: with_node(d, FREE, shard="Compute-B"), FREE),
    "node-with-unknown-instance": (
        lambda d: with_node(d, TAKEN, instance_uuid=NOBODY),
        TAKEN,
        "server-without-node",
    ),
    "node-with-deleted-instance": (
        lambda d: with_server_record(d, SERVER, deleted=True),
        TAKEN,
        "allocation-of-nobody",
    ),
    "node-unhealthy": (lambda d: with_node(d, FREE, health="critical"), FREE),
    "node-unreadable": (
        lambda d: with_node(d, FREE, malformed=("maintenance")),
        FREE,
        "offered-unavailable",
    ),
    "node-without-class": (
        lambda d: with_node(d, FREE, resource_class=None),
        FREE,
        "inventory-differs",
    ),
    "host-differs": (lambda d: with_server_record(d, SERVER, host="compute-b"), SERVER),
    "server-without-node": (
        lambda d: with_node(d, TAKEN, instance_uuid=None, provision_state="manageable"),
        SERVER,
    ),
    "node-protected": (a_switch_leaves_a_node_protected, TAKEN),
    "server-on-another-node": (two_nodes_swap, SERVER),
    "two-servers-on-a-node": (a_second_server, TAKEN),
    "service-down": (lambda d: with_service(d, "compute-a", up=False), "compute-a"),
    "lease-of-nobody": (with_leases(Look()), "compute-a"),
    "lease-bypassed": (with_leases(Look(1.0, [BYPASSED])), "compute-a"),
    "lease-untold": (with_leases(Look(untold="no answer within 10 s")), "compute-a"),
    "peer-unknown": (
        lambda d: with_more(d, "compute-a", shard_key="", peer_list="compute-a, gone"),
        "compute-a",
        "option-deprecated",
        "node-in-two-target-sets",
    ),
    "option-unknown": (lambda d: with_more(d, "compute-a", api_max_retry="3"), "compute-a"),
    "option-deprecated": (lambda d: with_more(d, "compute-a", peer_list="compute-a"), "compute-a"),
    "refresh-rare": (with_interval(43200), "compute-a"),
    "clock-apart": (lambda d: changed(d, clocks={"Ironic": -61.0}), "Ironic"),
    "provider-missing": (lambda d: without_provider(d, FREE), FREE),
    "provider-uuid-wrong": (
        lambda d: with_provider(without_provider(d, FREE), STRANGE, FREE),
        STRANGE,
    ),
    "provider-name-wrong": (lambda d: with_provider(d, FREE, "gold1"), FREE),
    "provider-parent-wrong": (lambda d: with_provider(d, FREE, FREE, TAKEN), FREE),
    "provider-of-nobody": (lambda d: with_provider(d, STRANGE, STRANGE), STRANGE),
    "allocation-of-nobody": (lambda d: with_allocations(d, FREE, [NOBODY]), FREE),
    "allocation-elsewhere": (lambda d: with_allocations(d, FREE, [SERVER]), FREE),
    "allocation-missing": (lambda d: with_allocations(d, TAKEN, ()), SERVER),
    "resource-class-renamed": (lambda d: with_node(d, TAKEN, resource_class="silver"), TAKEN),
    "service-disabled": (lambda d: with_service(d, "compute-a", disabled=True), "compute-a"),
    "service-never-reports": (
        lambda d: with_service(d, "compute-a", up=False, last_seen=None),
        "compute-a",
    ),
    "service-reports-twice": (two_processes, "compute-a"),
    "host-not-mapped": (lambda d: with_hosts(d, cells={"compute-a": "cell1"}), "compute-b"),
    "server-in-another-zone": (lambda d: with_server_record(d, SERVER, zone="az1"), SERVER),
    "node-without-flavor": (lambda d: with_hosts(d, flavors=FLAVORS), FREE, "flavor-without-node"),
    "flavor-without-node": (
        lambda d: with_hosts(d, flavors=[Flavor("any", GOLDEN), *FLAVORS]),
        "silver",
    ),
    "offered-unavailable": (lambda d: with_node(d, FREE, maintenance=True), FREE),
    "reserved-differs": (a_free_node_is_reserved, FREE),
    "inventory-differs": (lambda d: with_node(d, FREE, resource_class="silver"), FREE),
    "traits-differ": (lambda d: with_node(d, FREE, traits=frozenset()), FREE),
    "zone-incomplete": (a_zone_without_a_node, "compute-a"),
    "node-without-domain": (lambda d: with_node(by_rack(d), FREE, failure_domain=""), FREE),
    "group-violated": (lambda d: with_node(with_group(d, 1), TAKEN, failure_domain="r1"), "web"),
    "group-filters-not-ours": (
        lambda d: by_rack(d, "nova.scheduler.filters.affinity_filter"),
        "ServerGroupAffinityFilter",
    ),
}
"""By code: what spoils a sound deployment, what it is said of, and what else is said then."""


def codes(found: Collection[Finding]) -> set[str]:
    return {one.code for one in found}


def test_in_a_sound_deployment_nothing_is_found() -> None:
    assert checks.run(sound()) == []
    assert checks.run(pooled()) == []


def test_each_finding_is_provoked_here_and_in_the_documentation() -> None:
    assert checks.CHECKS.keys() == PROVOKED.keys() | {"pool-differs", "builds-too-few"}
    told = tomllib.loads(DOCUMENTED.read_text())
    assert list(told) == list(checks.CHECKS)
    assert all(row.keys() == {"meaning", "provoke"} for row in told.values())


@pytest.mark.parametrize("code", PROVOKED)
def test_a_finding_is_found_where_it_is_provoked(code: str) -> None:
    spoil, about, *also = PROVOKED[code]
    found = checks.run(spoil(sound()))
    assert codes(found) == {code} | set(also)
    (first, *_) = [one for one in found if one.code == code]
    assert first.about == about
    assert "{" not in first.fix


def test_what_a_group_allows_is_sound() -> None:
    for most, expected in ((1, set()), (2, set()), (None, {"group-violated"})):
        assert codes(checks.run(with_group(sound(), most))) == expected


def test_the_worst_comes_first() -> None:
    found = checks.run(with_node(sound(), FREE, maintenance=True, health="CRITICAL"))
    assert [one.severity.value for one in found] == ["critical", "warning"]


def pooled() -> Deployment:
    """One service whose nodes are in one pool, with a server in it."""
    free, taken = node(1), with_server(node(2), SERVER)
    name = pool_name("compute-a", free)
    uuid = names.pool_uuid(name)
    base = fleet({"compute-a": 0}, shards=False)
    return changed(
        base,
        nodes={free.uuid: free, taken.uuid: taken},
        records=[Record("cell1", 1, uuid, "compute-a", name)],
        servers={SERVER: Server("cell1", SERVER, "compute-a", name)},
        placement=changed(
            base.placement,
            providers={uuid: Provider(uuid, name)},
            room={GOLD: frozenset({uuid})},
            allocations={uuid: {SERVER: {GOLD: 1}}},
            stocks={uuid: {GOLD: Stock(2)}},
        ),
        options={"compute-a": ServiceOptions("compute-a", written={"node_selection": "ironic"})},
    )


@pytest.mark.parametrize(
    ("fields", "differs"),
    [
        ({"maintenance": True}, True),
        ({"provision_state": "clean failed"}, True),
        # Its service reports that with the next refresh.
        ({"maintenance": True, "provision_updated_at": "2026-05-04T11:59:00+00:00"}, False),
    ],
)
def test_a_pool_with_wrong_numbers_is_found(fields: dict[str, object], differs: bool) -> None:
    found = checks.run(with_node(pooled(), FREE, **fields))
    assert codes(found) == ({"pool-differs"} if differs else set())


def test_a_server_in_a_pool_of_another_class_is_found() -> None:
    deployment = pooled()
    ((uuid, _),) = deployment.placement.allocations.items()
    former = {uuid: {SERVER: {"CUSTOM_GO_LD": 1}}}
    found = checks.run(with_placement(deployment, allocations=former))
    assert [(one.code, one.about) for one in found] == [("resource-class-renamed", uuid)]
    assert "holds CUSTOM_GO_LD of it, but its resource class is CUSTOM_GOLD" in found[0].words


def test_a_pool_that_builds_few_at_a_time_is_found() -> None:
    deployment = pooled()
    written = deployment.options["compute-a"].written
    for limit, few in (("0", False), ("1", True), ("2", False)):
        options = ServiceOptions("compute-a", written, {"max_concurrent_builds": limit})
        nodes = {one.uuid: one for one in (node(number) for number in range(1, 20))}
        many = changed(deployment, nodes=nodes, options={"compute-a": options})
        found = checks.run(many, ["builds-too-few"])
        assert codes(found) == ({"builds-too-few"} if few else set())


def test_a_flavor_fits_by_class_and_traits() -> None:
    ssd = node(1, traits=frozenset({"CUSTOM_SSD"}))
    for flavor, fits in (
        (Flavor("f", GOLDEN), True),
        (Flavor("f", GOLDEN, frozenset({"CUSTOM_SSD"})), True),
        (Flavor("f", GOLDEN, frozenset({"CUSTOM_SSD", "CUSTOM_GPU"})), False),
        (Flavor("f", GOLDEN, frozenset(), frozenset({"CUSTOM_SSD"})), False),
    ):
        assert flavor.fits(GOLD, ssd) is fits


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(
            lambda d: with_node(
                d, FREE, provision_state="cleaning", provision_updated_at="2026-05-04T11:59:00Z"
            ),
            id="a-node-that-is-cleaned-now",
        ),
        pytest.param(
            lambda d: changed(
                with_node(d, TAKEN, instance_uuid=None, provision_state="available"),
                servers={**d.servers, SERVER: changed(d.servers[SERVER], task_state="deleting")},
            ),
            id="a-server-that-is-being-deleted",
        ),
        pytest.param(
            lambda d: changed(with_node(d, FREE, shard="nobody's"), options={}),
            id="a-target-set-without-the-services-files",
        ),
        pytest.param(
            lambda d: changed(with_allocations(d, FREE, [NOBODY]), consumers={NOBODY}),
            id="a-build-that-has-just-begun",
        ),
        pytest.param(
            lambda d: with_service(two_processes(d), "compute-a", created=NOW),
            id="a-service-whose-interval-is-not-known",
        ),
        pytest.param(with_interval(300), id="a-refresh-that-is-not-rare"),
        pytest.param(with_interval(43200, node_refresh="all"), id="one-that-is-so-on-purpose"),
    ],
)
def test_what_changes_just_now_or_is_not_known_is_not_found(spoil: Spoil) -> None:
    assert checks.run(spoil(sound())) == []


def test_of_some_cells_nothing_is_said_that_only_all_can_tell() -> None:
    deployment = with_allocations(sound(), FREE, [NOBODY])
    deployment = with_node(deployment, TAKEN, instance_uuid=server_uuid(77))
    # The nodes of a service of another cell.
    of_one = [row for row in deployment.records if row.host == "compute-a"]
    options = {"compute-a": deployment.options["compute-a"]}
    found = checks.run(changed(deployment, whole=False, records=of_one, options=options))
    assert codes(found) == {"server-without-node"}


def test_peers_share_their_nodes() -> None:
    deployment = fleet({"compute-a": 2, "compute-b": 2}, shards=False)
    peers = "compute-a,Compute-B"
    for host in ("compute-a", "compute-b"):
        deployment = with_more(deployment, host, peer_list=peers)
    assert codes(checks.run(deployment)) == {"option-deprecated"}


def test_a_class_or_a_trait_that_placement_lacks_is_missing() -> None:
    deployment = with_node(sound(), FREE, traits=frozenset({"CUSTOM_SSD", "CUSTOM_NEW"}))
    having = {**deployment.placement.traits, "CUSTOM_NEW": frozenset()}
    (found,) = checks.run(with_placement(deployment, traits=having))
    assert "lacks CUSTOM_NEW" in found.words
    # One that provider.yaml adds to all is harmless, unless a flavor asks for nothing else.
    room = {**sound().placement.room, "CUSTOM_LICENSE": frozenset(sound().nodes)}
    more, added = with_placement(sound(), room=room), frozenset({"CUSTOM_LICENSE"})
    held = {TAKEN: {SERVER: {GOLD: 1, "CUSTOM_LICENSE": 1}}}
    used_up = with_placement(sound(), allocations={**sound().placement.allocations, **held})
    silver = with_node(more, FREE, resource_class="silver")
    unfit = {"flavor-without-node", "node-without-flavor"}
    for deployment, classes, expected in (
        (more, GOLDEN, set()),
        (more, GOLDEN | added, set()),
        (used_up, GOLDEN | added, set()),
        (more, added, {"inventory-differs", "offered-unavailable", *unfit}),
        (sound(), GOLDEN | added, unfit),
        (silver, GOLDEN | {"CUSTOM_SILVER"}, unfit),
    ):
        found = codes(checks.run(with_hosts(deployment, flavors=[Flavor("f", classes)])))
        assert found == expected
    (found,) = checks.run(with_node(sound(), FREE, traits=frozenset()))
    assert "also has CUSTOM_SSD, unless Nova's provider.yaml adds it" in found.words
