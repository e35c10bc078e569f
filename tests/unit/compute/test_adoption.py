# SPDX-License-Identifier: Apache-2.0

"""Stories of servers that Ironic has and the records lack."""

import pytest

from ironic_virt import virt
from ironic_virt.compute import errors
from ironic_virt.compute.adoption import adopt
from ironic_virt.compute.db.records import Instance
from ironic_virt.compute.states import TaskState
from tests.unit.compute.service_stage import FLAVOR, ServiceStage

VIF = virt.Vif("9d1c54a0-0000-4000-8000-000000000001")
HOW = {"kernel_id": "http://a/k", "ramdisk_id": "http://a/r", "ironic_ramdisk_deploy": "True"}
IMAGE = virt.ImageMeta("http://a/a.raw", "a1" * 16, "raw", HOW)


@pytest.fixture
def uuid(stage: ServiceStage) -> str:
    """An active instance that is younger than the restored backup."""
    uuid = stage.build(ports=(VIF,), image=IMAGE)
    with stage.db.engine.begin() as connection:
        for statement in (
            "DELETE FROM instances",
            "DELETE FROM instance_ports",
            "UPDATE compute_nodes SET instance_uuid = NULL",
        ):
            connection.exec_driver_sql(statement)
    stage.service.refresh()
    return uuid


def adopted(stage: ServiceStage, node: str) -> Instance:
    return adopt(stage.db, stage.ironic.driver._site.client, node, FLAVOR)


def test_one_is_as_before_and_can_be_deleted(stage, nodes, uuid) -> None:
    before = stage.fake.node(nodes[0])
    found = adopted(stage, nodes[0])
    assert stage.fake.node(nodes[0]) == before
    assert (found.uuid, found.name, found.host, found.node) == (uuid, "web", "compute1", nodes[0])
    assert (found.vm_state, found.power_state) == ("active", virt.PowerState.RUNNING)
    assert (found.image, found.ports, found.flavor) == (IMAGE, (VIF,), FLAVOR)
    stage.service.sync_power()
    assert stage.state(uuid) == ("active", None)
    stage.do(uuid, TaskState.DELETING)
    assert stage.state(uuid) == ("deleted", None)
    stage.fake.advance(60)
    stage.nobody_has(nodes)


def test_what_can_not_be_adopted_is_left_alone(stage, nodes, uuid) -> None:
    with pytest.raises(errors.InvalidRequest, match="no server is deployed there"):
        adopted(stage, nodes[1])
    unknown = stage.fake.add_node(provision_state="active", instance_uuid=VIF.id)
    with pytest.raises(errors.ComputeNodeNotFound):
        adopted(stage, unknown)
    stage.fake.set_node(nodes[0], power_state="power off")
    assert adopted(stage, nodes[0]).vm_state == "stopped"
    with pytest.raises(errors.ComputeNodeInUse):
        adopted(stage, nodes[0])
    assert [one.uuid for one in stage.db.instances.list()] == [uuid]
