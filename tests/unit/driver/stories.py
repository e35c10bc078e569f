# SPDX-License-Identifier: Apache-2.0

"""Acts of a compute service, on what they are tried, and what they leave."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from ironic_virt import exceptions, virt
from ironic_virt.driver.resources import REBUILD_MARK
from ironic_virt.driver.volumes import MARK as WHOSE
from ironic_virt.testing.fake_ironic import Durations, FakeIronic
from tests.unit.driver import stage
from tests.unit.driver.stage import VIF, Stage

Act = Callable[[Stage, str], object]

DURATIONS = Durations(
    deploy=5, undeploy=3, clean=30, power=2, allocate=0.3, rescue=5, unrescue=5, console=3
)
OTHER_VIF = virt.Vif("5f1f0000-0000-4000-8000-000000000002")
VOLUMES = [
    virt.BlockDevice(name, index, {"driver_volume_type": "iscsi", "data": {"target_lun": index}})
    for index, name in enumerate(("root", "data"))
]


@dataclasses.dataclass(frozen=True)
class Place:
    """Where something is tried.

    :ivar options: of the service.
    :ivar fields: of the node.
    :ivar nodes: how many there are; the first one is meant unless Ironic picks.
    """

    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    fields: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    nodes: int = 1

    def ironic(self) -> tuple[FakeIronic, str]:
        """A new Ironic, and its first node."""
        fake = FakeIronic(durations=DURATIONS)
        fields = {"ports": 2, "resource_class": "gold", **self.fields}
        return fake, fake.add_nodes(self.nodes, **fields)[0]


PLAIN = Place()
POOLS = Place(options={"node_selection": "ironic"}, nodes=3)
PROJECTS = Place(options={"project_fields": "lessee"})
STORAGE = Place(fields={"storage_interface": "external"})
CONSOLE = Place(
    fields={
        "console_interface": "ipmitool-socat",
        "driver_info": {"ipmi_address": "192.0.2.7", "ipmi_terminal_port": 10023},
    }
)


def instance(stage: Stage, node: str) -> virt.Instance:
    """Our instance; if Ironic picks, a pool was chosen for it and no node."""
    if stage.conf.ironic.node_selection == "ironic":
        node = "gold~compute1"
    flavor = virt.Flavor("bm", root_gb=10, extra_specs={"resources:CUSTOM_GOLD": "1"})
    return stage.instance(node, flavor=flavor, project_id="project-one")


def of_instance(act: stage.Act) -> Act:
    """What is done to our instance, wherever it is."""
    return lambda there, node: act(there, instance(there, node))


reserve = of_instance(Stage.reserve)
spawn = of_instance(Stage.spawn)
rescue = of_instance(Stage.rescue)
unrescue = of_instance(Stage.unrescue)
destroy = of_instance(lambda there, ours: there.driver.destroy(ours))
clean_up = of_instance(lambda there, ours: there.driver.failed_spawn_cleanup(ours))
reboot = of_instance(lambda there, ours: there.driver.reboot(ours, "HARD"))
attach = of_instance(lambda there, ours: there.driver.attach_interface(ours, OTHER_VIF))
detach = of_instance(lambda there, ours: there.driver.detach_interface(ours, OTHER_VIF))


def boot_from_volume(stage: Stage, node: str) -> None:
    ours = instance(stage, node)
    stage.driver.prepare_for_spawn(ours)
    stage.driver.spawn(
        virt.DeployRequest(ours, virt.ImageMeta(""), [virt.Vif(VIF)], block_devices=VOLUMES)
    )


def reserve_and_configure(stage: Stage, node: str) -> None:
    """Reserved, configured, a VIF attached, and then no more."""
    reserve(stage, node)
    faults = stage.fake.faults
    faults.status(400, "PUT", "/provision$", body="not now")
    faults.status(503, "PATCH", count=None, when=releases)
    with pytest.raises(exceptions.DeployFailed, match="not now"):
        spawn(stage, node)
    faults.clear()
    stage.fake.requests.clear()


def releases(method: str, path: str, patch: list[dict[str, Any]]) -> bool:
    """Whether a patch takes an instance off its node."""
    return {"op": "remove", "path": "/instance_uuid"} in patch


def spawn_in_vain(stage: Stage, node: str) -> None:
    with pytest.raises(exceptions.DeployFailed, match="disk broken"):
        spawn(stage, node)


def rebuild(stage: Stage, node: str) -> None:
    stage.fake.advance(60)
    stage.rebuild(instance(stage, node))


def rebuild_in_vain(stage: Stage, node: str) -> None:
    with pytest.raises(exceptions.RebuildFailed, match="disk broken"):
        rebuild(stage, node)


def open_console(stage: Stage, node: str) -> None:
    address = stage.driver.get_serial_console(instance(stage, node))
    assert (address.host, address.port) == ("127.0.0.1", 10023)


def deployments_fail(stage: Stage, node: str) -> None:
    stage.fake.fail_next("deploy", "disk broken", node)


def nothing(stage: Stage, node: str) -> None:
    pass


def several(*acts: Act) -> Act:
    """One act after the other."""

    def all_of_them(stage: Stage, node: str) -> None:
        for act in acts:
            act(stage, node)

    return all_of_them


def left(stage: Stage) -> dict[str, Any]:
    """All that is in Ironic, but for when it came there and which of like nodes it is."""
    store = stage.fake.bm.store
    nodes = []
    for one in stage.fake.nodes():
        seen = stage.trace(one["uuid"])
        told = dict(seen["instance_info"])
        if mark := told.pop(REBUILD_MARK, None):
            told["wish"] = mark["wish"]
        if drive := told.get("configdrive"):
            # The network data has the addresses of the one node.
            told["configdrive"] = drive["meta_data"]
        more = {
            name: stage.fake.node(one["uuid"])[name] for name in ("lessee", "extra", "protected")
        }
        consoles = {"console_enabled": stage.fake.node(one["uuid"])["console_enabled"]}
        targets = sorted(
            (target.boot_index, target.volume_id, target.extra.get(WHOSE))
            for target in store.targets
            if target.node.uuid == one["uuid"]
        )
        nodes.append({**seen, "instance_info": told, **more, **consoles, "targets": targets})
    allocations = [(one["uuid"], one["state"]) for one in stage.fake.allocations()]
    return {"nodes": sorted(nodes, key=repr), "allocations": allocations}
