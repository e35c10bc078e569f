# SPDX-License-Identifier: Apache-2.0

"""Stories of instances with volumes in the reference service."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from ironic_virt import virt
from ironic_virt.compute.db import models, records
from ironic_virt.compute.errors import ConflictingRequest, InvalidRequest
from ironic_virt.compute.requests import Requests
from ironic_virt.compute.states import TaskState
from ironic_virt.driver.volumes import MARK
from ironic_virt.testing.fake_ironic import FakeIronic
from tests.unit.compute.conftest import SetStage
from tests.unit.compute.service_stage import FLAVOR, ServiceStage, new_uuid
from tests.unit.driver.stage import IMAGE

CHAP_SECRET = "chap-secret-0815"
NO_IMAGE = virt.ImageMeta("")
STORAGE = {"resource_class": "gold", "ports": 1, "storage_interface": "external"}


def volume(volume_id: str, index: int) -> virt.BlockDevice:
    data = {
        "target_portal": "192.0.2.5:3260",
        "target_iqn": f"iqn.2026-01.test:{volume_id}",
        "target_lun": 1,
        "auth_method": "CHAP",
        "auth_username": "user",
        "auth_password": CHAP_SECRET,
    }
    return virt.BlockDevice(volume_id, index, {"driver_volume_type": "iscsi", "data": data})


ROOT, DATA = volume("root", 0), volume("data", 1)
BOTH: dict[str, Any] = {"image": NO_IMAGE, "volumes": (ROOT, DATA)}


@pytest.fixture
def nodes(fake: FakeIronic) -> list[str]:
    return fake.add_nodes(2, **STORAGE)


@pytest.fixture
def stage(set_stage: SetStage, nodes: list[str]) -> ServiceStage:
    return set_stage().begin()


def targets(fake: FakeIronic, *nodes: str) -> list[tuple[int, str, str | None]]:
    """The targets on nodes: boot index, volume, whose."""
    return sorted(
        (row.boot_index, row.volume_id, row.extra.get(MARK))
        for row in fake.bm.store.targets
        if row.node.uuid in nodes
    )


def kept(stage: ServiceStage, uuid: str) -> Any:
    """How to connect to an instance's volumes, as its row has it."""
    column = models.Instance.volume_connections
    with stage.db._transactions.engine.connect() as connection:
        return connection.scalar(sa.select(column).where(models.Instance.uuid == uuid))


def test_it_boots_from_a_volume_and_what_is_secret_is_forgotten_then(
    stage: ServiceStage, fake: FakeIronic, nodes: list[str]
) -> None:
    uuid = stage.create(nodes[0], **BOTH)
    assert stage.db.instances.block_devices(uuid) == (ROOT, DATA)
    stage.look()
    assert stage.state(uuid) == ("active", None)
    assert targets(fake, *nodes) == [(0, "root", uuid), (1, "data", uuid)]
    assert "image_source" not in fake.node(nodes[0])["instance_info"]
    properties = [row.properties for row in fake.bm.store.targets]
    assert properties == [one.connection_info["data"] for one in (ROOT, DATA)]
    assert kept(stage, uuid) is None
    assert stage.db.instances.block_devices(uuid) is None
    found = stage.instance(uuid)
    assert [(one.volume_id, one.boot_index) for one in found.volumes] == [("root", 0), ("data", 1)]
    stage.db.instances.request(uuid, TaskState.DELETING)
    stage.look()
    assert stage.state(uuid) == ("deleted", None)
    assert targets(fake, *nodes) == []
    assert len(stage.instance(uuid).volumes) == 2, "history keeps it"


def test_an_image_and_a_volume_for_data(
    stage: ServiceStage, fake: FakeIronic, nodes: list[str]
) -> None:
    uuid = stage.create(nodes[0], volumes=(DATA,))
    stage.look()
    assert targets(fake, nodes[0]) == [(1, "data", uuid)]
    assert fake.node(nodes[0])["instance_info"]["image_source"] == IMAGE.id


def test_a_build_that_fails_goes_on_elsewhere_with_its_volumes(
    stage: ServiceStage, fake: FakeIronic, nodes: list[str]
) -> None:
    fake.fail_next("deploy", "disk broken", nodes[0])
    uuid = stage.create(nodes[0], **BOTH)
    stage.look(2)
    assert (stage.state(uuid), stage.instance(uuid).node) == (("active", None), nodes[1])
    assert targets(fake, nodes[0]) == []
    assert targets(fake, nodes[1]) == [(0, "root", uuid), (1, "data", uuid)]


def test_a_build_that_can_not_work_leaves_no_volume_and_no_secret(
    stage: ServiceStage, fake: FakeIronic, nodes: list[str]
) -> None:
    for node in nodes:
        fake.invalidate(node, "storage", "no iSCSI connectors are configured")
    uuid = stage.create(nodes[0], **BOTH)
    stage.look(3)
    assert stage.state(uuid) == ("error", None)
    assert "no iSCSI connectors" in stage.fault(uuid)
    assert targets(fake, *nodes) == []
    assert kept(stage, uuid) is None
    stage.nobody_has(nodes)


def test_a_node_that_connects_nothing_is_left_alone(stage: ServiceStage, fake: FakeIronic) -> None:
    node = fake.add_node(resource_class="silver", ports=1, storage_interface="noop")
    stage.service.refresh()
    flavor = virt.Flavor("bm", extra_specs={"resources:CUSTOM_SILVER": "1"})
    uuid = stage.create(node, flavor=flavor, **BOTH)
    stage.look()
    assert stage.state(uuid) == ("error", None)
    assert "storage interface is 'noop'" in stage.fault(uuid)
    stage.nobody_has([node])


def test_what_is_secret_is_kept_while_it_is_to_be_built_and_not_when_it_is_to_be_deleted(
    stage: ServiceStage, fake: FakeIronic, nodes: list[str]
) -> None:
    uuid = stage.create(nodes[0], **BOTH)
    rule = fake.faults.status(503, "PUT", "/states/provision$", count=None)
    stage.look()
    assert stage.state(uuid) == ("building", "spawning")
    assert rule.hits
    assert kept(stage, uuid) == [one.connection_info for one in (ROOT, DATA)]
    stage.db.instances.request(uuid, TaskState.DELETING)
    assert kept(stage, uuid) is None
    fake.faults.clear()
    stage.look(2)
    assert stage.state(uuid) == ("deleted", None)
    assert targets(fake, *nodes) == []
    stage.nobody_has(nodes)


def test_a_delete_that_comes_while_the_volumes_are_looked_up_ends_the_build(
    stage: ServiceStage, nodes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    uuid = stage.create(nodes[0], **BOTH)
    look_up = stage.db.instances.block_devices

    def deleted_meanwhile(uuid: str) -> Any:
        if stage.instance(uuid).task_state == "spawning":
            stage.db.instances.request(uuid, TaskState.DELETING)
        return look_up(uuid)

    monkeypatch.setattr(stage.db.instances, "block_devices", deleted_meanwhile)
    stage.look(2)
    assert stage.state(uuid) == ("deleted", None)
    assert not stage.ironic.provision_requests("active")
    stage.nobody_has(nodes)


def test_one_that_boots_from_a_volume_is_not_rebuilt(
    stage: ServiceStage, fake: FakeIronic, nodes: list[str]
) -> None:
    uuid = stage.create(nodes[0], **BOTH)
    stage.look()
    before = stage.instance(uuid), fake.node(nodes[0]), targets(fake, nodes[0])
    for image in (None, IMAGE):
        with pytest.raises(ConflictingRequest, match="it boots from a volume, which Ironic can't"):
            stage.db.instances.request(uuid, TaskState.REBUILDING, image=image)
    assert (stage.instance(uuid), fake.node(nodes[0]), targets(fake, nodes[0])) == before


def test_a_volume_for_data_stays_through_a_rebuild(
    stage: ServiceStage, fake: FakeIronic, nodes: list[str]
) -> None:
    uuid = stage.create(nodes[0], volumes=(DATA,))
    stage.look()
    stage.db.instances.request(uuid, TaskState.REBUILDING)
    stage.look()
    assert stage.state(uuid) == ("active", None)
    assert stage.ironic.provision_requests("rebuild") == 1
    assert targets(fake, nodes[0]) == [(1, "data", uuid)]


def test_what_a_tear_down_has_left_is_looked_for_when_the_build_goes_on(
    stage: ServiceStage, set_stage: SetStage, fake: FakeIronic, nodes: list[str]
) -> None:
    """The node came off the instance, and the process died before it had looked."""
    uuid = stage.create(nodes[0], **BOTH)
    body = {"node_uuid": nodes[0], "volume_type": "iscsi", "volume_id": "root", "boot_index": 0}
    stage.ironic.channel.send(
        "POST", "/volume/targets", json=body | {"extra": {MARK: uuid}}, version="1.38"
    )
    fake.set_node(nodes[0], maintenance=True)
    stage.look()
    assert targets(fake, nodes[0]) == []
    assert stage.instance(uuid).node == nodes[1]


def test_where_ironic_picks_the_node_it_has_its_volumes_there(
    set_stage: SetStage, fake: FakeIronic, nodes: list[str]
) -> None:
    stage = set_stage(ironic={"node_selection": "ironic"}).begin()
    (pool,) = stage.db.pools.list()
    fake.fail_next("deploy", "disk broken")
    uuid = stage.create_in(pool.name, **BOTH)
    stage.look(3)
    assert stage.state(uuid) == ("active", None), stage.db.faults.latest(uuid)
    node = str(stage.instance(uuid).node)
    assert targets(fake, node) == targets(fake, *nodes) == [(0, "root", uuid), (1, "data", uuid)]
    stage.db.instances.request(uuid, TaskState.DELETING)
    stage.look(2)
    assert targets(fake, *nodes) == []


# -- asking -------------------------------------------------------------------


def new(**fields: Any) -> records.NewInstance:
    return records.NewInstance(uuid=new_uuid(), **({"flavor": FLAVOR} | BOTH | fields))


@pytest.fixture
def requests(stage: ServiceStage) -> Requests:
    return Requests(stage.conf, stage.db)


def test_a_volume_is_one_instances_until_that_is_deleted(
    stage: ServiceStage, requests: Requests
) -> None:
    (first,) = requests.create(new())
    with pytest.raises(InvalidRequest, match=f"instance {first.instance.uuid} has the volume dat"):
        requests.create(new(image=IMAGE, volumes=(DATA,)))
    stage.look()
    with pytest.raises(InvalidRequest, match="has the volume root"):
        requests.create(new())
    requests.delete(first.instance.uuid)
    stage.look()
    (again,) = requests.create(new(volumes=(ROOT,)))
    assert again.instance.vm_state == "building"
    assert len(stage.db.instances.list(deleted=None)) == 2


def test_several_can_not_share_a_volume(stage: ServiceStage, requests: Requests) -> None:
    with pytest.raises(InvalidRequest, match="several instances can't share volumes"):
        requests.create(new(), least=2)
    assert stage.db.instances.list() == []


def test_without_a_node_nothing_secret_is_kept(stage: ServiceStage, requests: Requests) -> None:
    flavor = virt.Flavor("bm", extra_specs={"resources:CUSTOM_NONE": "1"})
    (failed,) = requests.create(new(flavor=flavor))
    assert failed.instance.vm_state == "error"
    assert kept(stage, failed.instance.uuid) is None


def test_nothing_of_it_is_logged_or_shown(
    stage: ServiceStage, requests: Requests, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    wanted = new()
    (request,) = requests.create(wanted)
    devices = stage.db.instances.block_devices(request.instance.uuid)
    stage.look()
    shown = repr([wanted, request, devices, stage.instance(request.instance.uuid)])
    assert "volume_id='root'" in shown
    assert CHAP_SECRET not in caplog.text + shown
