# SPDX-License-Identifier: Apache-2.0

"""Volumes: what a storage gets to know of a node, a node's volume targets, and their end."""

import contextlib
import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from ironic_virt import exceptions, virt
from ironic_virt.baremetal.volumes import VolumeTarget
from ironic_virt.driver.volumes import FORMER_MARK, MARK, plan_targets
from ironic_virt.testing.fake_ironic import FakeIronic
from tests.unit.driver.stage import IMAGE, INSTANCE, STRANGER, VIF, Stage, meanwhile

CHAP_SECRET = "chap-secret-0815"
NO_IMAGE = virt.ImageMeta("")
MAC = "02:00:00:00:00:01"
Row = tuple[int, str, str | None]


def volume(
    volume_id: str, index: int, kind: str = "iscsi", secret: str | None = None
) -> virt.BlockDevice:
    data: dict[str, Any] = {"target_iqn": f"iqn.2026-01.test:{volume_id}", "target_lun": 1}
    if secret is not None:
        data["auth_password"] = secret
    info = {"driver_volume_type": kind, "data": data}
    return virt.BlockDevice(volume_id, index, info)


ROOT = volume("root", 0, secret=CHAP_SECRET)
DATA = volume("data", 1)
BOTH = [ROOT, DATA]


@pytest.fixture
def storage_node(fake: FakeIronic) -> str:
    """A free node that Ironic can connect volumes to."""
    return fake.add_node(ports=1, resource_class="gold", storage_interface="external")


def spawn(
    stage: Stage,
    node: str,
    devices: Sequence[virt.BlockDevice] = BOTH,
    image: virt.ImageMeta = NO_IMAGE,
) -> None:
    instance = stage.instance(node)
    stage.reserve(instance)
    stage.driver.spawn(virt.DeployRequest(instance, image, [virt.Vif(VIF)], block_devices=devices))


def destroy(stage: Stage, node: str) -> None:
    stage.driver.destroy(stage.instance(node))


def targets(fake: FakeIronic, node: str) -> list[Row]:
    """The targets on a node: boot index, volume, whose."""
    return sorted(
        (row.boot_index, row.volume_id, row.extra.get(MARK))
        for row in fake.bm.store.targets
        if row.node.uuid == node
    )


def post(stage: Stage, path: str, **body: Any) -> Any:
    """A request of an operator's."""
    answer = stage.channel.send("POST", path, json=body, version="1.38")
    assert answer.status in (201, 204), answer.body
    return json.loads(answer.body or b"null")


def set_target(stage: Stage, node: str, index: int, volume_id: str, **more: Any) -> None:
    """Somebody else sets a target."""
    about = {"volume_type": "iscsi", "boot_index": index, "volume_id": volume_id}
    post(stage, "/volume/targets", node_uuid=node, **about, **more)


def set_connectors(stage: Stage, node: str, *connectors: tuple[str, str]) -> None:
    for kind, ident in connectors:
        post(stage, "/volume/connectors", node_uuid=node, type=kind, connector_id=ident)


def of(*rows: tuple[int, str], owner: str | None = INSTANCE) -> list[Row]:
    return [(index, name, owner) for index, name in rows]


OURS = of((0, "root"), (1, "data"))


# -- a deployment -------------------------------------------------------------


def test_an_instance_boots_from_a_volume(stage, fake, storage_node) -> None:
    spawn(stage, storage_node)
    assert fake.node(storage_node)["provision_state"] == "active"
    assert targets(fake, storage_node) == OURS
    told = fake.node(storage_node)["instance_info"]
    assert "image_source" not in told
    assert told["display_name"] == "instance-1"
    root = next(row for row in fake.bm.store.targets if row.boot_index == 0)
    assert (root.volume_type, root.properties) == ("iscsi", ROOT.connection_info["data"])
    prefix = f"/v1/nodes/{storage_node}"
    steps = [f"{one.method} {one.path.removeprefix(prefix)}" for one in fake.requests]
    looks = ("GET ", "GET /v1/ports")
    assert [step for step in steps[steps.index("POST /vifs") :] if step not in looks] == [
        "POST /vifs",
        "GET /v1/volume/targets",
        "POST /v1/volume/targets",
        "PATCH ",
        # The last, so that nobody's request can deploy it without the rest.
        "POST /v1/volume/targets",
        "GET /validate",
        "PUT /states/provision",
        "PATCH ",
    ]
    destroy(stage, storage_node)
    assert targets(fake, storage_node) == []


def test_an_image_and_a_volume_for_data(stage: Stage, fake: FakeIronic, storage_node: str) -> None:
    spawn(stage, storage_node, [DATA], IMAGE)
    assert fake.node(storage_node)["instance_info"]["image_source"] == IMAGE.id
    assert targets(fake, storage_node) == of((1, "data"))


Fault = Callable[[FakeIronic, str], object]


def refused(fake: FakeIronic, node: str) -> object:
    return fake.faults.status(400, "POST", "/volume/targets$", nth=2, body="no such thing")


def invalid(interface: str) -> Fault:
    return lambda fake, node: fake.invalidate(node, interface, "no iSCSI connectors")


def deploying(fake: FakeIronic, node: str) -> object:
    return fake.fail_next("deploy", "storage is on fire", node)


def connecting_nothing(interface: str | None) -> Fault:
    return lambda fake, node: fake.set_node(node, storage_interface=interface)


UNCONNECTED = [virt.BlockDevice("v1", 0, {})]
FAILURES: dict[str, tuple[Fault, list[virt.BlockDevice], type[exceptions.NodeError], str]] = {
    "noop": (connecting_nothing("noop"), BOTH, exceptions.VolumeFailed, "storage interface is"),
    "unset": (connecting_nothing(None), BOTH, exceptions.VolumeFailed, "storage interface is"),
    "nobody": (lambda *_: None, UNCONNECTED, exceptions.VolumeFailed, "how to connect"),
    "Ironic": (refused, BOTH, exceptions.VolumeFailed, "no such thing"),
    "storage": (invalid("storage"), BOTH, exceptions.NodeValidationFailed, "iSCSI connectors"),
    "deploy": (invalid("deploy"), BOTH, exceptions.NodeValidationFailed, "iSCSI connectors"),
    "the deployment": (deploying, BOTH, exceptions.DeployFailed, "on fire"),
}


@pytest.mark.parametrize("why", FAILURES)
def test_what_fails_leaves_nothing(stage, fake, storage_node, why) -> None:
    fault, devices, error, says = FAILURES[why]
    untouched = stage.trace(storage_node)
    fault(fake, storage_node)
    with pytest.raises(error, match=says) as caught:
        spawn(stage, storage_node, devices)
    if isinstance(caught.value, exceptions.VolumeFailed):
        assert caught.value.volume == ("v1" if why == "nobody" else "root")
    if why in {"noop", "unset"}:
        assert caught.value.retriable
        assert not fake.requests.matching(".*", "/volume"), "it is left at once"
        assert not fake.requests.matching("POST", "/vifs$")
    assert stage.trace(storage_node) == untouched
    assert targets(fake, storage_node) == []


# -- what is there already ----------------------------------------------------


@pytest.mark.parametrize("power", ["power on", "power off"])
@pytest.mark.parametrize(
    ("devices", "image"), [(BOTH, NO_IMAGE), ([], IMAGE)], ids=["volumes", "an image"]
)
def test_leftovers_go_before_the_next_instance_comes(
    stage, fake, storage_node, power, devices, image
) -> None:
    """Ironic deletes none of a node that is on."""
    set_target(stage, storage_node, 0, "stale", extra={MARK: STRANGER})
    fake.set_node(storage_node, power_state=power)
    spawn(stage, storage_node, devices, image)
    assert targets(fake, storage_node) == (OURS if devices else [])


def test_an_operators_settings_stay_if_there_are_no_volumes(stage, fake, storage_node) -> None:
    set_target(stage, storage_node, 5, "site")
    spawn(stage, storage_node, [], IMAGE)
    destroy(stage, storage_node)
    assert targets(fake, storage_node) == of((5, "site"), owner=None)


def test_an_instance_with_volumes_gets_no_others(stage, fake, storage_node, caplog) -> None:
    set_target(stage, storage_node, 0, "site")
    set_target(stage, storage_node, 5, "other-site")
    spawn(stage, storage_node)
    assert targets(fake, storage_node) == OURS
    assert "that is not of instance" in caplog.text


@pytest.mark.parametrize("never_off", [False, True])
def test_a_node_that_keeps_a_volume_is_not_given_to_others(
    stage, fake, storage_node, never_off
) -> None:
    instance = stage.instance(storage_node)
    stage.reserve(instance)
    set_target(stage, storage_node, 0, "root", extra={MARK: INSTANCE})
    fake.set_node(storage_node, power_state="power on", disable_power_off=never_off)
    if not never_off:
        fake.faults.status(400, "DELETE", "/volume/targets/", body="power on")
    says = rf"still has a volume.*power.on.*node manage {storage_node}"
    with pytest.raises(exceptions.TearDownFailed, match=says):
        destroy(stage, storage_node)
    assert fake.node(storage_node)["instance_uuid"] == INSTANCE
    if never_off:
        # What the error says; Ironic deletes targets then.
        fake.set_node(storage_node, provision_state="manageable")
    destroy(stage, storage_node)
    assert fake.node(storage_node)["instance_uuid"] is None
    assert targets(fake, storage_node) == []


def test_leftovers_of_a_tear_down_go_before_the_next_deployment(stage, fake, storage_node, caplog):
    spawn(stage, storage_node)
    fake.set_node(storage_node, power_state="power on")
    destroy(stage, storage_node)
    assert "may still have volume targets" in caplog.text
    assert targets(fake, storage_node) == OURS
    fake.settle()
    other = stage.instance(storage_node, uuid=STRANGER)
    stage.reserve(other)
    stage.driver.spawn(virt.DeployRequest(other, IMAGE))
    assert targets(fake, storage_node) == []


def look_for_left(stage: Stage) -> None:
    stage.fake.settle()
    stage.fake.advance(stage.conf.ironic.inventory_full_resync_period + 1)
    stage.refresh()


@pytest.mark.parametrize(("power", "owned"), [("power on", []), ("power off", [INSTANCE])])
def test_what_is_left_on_a_free_node_is_deleted_after_a_while(
    stage, fake, storage_node, power, owned, monkeypatch
) -> None:
    """Its server is deleted, or shelved."""
    set_target(stage, storage_node, 5, "site")
    spawn(stage, storage_node, [], IMAGE)
    set_target(stage, storage_node, 0, "root", extra={MARK: INSTANCE})
    fake.faults.status(503, path="/volume/targets", count=None)
    destroy(stage, storage_node)
    fake.faults.clear()
    fake.settle()
    fake.set_node(storage_node, power_state=power)
    stage.service.owned.intersection_update(owned)
    monkeypatch.setattr(stage.service, "placeless", {*owned}.intersection)
    assert fake.node(storage_node)["instance_uuid"] is None
    restarted = stage.restarted()
    try:
        look_for_left(restarted)
        look_for_left(restarted)
    finally:
        restarted.driver.cleanup_host()
    assert targets(fake, storage_node) == of((5, "site"), owner=None)


def test_a_look_for_leftovers_resumes_where_it_stopped(stage: Stage, fake: FakeIronic) -> None:
    for _ in range(8):
        node = fake.add_node(storage_interface="external", power_state="power off")
        set_target(stage, node, 0, "root", extra={MARK: INSTANCE})
    stage.refresh()
    stage.service.owned.clear()
    is_slow = meanwhile(lambda: fake.advance(4), hits=True)
    fake.faults.status(503, "DELETE", "/volume/targets/", count=None, when=is_slow)
    tried: list[set[str]] = []
    for _ in range(3):
        fake.requests.clear()
        fake.advance(stage.conf.ironic.inventory_full_resync_period + 1)
        began = fake.clock.now()
        stage.refresh()
        assert fake.clock.now() - began < 15
        tried.append({entry.path for entry in fake.requests.matching("DELETE")})
    assert [len(some) for some in tried] == [3, 3, 3]
    assert len(set().union(*tried)) == 8
    fake.faults.clear()
    look_for_left(stage)
    assert not fake.bm.store.targets


@pytest.mark.parametrize("whose", ["somebody else's", "of a server being built", "unknown"])
def test_what_may_be_anothers_stays_on_a_free_node_that_stays_on(stage, fake, storage_node, whose):
    """Others may note a server, too, it may be about to get its node, or the records be away."""
    stage.refresh()
    extra = {FORMER_MARK: STRANGER} if whose == "somebody else's" else {MARK: INSTANCE}
    set_target(stage, storage_node, 0, "root", extra=extra)
    if whose == "unknown":
        stage.service.on_existing = lambda: 1 / 0
    fake.set_node(storage_node, power_state="power on")
    look_for_left(stage)
    look_for_left(stage)
    assert len(targets(fake, storage_node)) == 1
    assert fake.node(storage_node)["power_state"] == "power on"


def test_leftovers_on_a_node_that_was_not_got_are_deleted(stage, fake, storage_node) -> None:
    other = fake.add_node(storage_interface="external", power_state="power off")
    spawn(stage, storage_node)
    fake.set_node(storage_node, power_state="power off")
    set_target(stage, other, 0, "root", extra={MARK: INSTANCE})
    look_for_left(stage)
    assert targets(fake, other) == []
    assert targets(fake, storage_node) == OURS


def test_settings_of_an_older_version_go_with_their_instance(stage, fake, storage_node) -> None:
    stage.reserve(stage.instance(storage_node))
    set_target(stage, storage_node, 0, "root", extra={FORMER_MARK: INSTANCE})
    set_target(stage, storage_node, 1, "data", extra={FORMER_MARK: STRANGER})
    destroy(stage, storage_node)
    assert [row.volume_id for row in fake.bm.store.targets] == ["data"]


@pytest.mark.parametrize("end", ["destroy", "failed_spawn_cleanup", "finish_spawn"])
def test_volumes_are_looked_for_on_the_record_s_node(stage, fake, storage_node, end) -> None:
    set_target(stage, storage_node, 0, "root", extra={MARK: INSTANCE})
    with contextlib.suppress(exceptions.InstanceNotFound):
        getattr(stage.driver, end)(stage.instance(storage_node))
    assert targets(fake, storage_node) == []


def test_a_build_taken_off_its_node_leaves_no_volumes(stage, fake, storage_node) -> None:
    free = {"provision_state": "available", "instance_uuid": None, "power_state": "power off"}
    stage.while_it_is("deploying", storage_node, lambda: fake.set_node(storage_node, **free))
    with pytest.raises(exceptions.DeployFailed, match="took the server off"):
        spawn(stage, storage_node)
    assert targets(fake, storage_node) == []


@pytest.mark.parametrize(
    "whose", [{"instance_uuid": STRANGER, "provision_state": "active"}, {"shard": "theirs"}]
)
def test_a_node_that_is_anothers_by_now_is_left_alone(our_stage, our_node, whose) -> None:
    set_target(our_stage, our_node, 0, "root", extra={MARK: INSTANCE})
    our_stage.fake.set_node(our_node, storage_interface="external", **whose)
    destroy(our_stage, our_node)
    assert targets(our_stage.fake, our_node) == of((0, "root"))


def test_a_left_target_stays_if_a_lock_hid_its_nodes_new_owner(stage, fake, storage_node) -> None:
    set_target(stage, storage_node, 0, "root", extra={MARK: INSTANCE})
    fake.set_node(storage_node, power_state="power off")
    gone = meanwhile(lambda: fake.set_node(storage_node, instance_uuid=STRANGER), hits=True)
    fake.faults.status(409, "DELETE", "/targets/", "Node 1 is locked by host a", when=gone)
    destroy(stage, storage_node)
    assert len(fake.requests.matching("DELETE")) == 1
    assert targets(fake, storage_node) == of((0, "root"))


def test_a_node_that_is_gone_has_no_volumes(stage: Stage, fake: FakeIronic) -> None:
    fake.add_node()
    destroy(stage, STRANGER)
    destroy(stage, "gold~compute1")


@pytest.mark.parametrize(
    ("there", "wanted", "superfluous", "missing"),
    [
        (DATA, [DATA], False, False),
        (DATA, [volume("data", 2)], True, True),
        (DATA, [volume("data", 1, "fibre_channel")], True, True),
        (DATA, [volume("other", 1)], True, True),
        (DATA, [], True, False),
        (ROOT, [ROOT], True, True),
    ],
    ids=["the same", "index", "type", "volume", "not wanted", "a secret that is masked"],
)
def test_what_is_as_wanted_is_kept(there, wanted, superfluous, missing) -> None:
    properties = dict(there.connection_info["data"])
    if "auth_password" in properties:
        properties["auth_password"] = "******"
    target = VolumeTarget(
        "t1",
        there.connection_info["driver_volume_type"],
        there.volume_id,
        there.boot_index,
        properties,
        {MARK: INSTANCE},
    )
    left, added = plan_targets(INSTANCE, [target], wanted)
    assert (left == [target], added == wanted and bool(wanted)) == (superfluous, missing)


# -- the connector ------------------------------------------------------------


@pytest.mark.parametrize(
    ("connectors", "addresses", "found"),
    [
        ([], {}, {"host": "instance-1"}),
        (
            [("ip", "192.0.2.1"), ("iqn", "iqn.1")],
            {VIF: ["192.0.2.9"]},
            {"host": "192.0.2.1", "ip": "192.0.2.1", "initiator": "iqn.1"},
        ),
        (
            [("wwpn", "50:00:01"), ("wwpn", "50:00:02"), ("wwnn", "50:00:03")],
            {"elsewhere": ["2001:db8::1", "192.0.2.9"]},
            {
                "host": "192.0.2.9",
                "ip": "192.0.2.9",
                "wwpns": ["50:00:01", "50:00:02"],
                "wwnns": ["50:00:03"],
            },
        ),
        (
            [("mac", MAC)],
            {"elsewhere": ["192.0.2.8"], VIF: ["2001:db8::2"]},
            {"host": "2001:db8::2", "ip": "2001:db8::2"},
        ),
        (
            [("mac", "02:00:00:00:00:99")],
            {"elsewhere": ["192.0.2.8"]},
            {"host": "192.0.2.8", "ip": "192.0.2.8"},
        ),
    ],
    ids=["nothing", "ip and iqn", "wwpn, and any address", "mac", "mac of no VIF"],
)
def test_the_connector_is_what_a_volume_service_needs(stage, fake, connectors, addresses, found):
    node = fake.add_node(ports=0, properties={"cpu_arch": "x86_64"}, storage_interface="external")
    post(stage, "/ports", node_uuid=node, address=MAC)
    post(stage, f"/nodes/{node}/vifs", id=VIF)
    set_connectors(stage, node, *connectors)
    stage.service.addresses = addresses
    connector = stage.driver.get_volume_connector(stage.instance(node))
    assert connector == {
        "platform": "x86_64",
        "os_type": "baremetal",
        "multipath": False,
        **found,
    }


def test_a_port_group_with_the_address_comes_before_its_ports(stage, fake) -> None:
    node = fake.add_node(ports=0, storage_interface="external")
    bond = post(stage, "/portgroups", node_uuid=node, address=MAC)["uuid"]
    post(stage, "/ports", node_uuid=node, address="02:00:00:00:00:02", portgroup_uuid=bond)
    post(stage, f"/nodes/{node}/vifs", id=VIF)
    post(stage, "/ports", node_uuid=node, address=MAC)
    set_connectors(stage, node, ("mac", MAC.upper()))
    stage.service.addresses = {"elsewhere": ["192.0.2.8"], VIF: ["192.0.2.7"]}
    assert stage.driver.get_volume_connector(stage.instance(node))["ip"] == "192.0.2.7"


def test_in_a_pool_the_connector_is_of_the_instances_node(fake, set_stage, storage_node) -> None:
    stage = set_stage(fake, node_selection="ironic")
    set_connectors(stage, storage_node, ("iqn", "iqn.1"))
    instance = stage.instance("gold~compute1")
    with pytest.raises(exceptions.InstanceNotFound):
        stage.driver.get_volume_connector(instance)
    fake.set_node(storage_node, instance_uuid=INSTANCE)
    assert stage.driver.get_volume_connector(instance)["initiator"] == "iqn.1"


def test_a_node_that_ironic_does_not_have_has_no_connector(stage: Stage) -> None:
    with pytest.raises(exceptions.NodeNotAvailable):
        stage.driver.get_volume_connector(stage.instance(STRANGER))
