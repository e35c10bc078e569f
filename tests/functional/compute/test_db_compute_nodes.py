# SPDX-License-Identifier: Apache-2.0

"""Compute nodes' records: what a refresh writes, and what it leaves alone."""

import dataclasses

import pytest

from ironic_virt.compute import errors
from ironic_virt.compute.db import Database
from tests.functional.compute.stage import (
    claim,
    create_building,
    free_node,
    new_instance,
    new_uuid,
    register,
    release,
    report,
    statements,
)


@pytest.fixture(autouse=True)
def services(db: Database) -> None:
    register(db, "one")
    register(db, "two")


def test_a_record_says_what_was_reported(db: Database) -> None:
    node = report(resource_class="bare-metal.8")
    assert db.compute_nodes.save("one", [node]) == {}
    found = db.compute_nodes.get(node.uuid)
    assert found == dataclasses.replace(node, host="one")
    odd = dataclasses.replace(node, cpu_arch="x\0", resource_class="a\0b")
    db.compute_nodes.save("one", [odd, report()])
    found = db.compute_nodes.get(node.uuid)
    assert (found.cpu_arch, found.resource_class) == ("x\ufffd", "a\ufffdb")


def test_only_differences_are_written(db: Database) -> None:
    nodes = [report() for _ in range(1200)]
    db.compute_nodes.save("one", nodes)
    with statements(db) as seen:
        db.compute_nodes.save("one", nodes)
    assert {each.split()[0] for each, _ in seen} == {"SELECT"}
    changed = [
        dataclasses.replace(node, available=False) if number % 100 == 0 else node
        for number, node in enumerate(nodes)
    ]
    with statements(db) as seen:
        db.compute_nodes.save("one", changed)
    written = str([values for each, values in seen if each.startswith("UPDATE")])
    different = {node.uuid for node in changed if not node.available}
    assert {node.uuid for node in nodes if node.uuid in written} == different
    assert {node.uuid for node in db.compute_nodes.list() if not node.available} == different


def test_a_refresh_spares_claims_and_other_services_records(db: Database) -> None:
    node, instance = free_node(db, "one"), new_uuid()
    assert db.compute_nodes.save("two", [report(uuid=node.uuid, vcpus=99)]) == {node.uuid: "one"}
    assert db.compute_nodes.get(node.uuid) == node
    assert claim(db, node.uuid, "one", instance)
    db.compute_nodes.save("one", [report(uuid=node.uuid, available=False, in_use=True)])
    assert db.compute_nodes.get(node.uuid).instance_uuid == instance


def test_a_free_record_is_taken_over_only_when_told(db: Database) -> None:
    free, claimed, used = (free_node(db, "one") for _ in range(3))
    assert claim(db, claimed.uuid, "one", new_uuid())
    made = create_building(db, new_instance(), used)
    release(db, made.uuid)
    found = db.compute_nodes.save(
        "two", [report(uuid=node.uuid) for node in (free, claimed, used)], take_over=True
    )
    assert found == {claimed.uuid: "one", used.uuid: "one"}
    assert db.compute_nodes.get(free.uuid).host == "two"


def test_only_its_owner_deletes_a_record_and_not_one_in_use(db: Database) -> None:
    used, free = free_node(db, "one"), free_node(db, "one")
    made = create_building(db, new_instance(), used)
    with pytest.raises(errors.ComputeNodeInUse) as raised:
        db.compute_nodes.delete("one", used.uuid)
    assert raised.value.server == made.uuid
    release(db, made.uuid)
    with pytest.raises(errors.ComputeNodeInUse):
        db.compute_nodes.delete("one", used.uuid)
    with pytest.raises(errors.ComputeNodeNotFound):
        db.compute_nodes.delete("two", free.uuid)
    db.compute_nodes.delete("one", free.uuid)
    with pytest.raises(errors.ComputeNodeNotFound, match=free.uuid):
        db.compute_nodes.delete("one", free.uuid)
    with pytest.raises(errors.ComputeNodeNotFound, match=free.uuid):
        db.compute_nodes.get(free.uuid)


def test_a_node_that_comes_back_has_a_new_record(db: Database) -> None:
    node = free_node(db, "one")
    for host in ("one", "two"):
        db.compute_nodes.delete(host, node.uuid)
        assert db.compute_nodes.save("two", [report(uuid=node.uuid)]) == {}
    assert db.compute_nodes.get(node.uuid).host == "two"


def test_owners_are_told_of_what_is_known(db: Database) -> None:
    one, two = free_node(db, "one"), free_node(db, "two")
    asked = [one.uuid, two.uuid, new_uuid()]
    assert db.compute_nodes.owners(asked) == {one.uuid: "one", two.uuid: "two"}
    assert db.compute_nodes.uuids("one") == [one.uuid]


def test_nodes_are_listed_by_uuid_and_by_service(db: Database) -> None:
    db.compute_nodes.save("one", [report() for _ in range(7)])
    db.compute_nodes.save("two", [report()])
    every = db.compute_nodes.list()
    assert [node.uuid for node in every] == sorted(node.uuid for node in every)
    assert db.compute_nodes.list("one") == [node for node in every if node.host == "one"]


def test_equal_traits_and_capabilities_are_shared(db: Database) -> None:
    db.compute_nodes.save("one", [report(), report()])
    first, second = db.compute_nodes.list()
    assert first.traits is second.traits
    assert first.stats is second.stats
