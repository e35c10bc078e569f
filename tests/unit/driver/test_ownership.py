# SPDX-License-Identifier: Apache-2.0

"""Stories of several services on one Ironic, and of options that change."""

import logging
from collections import Counter
from collections.abc import Iterable

import pytest
from oslo_config import cfg

from ironic_virt import exceptions
from ironic_virt.testing.fake_ironic import Conductor, FakeIronic
from tests.unit.driver.conftest import DURATIONS
from tests.unit.driver.stage import INSTANCE, STRANGER, VIF, SetStage, Stage, write_conf

HOSTS = ["compute1", "compute2", "compute3"]
PEERS = ",".join(HOSTS)


@pytest.fixture
def fake() -> FakeIronic:
    """A fake Ironic with conductors of two groups besides the default one."""
    groups = ("", "rack1", "rack2")
    conductors = tuple(Conductor(group=group) for group in groups)
    return FakeIronic(durations=DURATIONS, conductors=conductors)


def logged(caplog: pytest.LogCaptureFixture, level: int) -> list[str]:
    """What was logged at a level since last asked."""
    records = [record for record in caplog.records if record.levelno == level]
    found = [record.getMessage() for record in records if record.name.startswith("ironic_virt")]
    caplog.clear()
    return found


def three(set_stage: SetStage, fake: FakeIronic, **options: str) -> list[Stage]:
    """Three services, all of them up, that share the nodes."""
    stages = [set_stage(fake, host=host, peer_list=PEERS, **options) for host in HOSTS]
    for stage in stages:
        stage.service.live = list(HOSTS)
        stage.service.owned = set()
        stage.driver.init_host(stage.service.host)
    return stages


def offers(stages: Iterable[Stage]) -> dict[str, str]:
    """Node to host, after all have refreshed; no node is offered twice."""
    offered = [(node, stage.service.host) for stage in stages for node in stage.refresh()]
    assert set(Counter(node for node, _ in offered).values()) <= {1}
    return dict(offered)


# -- the hash ring ------------------------------------------------------------


def test_peers_share_the_nodes_and_free_ones_move(fake: FakeIronic, set_stage: SetStage) -> None:
    nodes = fake.add_nodes(40, ports=1)
    stages = three(set_stage, fake)
    before = offers(stages)
    assert set(before) == set(nodes)
    assert set(before.values()) == set(HOSTS)
    dying, survivors = stages[2], stages[:2]
    taken = next(node for node, host in before.items() if host == "compute3")
    dying.service.owned = {INSTANCE}
    instance = dying.instance(taken, host="compute3")
    dying.spawn(instance)
    for stage in survivors:
        stage.service.live = HOSTS[:2]
    for _ in range(2):
        survived = offers(survivors)
        assert set(survived) == set(nodes) - {taken}
        assert all(survived[node] == host for node, host in before.items() if host != "compute3")
    for stage in survivors:
        assert stage.driver.list_instance_uuids() == []
        assert not stage.driver.node_is_available(taken)
        assert not any(stage.driver.is_node_deleted(node) for node in nodes)
        stage.service.live = HOSTS[:1]
    # The last one standing takes nothing that the records give to others.
    stages[0].service.owners = before
    mine = {node: host for node, host in before.items() if host == "compute1"}
    assert offers(stages[:1]) == mine
    stages[0].service.owners = {}
    for stage in survivors:
        stage.service.live = list(HOSTS)
    returned = dying.restarted()
    assert offers([*survivors, returned]) == before
    assert returned.driver.list_instance_uuids() == [INSTANCE]
    returned.destroy(instance)
    returned.service.owned = set()
    assert offers([*survivors, returned]) == before
    returned.driver.cleanup_host()


def test_a_node_that_has_come_since_is_its_owners_only(fake, set_stage) -> None:
    stages = three(set_stage, fake)
    assert offers(stages) == {}
    late = fake.add_node()
    claimants = [stage.service.host for stage in stages if stage.driver.node_is_available(late)]
    assert len(claimants) == 1
    assert offers(stages) == {late: claimants[0]}


@pytest.mark.parametrize("group", ["rack1", "rack2"])
def test_a_new_node_with_an_instance_is_the_instances_hosts(fake, set_stage, group) -> None:
    stages = three(set_stage, fake, conductor_group="rack1")
    assert offers(stages) == {}
    late = fake.add_node(conductor_group=group, instance_uuid=INSTANCE)
    for owner in stages:
        for stage in stages:
            stage.service.owned = {INSTANCE} if stage is owner else {STRANGER}
        assert [stage for stage in stages if stage.driver.node_is_available(late)] == [owner]


@pytest.mark.parametrize(
    ("peers", "instance"), [(PEERS, None), ("compute1", None), ("compute1", INSTANCE)]
)
def test_a_node_that_has_come_since_in_another_group_is_nobodys(fake, set_stage, peers, instance):
    stages = [
        set_stage(fake, host=host, conductor_group="rack1", peer_list=peers)
        for host in peers.split(",")
    ]
    for stage in stages:
        stage.service.live = list(HOSTS)
    assert offers(stages) == {}
    late = fake.add_node(conductor_group="rack2", instance_uuid=instance)
    assert not any(stage.driver.node_is_available(late) for stage in stages)


def test_an_instance_keeps_its_node_when_the_group_changes(fake, set_stage) -> None:
    fake.add_nodes(6, ports=1, conductor_group="rack1")
    stages = three(set_stage, fake, conductor_group="rack1")
    node, host = next(iter(offers(stages).items()))
    stage = stages[HOSTS.index(host)]
    stage.service.owned = {INSTANCE}
    instance = stage.instance(node, host=host)
    stage.spawn(instance)
    fake.set_node(node, conductor_group="rack2")
    assert offers(stages)[node] == host
    assert stage.driver.list_instance_uuids() == [INSTANCE]
    assert stage.driver.node_is_available(node)
    assert stage.driver.get_available_resource(node).in_use
    stage.driver.power_off(instance)
    assert fake.node(node)["power_state"] == "power off"
    # The guard asks whose the instance is.
    stage.service.owned = {STRANGER}
    changes = len(fake.requests.mutating())
    with pytest.raises(exceptions.NodeNotOurs, match="ironic-compute-node-move " + node):
        stage.driver.power_on(instance)
    assert len(fake.requests.mutating()) == changes
    stage.service.owned = {INSTANCE}
    stage.destroy(instance)
    stage.service.owned = set()
    assert fake.node(node)["instance_uuid"] is None
    assert stage.driver.list_instance_uuids() == []
    assert node not in offers(stages), "without an instance it is the other group's"


def test_a_node_destroyed_during_a_look_up_does_not_come_back(fake, set_stage, monkeypatch):
    fake.add_node(conductor_group="rack1")
    node = fake.add_node(conductor_group="rack2")
    fake.set_node(node, instance_uuid=INSTANCE, provision_state="active")
    stage = three(set_stage, fake, conductor_group="rack1")[0]
    stage.service.owned = {INSTANCE}
    assert node in stage.refresh()
    client, look = stage.driver._site.client, stage.driver._site.client.node_of_instance

    def look_while_it_is_destroyed(instance: str) -> object:
        found = look(instance)
        fake.set_node(node, instance_uuid=None, provision_state="available")
        stage.driver._site.nodes.note(client.get_node(node))
        return found

    monkeypatch.setattr(client, "node_of_instance", look_while_it_is_destroyed)
    assert node not in stage.refresh()


def test_many_instances_elsewhere_are_looked_up_by_one_list(fake, set_stage) -> None:
    fake.add_nodes(2, conductor_group="rack1")
    elsewhere = fake.add_nodes(5, conductor_group="rack2")
    stage = three(set_stage, fake, conductor_group="rack1")[0]
    instances = [f"{INSTANCE[:-2]}{number:02}" for number in range(6)]
    for node, instance in zip(elsewhere, instances, strict=False):
        fake.set_node(node, instance_uuid=instance, provision_state="active")
    stage.service.owned = {*instances}
    strangers = fake.add_node(conductor_group="rack2", instance_uuid=STRANGER)
    ours = set(stage.refresh())
    assert set(elsewhere) < ours
    assert strangers not in ours
    asked = [entry.query for entry in fake.requests.matching("GET", "/nodes")]
    assert asked.count("fields=uuid%2Cinstance_uuid") == 1
    assert not any("instance_uuid=" in query for query in asked)


def test_without_peers_a_changed_group_is_no_longer_ours(fake, set_stage) -> None:
    node = fake.add_node(ports=1, conductor_group="rack1")
    stage = set_stage(fake, conductor_group="rack1", peer_list=PEERS)
    stage.driver.init_host("compute1")
    instance = stage.active(node)
    fake.set_node(node, conductor_group="rack2")
    assert stage.refresh() == []
    with pytest.raises(exceptions.NodeNotOurs):
        stage.destroy(instance)
    assert fake.node(node)["instance_uuid"] == INSTANCE


def test_an_instance_that_came_after_the_list_counts_once(fake, set_stage) -> None:
    fake.add_nodes(6)
    stages = three(set_stage, fake)
    node, host = next(iter(offers(stages).items()))
    stage = stages[HOSTS.index(host)]

    def reserve() -> set[str]:
        # Asked after the list: by now the node has the instance, in the list it has not.
        fake.set_node(node, instance_uuid=INSTANCE)
        return {INSTANCE}

    stage.service.owned_instance_uuids = reserve  # type: ignore[method-assign]
    nodes = stage.refresh()
    assert nodes.count(node) == 1
    assert len(set(nodes)) == len(nodes)


def test_a_look_up_that_fails_leaves_the_claim_in_force(fake, set_stage) -> None:
    fake.add_nodes(6, conductor_group="rack1")
    stages = three(set_stage, fake, conductor_group="rack1", api_max_retries="0")
    before = offers(stages)
    stage = stages[0]
    stage.service.owned = {INSTANCE}
    stage.service.live = HOSTS[:2]
    fake.faults.status(500, "GET", "/nodes$", nth=2)
    mine = [node for node, host in before.items() if host == "compute1"]
    assert stage.refresh() == mine


def test_warnings_come_at_the_start_and_when_members_change(fake, set_stage, caplog) -> None:
    stage = set_stage(fake, peer_list=PEERS)
    stage.service.live = list(HOSTS)
    stage.driver.init_host("compute1")
    (start,) = logged(caplog, logging.WARNING)
    assert "peer_list is deprecated" in start
    steps = [(HOSTS, 1), (HOSTS, 0), (HOSTS[:2], 1), (HOSTS[:2], 0), (HOSTS[:1], 1), (HOSTS, 1)]
    for live, warnings in steps:
        stage.service.live = list(live)
        stage.refresh()
        told = logged(caplog, logging.WARNING)
        assert len(told) == warnings
        assert all("deprecated" in text for text in told)
        assert len(live) == 1 or all("the nodes of conductor group any" in text for text in told)


# -- the records --------------------------------------------------------------


def test_a_node_that_the_records_give_away_is_left_alone(stage, fake, caplog) -> None:
    mine, fresh, other = fake.add_nodes(3)
    stage.service.owners = {mine: "Compute1", other: "compute7"}
    assert stage.refresh() == [mine, fresh]
    assert not stage.driver.node_is_available(other)
    (warning,) = logged(caplog, logging.WARNING)
    assert f"ironic-virt-manage ironic-compute-node-move {other} --service compute1" in warning
    assert (
        "Nodes in conductor group any, shard any that the records give to host compute7 are left "
        f"alone: {other}." in warning
    )
    stage.refresh()
    assert logged(caplog, logging.WARNING) == []
    stage.service.owners[other] = "compute8"
    stage.refresh()
    (again,) = logged(caplog, logging.WARNING)
    assert "compute8" in again
    stage.service.owners[other] = "compute1"
    assert stage.refresh() == [mine, fresh, other]
    assert stage.driver.node_is_available(other)


def test_another_hosts_fleet_is_one_line_in_the_log(stage, fake, caplog) -> None:
    theirs, others = fake.add_nodes(200), fake.add_nodes(2)
    stage.service.owners = dict.fromkeys(theirs, "compute7") | dict.fromkeys(others, "compute8")
    assert stage.refresh() == []
    many, few = logged(caplog, logging.WARNING)
    assert "compute7" in many
    assert "and 190 more. To move one here" in many
    assert sum(node in many for node in theirs) == 10
    assert f"ironic-compute-node-move {theirs[0]} --service compute1" in many
    assert f"left alone: {others[0]}, {others[1]}. To move" in few


def test_instances_on_nodes_of_another_host_are_not_ours(stage: Stage, fake: FakeIronic) -> None:
    node, other = fake.add_nodes(2, ports=1)
    stage.spawn(stage.instance(node))
    fake.set_node(other, instance_uuid=STRANGER)
    stage.service.owners = {other: "compute7"}
    stage.refresh()
    assert stage.driver.list_instance_uuids() == [INSTANCE]


def test_a_node_moved_away_during_an_outage_is_not_reported(fake, set_stage) -> None:
    moved, kept = fake.add_nodes(2)
    stage = set_stage(fake, api_max_retries="0")
    assert stage.refresh() == [moved, kept]
    stage.service.owners = {moved: "compute2"}
    fake.faults.status(503, "GET", "/nodes$", nth=1)
    assert stage.refresh() == [kept]
    assert not stage.driver.node_is_available(moved)


def test_in_an_outage_the_ring_gives_away_and_takes_nothing(fake, set_stage) -> None:
    fake.add_nodes(40, conductor_group="rack1")
    stages = three(set_stage, fake, conductor_group="rack1", api_max_retries="0")
    before = {node for node, host in offers(stages).items() if host == "compute1"}
    stage = stages[0]
    stage.service.live = HOSTS[:2]
    fake.faults.status(503, "GET", "/nodes$", nth=1)
    assert set(stage.refresh()) == before
    more = set(stage.refresh())
    assert more > before
    stage.service.live = list(HOSTS)
    fake.faults.status(503, "GET", "/nodes$", nth=1)
    assert set(stage.refresh()) == before


def test_without_ironic_and_records_nothing_is_reported(fake, set_stage, monkeypatch) -> None:
    fake.add_node()
    stage = set_stage(fake, api_max_retries="0")
    stage.refresh()

    def silent(uuids: Iterable[str]) -> dict[str, str]:
        raise TimeoutError("no conductor")

    monkeypatch.setattr(stage.service, "node_owners", silent)
    fake.faults.status(503, "GET", "/nodes$", nth=1)
    with pytest.raises(TimeoutError):
        stage.refresh()


def test_a_node_without_a_record_stays_with_its_instances_host(stage, fake, caplog) -> None:
    ours, theirs, nobodys, free = fake.add_nodes(4)
    for node, instance in ((ours, INSTANCE), (theirs, STRANGER), (nobodys, VIF)):
        fake.set_node(node, instance_uuid=instance, provision_state="active")
    stage.service.hosts = {INSTANCE: "compute1", STRANGER: "compute7"}
    assert stage.refresh() == [ours, nobodys, free]
    assert not stage.driver.node_is_available(theirs)
    (warning,) = logged(caplog, logging.WARNING)
    assert f"an instance of host compute7, are left alone: {theirs}." in warning
    assert "move" not in warning, "there is no record to move"
    stage.service.hosts.clear()
    assert theirs in stage.refresh()


def test_a_record_from_before_the_pools_is_nothing_to_move(fake, set_stage, caplog) -> None:
    theirs, _ = fake.add_nodes(2, resource_class="gold")
    fake.set_node(theirs, instance_uuid=STRANGER, provision_state="active")
    stage = set_stage(fake, node_selection="ironic", capacity="total")
    stage.service.owners = {theirs: "compute7"}
    with caplog.at_level(logging.INFO):
        assert stage.refresh() == ["gold~compute1"]
    warned = [r.getMessage() for r in caplog.records if r.levelno > logging.INFO]
    assert warned == []
    assert f"until their instances are deleted: {theirs}" in caplog.text
    assert stage.driver.get_inventory("gold~compute1").total == 1


# -- shards -------------------------------------------------------------------


def test_a_shard_spelt_otherwise_is_the_same_and_told_once(fake, set_stage, caplog) -> None:
    node, other = fake.add_nodes(2, shard="a", ports=1)
    stage = set_stage(fake, shard_key="a")
    fake.set_node(other, shard="A")
    for _ in range(2):
        assert node in stage.refresh()
    (warning,) = logged(caplog, logging.WARNING)
    assert "'a'" in warning
    assert "'A'" in warning
    fake.set_node(node, shard="A")
    stage.spawn(stage.instance(node))
    assert fake.node(node)["provision_state"] == "active"


def test_a_shard_without_nodes_is_told_when_it_gets_so(fake, set_stage, caplog) -> None:
    fake.add_node(shard="b")
    stage = set_stage(fake, shard_key="a")
    for told in (1, 0):
        assert stage.refresh() == []
        warnings = logged(caplog, logging.WARNING)
        assert len(warnings) == told
        assert all("shard 'a'" in text and "with nodes: b." in text for text in warnings)
    node = fake.add_node(shard="a")
    assert stage.refresh() == [node]
    assert logged(caplog, logging.WARNING) == []
    fake.set_node(node, shard="b")
    assert stage.refresh() == []
    assert len(logged(caplog, logging.WARNING)) == 1


# -- options that change ------------------------------------------------------


@pytest.fixture
def racks(fake: FakeIronic) -> list[str]:
    """A node in each of two groups."""
    return [fake.add_node(conductor_group=group) for group in ("rack1", "rack2")]


@pytest.fixture
def started(fake: FakeIronic, set_stage: SetStage, racks: list[str]) -> Stage:
    """A stage that has the first of them."""
    stage = set_stage(fake, conductor_group="rack1")
    stage.driver.init_host("compute1")
    assert stage.refresh() == racks[:1]
    return stage


def test_a_new_group_holds_from_the_next_refresh(started, racks, caplog) -> None:
    caplog.set_level(logging.INFO)
    first, second = racks
    assert started.refresh() == [first]
    assert "have changed" not in caplog.text
    started.set_options(conductor_group="Rack2")
    assert started.driver.get_available_nodes() == [first]
    assert started.driver.node_is_available(first)
    assert started.refresh() == [second]
    assert "The options have changed: conductor group 'rack2'" in caplog.text


def test_new_peers_hold_from_the_next_refresh(fake, set_stage, caplog) -> None:
    nodes = fake.add_nodes(40)
    stages = three(set_stage, fake)
    before = offers(stages)
    caplog.clear()
    stage = stages[0]
    stage.set_options()
    assert len(stage.driver.get_available_nodes()) == list(before.values()).count("compute1")
    assert stage.refresh() == nodes
    (warning,) = logged(caplog, logging.WARNING)
    assert "at rest" in warning


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"conductor_group": "rack 2"}, "conductor_group"),
        ({"conductor_group": "rack2", "peer_list": "compute2,compute3"}, "'compute1'"),
    ],
)
def test_a_wrong_new_value_is_refused_and_the_old_one_stays(started, racks, caplog, wrong, says):
    caplog.clear()
    started.set_options(**wrong)
    for _ in range(2):
        assert started.refresh() == racks[:1]
    (error,) = logged(caplog, logging.ERROR)
    assert says in error
    assert "stay in force: conductor group 'rack1'" in error
    started.set_options(conductor_group="rack2")
    assert started.refresh() == racks[1:]
    assert logged(caplog, logging.ERROR) == []
    started.set_options(**wrong)
    started.refresh()
    assert len(logged(caplog, logging.ERROR)) == 1, "refused again is told again"


def test_a_file_that_is_no_ini_file_changes_nothing(started, racks, tmp_path) -> None:
    path = write_conf(tmp_path, conductor_group="rack2")
    path.write_text(path.read_text() + "[ironic\n")
    with pytest.raises(cfg.ConfigFileParseError):
        started.conf.mutate_config_files()
    assert started.refresh() == racks[:1]


def test_a_reservation_on_a_node_of_another_host_stays(stage, fake, monkeypatch) -> None:
    of_other, own = fake.add_nodes(2)
    stage.service.owners = {of_other: "compute2", own: "compute1"}
    monkeypatch.setattr(stage.service, "placeless", lambda uuids: uuids)
    for node, instance in ((of_other, STRANGER), (own, INSTANCE)):
        fake.set_node(node, instance_uuid=instance)
    for _ in range(3):
        stage.refresh()
    assert fake.node(of_other)["instance_uuid"] == STRANGER
    assert fake.node(own)["instance_uuid"] is None


def test_a_reservation_that_is_wanted_again_meanwhile_stays(stage, fake, monkeypatch) -> None:
    nodes = fake.add_nodes(2)
    placeless, released = sorted([STRANGER, INSTANCE]), []
    first, second = placeless

    def release(uuid: str) -> None:
        released.append(uuid)
        if len(released) == 1:
            raise OSError("Placement is away")
        # That took its time, in which a user has unshelved the other one.
        placeless.clear()

    monkeypatch.setattr(stage.service, "placeless", lambda uuids: {*placeless} & {*uuids})
    monkeypatch.setattr(stage.service, "release_place", release)
    for node, instance in zip(nodes, placeless, strict=True):
        fake.set_node(node, instance_uuid=instance)
    for _ in range(4):
        stage.refresh()
    assert released == [first, first]
    assert [fake.node(node)["instance_uuid"] for node in nodes] == [None, second]
