# SPDX-License-Identifier: Apache-2.0

"""What the records answer a driver that asks."""

import pytest

from ironic_virt import virt
from tests.unit.compute.service_stage import GOLD, ServiceStage


def test_owners_are_told_of_nodes_that_have_a_record(set_stage, fake) -> None:
    mine = [fake.add_node(shard="a", **GOLD) for _ in range(3)]
    theirs = fake.add_node(shard="b", **GOLD)
    stage = set_stage("compute1", ironic={"shard_key": "a"}).begin()
    set_stage("compute2", ironic={"shard_key": "b"}).begin()
    asked = [*mine[:2], theirs, "6d2b4f02-0000-4000-8000-00000000beef"]
    assert stage.virtapi.node_owners(asked) == {
        **dict.fromkeys(mine[:2], "compute1"),
        theirs: "compute2",
    }


def test_hosts_that_are_up_are_live_and_this_one_always_is(set_stage, fake) -> None:
    one = set_stage("compute1").begin()
    two = set_stage("compute2").begin()
    assert set(one.virtapi.live_hosts()) == {"compute1", "compute2"}
    fake.advance(61)
    assert set(one.virtapi.live_hosts()) == {"compute1"}
    two.service.report()
    assert set(one.virtapi.live_hosts()) == {"compute1", "compute2"}
    one.db.services.update("compute2", forced_down=True)
    assert set(one.virtapi.live_hosts()) == {"compute1"}


def test_a_driver_knows_the_instances_of_its_nodes(stage: ServiceStage, uuid: str) -> None:
    assert stage.service.driver.list_instance_uuids() == [uuid]
    assert set(stage.virtapi.owned_instance_uuids()) == {uuid}


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("web", "web"),
        ("Web_1.example.org", "web-1-example-org"),
        ("-größe- ", "gr-e"),
        ("x" * 62 + "-y", "x" * 62),
        ("日本", None),
        (None, None),
    ],
)
def test_the_hostname_on_the_config_drive_is_a_label_of_dns(stage, name, label) -> None:
    uuid = stage.create(display_name=name, user_data=b"\xff\x00")
    instance = stage.instance(uuid)
    drive = stage.virtapi.config_drive(
        virt.DeployRequest(instance, instance.image, instance.ports)
    )
    assert drive is not None
    expected = label or (uuid if name is None else f"server-{uuid}")
    assert drive.meta_data["hostname"] == expected
    assert len(expected) <= 63
    assert drive.meta_data["name"] == (name or uuid)
    assert drive.user_data == b"\xff\x00"
