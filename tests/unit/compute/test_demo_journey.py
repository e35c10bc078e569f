# SPDX-License-Identifier: Apache-2.0

"""The demo's journey with a driver in memory: its order, its checks, its early ends."""

import io
import itertools
import signal
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from ironic_virt import exceptions, virt
from ironic_virt.baremetal.node import Node
from ironic_virt.compute.demo.display import PlainDisplay
from ironic_virt.compute.demo.errors import DemoFailed, Interrupted
from ironic_virt.compute.demo.interrupts import Interrupts
from ironic_virt.compute.demo.journey import Journey
from ironic_virt.compute.demo.progress import Board
from ironic_virt.compute.demo.report import Report
from ironic_virt.compute.demo.service import Service, pick_nodes


class Metal(virt.ComputeDriver):
    """A driver and the hardware behind it.

    Cleaning takes one look.  What is to go wrong is set by attributes.
    """

    def __init__(self, count: int) -> None:
        self.power = {f"n{number}": False for number in range(1, count + 1)}
        self.carried: dict[str, str] = {}
        self.cleaning: dict[str, str] = {}
        self.vifs: dict[str, list[str]] = {}
        self.calls: list[str] = []
        self.stopped = threading.Event()
        self.images: set[tuple[str | None, str | None]] = set()
        self.spawn_waits: Sequence[str] = ()
        self.spawn_fails: Sequence[str] = ()
        self.stays: set[str] = set()
        self.after_clean = "available"
        self.on_spawn: Any = lambda: None

    # the Ironic that the journey looks at

    def list_nodes(self) -> list[Node]:
        instances = {node: uuid for uuid, node in self.carried.items()}
        listed = [
            Node(
                uuid=uuid,
                name=f"node-{uuid}",
                provision_state="active" if uuid in instances else self.cleaning.get(uuid),
                power_state="power on" if on else "power off",
                instance_uuid=instances.get(uuid),
                last_error="no more ink" if self.cleaning.get(uuid) == "clean failed" else None,
            )
            for uuid, on in self.power.items()
        ]
        for uuid, state in self.cleaning.items():
            if state == "cleaning":
                self.cleaning[uuid] = self.after_clean
        return listed

    def list_vifs(self, uuid: str) -> list[str]:
        return self.vifs.get(uuid, [])

    # the driver

    def init_host(self, host: str) -> None: ...

    def cleanup_host(self, host: str) -> None:
        self.calls.append("cleanup_host")
        self.stopped.set()

    def manages_several_nodes(self) -> bool:
        return True

    def get_available_nodes(self, refresh: bool = False) -> list[str]:
        return list(self.power)

    def node_is_available(self, nodename: str) -> bool:
        return True

    def is_node_deleted(self, nodename: str) -> bool:
        return False

    def get_available_resource(self, nodename: str) -> virt.NodeResource:
        raise NotImplementedError

    def get_inventory(self, nodename: str) -> virt.NodeInventory:
        return inventory(taken=nodename in self.carried.values())

    def list_instances(self) -> list[str]:
        raise NotImplementedError

    def list_instance_uuids(self) -> list[str]:
        return list(self.carried)

    def instance_exists(self, instance: virt.InstanceLike) -> bool:
        return instance.uuid in self.carried

    def get_info(self, instance: virt.InstanceLike, use_cache: bool = True) -> virt.InstanceInfo:
        on = self.power[self.carried[instance.uuid]]
        return virt.InstanceInfo(virt.PowerState.RUNNING if on else virt.PowerState.SHUTDOWN)

    def prepare_for_spawn(self, instance: virt.InstanceLike) -> None:
        assert instance.node is not None
        assert instance.node not in self.carried.values()
        self.carried[instance.uuid] = instance.node

    def spawn(self, context: Any, instance: Any, image_meta: Any, *args: Any, **kw: Any) -> None:
        self.calls.append("spawn")
        self.images.add((image_meta.id, image_meta.checksum))
        self.on_spawn()
        if instance.display_name in self.spawn_waits:
            assert self.stopped.wait(30)
            raise exceptions.WaitCancelled(instance.node, instance.uuid, "stopped")
        if instance.display_name in self.spawn_fails:
            raise exceptions.DeployFailed(instance.node, instance.uuid, "disk broken")
        self.vifs[instance.node] = [vif.id for vif in kw["network_info"]]

    def failed_spawn_cleanup(self, instance: virt.InstanceLike) -> None: ...

    def destroy(self, context: Any, instance: virt.InstanceLike, *args: Any, **kw: Any) -> None:
        self.calls.append("destroy")
        if instance.display_name in self.stays:
            return
        node = self.carried.pop(instance.uuid)
        self.vifs.pop(node)
        self.power[node] = False
        self.cleaning[node] = "cleaning"

    def reboot(self, context: Any, instance: Any, network_info: Any, kind: str, *_: Any) -> None:
        self.calls.append(f"reboot {instance.display_name}")

    def power_off(self, instance: Any, timeout: int = 0, retry_interval: int = 0) -> None:
        self.calls.append(f"off {instance.display_name}")
        self.power[self.carried[instance.uuid]] = False

    def power_on(self, context: Any, instance: Any, *args: Any, **kw: Any) -> None:
        self.calls.append(f"on {instance.display_name}")
        self.power[self.carried[instance.uuid]] = True


def inventory(taken: bool = False, resource_class: str = "BAREMETAL") -> virt.NodeInventory:
    return virt.NodeInventory(
        resource_class=resource_class.lower(),
        placement_class=f"CUSTOM_{resource_class}",
        total=1,
        reserved=int(taken),
        traits=frozenset(),
        capabilities={},
    )


class Trip:
    """A journey, ready to go, and all that it leaves behind."""

    def __init__(self, metal: Metal, interrupts: Interrupts, **options: Any) -> None:
        self.metal = metal
        self.report = Report("fake")
        self.written = io.StringIO()
        board = Board()
        self.service = Service("demo", board)
        numbers = itertools.count(1)
        self.journey = Journey(
            metal,
            self.service,
            board,
            metal,
            PlainDisplay(self.written),
            interrupts,
            self.report,
            new_uuid=lambda: f"uuid-{next(numbers)}",
            **options,
        )

    def go(self, count: int = 3) -> None:
        self.journey.go(count)


@pytest.fixture
def interrupts() -> Iterator[Interrupts]:
    with Interrupts(sleep=lambda _: None) as interrupts:
        yield interrupts


@pytest.fixture
def trip(interrupts: Interrupts) -> Trip:
    return Trip(Metal(5), interrupts)


def states(nodes: Sequence[Any]) -> list[tuple[str, str | None]]:
    return [(node.provision_state, node.instance) for node in nodes]


def test_the_whole_way_there_and_back(trip: Trip) -> None:
    trip.go()
    report = trip.report
    assert states(report.nodes_before) == [("available", None)] * 5
    assert states(report.nodes_deployed) == [
        ("active", "demo-1"),
        ("active", "demo-2"),
        ("active", "demo-3"),
        ("available", None),
        ("available", None),
    ]
    assert states(report.nodes_after) == [("available", None)] * 5
    assert [one.name for one in report.instances] == ["demo-1", "demo-2", "demo-3"]
    assert all(len(one.vifs) == 1 for one in report.instances)
    assert len({one.vifs for one in report.instances}) == 3
    assert {one.power_state for one in report.instances} == {virt.PowerState.RUNNING}
    steps = ["deploy", "reboot", "power off", "power on", "list", "destroy", "clean"]
    assert list(report.seconds) == steps
    acts = ["reboot demo-1", "off demo-3", "on demo-3", *["destroy"] * 3, "cleanup_host"]
    assert trip.metal.calls[-len(acts) :] == acts
    assert list(trip.service.owned_instance_uuids()) == []


def test_the_image_has_a_checksum_for_its_url(trip: Trip) -> None:
    trip.go()
    ((href, checksum),) = trip.metal.images
    assert href is not None
    assert href.startswith("http://")
    assert checksum is not None
    assert len(checksum) == 64


def test_one_instance_is_rebooted_and_power_cycled_itself(trip: Trip) -> None:
    trip.go(1)
    assert {"reboot demo-1", "off demo-1"} <= set(trip.metal.calls)
    assert "Deploying 1 instance ..." in trip.written.getvalue()


def test_all_deployments_run_at_the_same_time(trip: Trip) -> None:
    # Nobody gets past the barrier alone.
    trip.metal.on_spawn = threading.Barrier(3, timeout=30).wait
    trip.go(3)
    assert states(trip.report.nodes_after) == [("available", None)] * 5


def test_a_failed_deployment_wakes_the_others_and_is_the_error(trip: Trip) -> None:
    trip.metal.spawn_waits = ("demo-1", "demo-3")
    trip.metal.spawn_fails = ("demo-2",)
    with pytest.raises(exceptions.DeployFailed, match="disk broken"):
        trip.go()
    assert "demo-2 on node-n2: failed (DeployFailed)" in trip.written.getvalue()
    assert not any(one.name.startswith("demo") for one in threading.enumerate())


def test_a_signal_wakes_whoever_waits(trip: Trip) -> None:
    trip.metal.spawn_waits = ("demo-1", "demo-2", "demo-3")
    main = threading.main_thread().ident
    assert main is not None
    trip.metal.on_spawn = lambda: (
        trip.metal.calls.count("spawn") == 3 and signal.pthread_kill(main, signal.SIGINT)
    )
    with pytest.raises(Interrupted):
        trip.go()
    assert trip.metal.calls[-1] == "cleanup_host"
    assert not any(one.name.startswith("demo") for one in threading.enumerate())


def test_an_instance_that_stays_is_a_failure(interrupts: Interrupts) -> None:
    trip = Trip(Metal(5), interrupts, cleaned_seconds=0.1)
    trip.metal.stays = {"demo-2"}
    with pytest.raises(DemoFailed, match="node-n2: not available again"):
        trip.go()


def test_a_node_that_can_not_be_cleaned_is_a_failure_with_its_reason(trip: Trip) -> None:
    trip.metal.after_clean = "clean failed"
    with pytest.raises(DemoFailed, match=r"node-n\d was not cleaned: no more ink"):
        trip.go()


def test_too_few_nodes_is_said_before_anything_is_touched(trip: Trip) -> None:
    trip.metal.carried = {f"foreign-{number}": f"n{number}" for number in (1, 2, 3)}
    with pytest.raises(DemoFailed, match="of 5 nodes 5 are CUSTOM_BAREMETAL, and 2 of those"):
        trip.go()
    assert trip.metal.calls == ["cleanup_host"]


def test_nodes_are_picked_among_the_free_of_the_class() -> None:
    offers = {
        "taken": inventory(taken=True),
        "gold": inventory(resource_class="GOLD"),
        "b": inventory(),
        "a": inventory(),
    }
    assert pick_nodes(offers, "CUSTOM_BAREMETAL", 2) == ["b", "a"]
    assert pick_nodes(offers, "CUSTOM_GOLD", 1) == ["gold"]
    with pytest.raises(DemoFailed, match="of 4 nodes 0 are CUSTOM_SILVER"):
        pick_nodes(offers, "CUSTOM_SILVER", 1)


def test_the_service_answers_the_driver(trip: Trip) -> None:
    flavor = virt.Flavor("baremetal")
    instance = virt.Instance("a", "instance-00000001", flavor, display_name="demo-1")
    service = trip.service
    service.add(instance)
    assert service.host == "demo"
    assert list(service.live_hosts()) == ["demo"]
    assert list(service.owned_instance_uuids()) == ["a"]
    assert service.instance_names(["a", "b"]) == {"a": "instance-00000001"}
    assert service.abort_reason(instance) is None
    drive = service.config_drive(
        None, instance, network_info=(), injected_files=(), admin_password=None
    )
    assert drive.meta_data["hostname"] == "demo-1"


def test_the_report_has_it_all(trip: Trip) -> None:
    trip.go()
    json = trip.report.to_json()
    assert json["ironic"] == {"kind": "fake", "version": None, "api_version": None}
    assert {key: len(nodes) for key, nodes in json["nodes"].items()} == {
        "before": 5,
        "deployed": 5,
        "after": 5,
    }
    assert json["nodes"]["after"][0] == {
        "uuid": "n1",
        "name": "node-n1",
        "provision_state": "available",
        "power_state": "power off",
        "instance_uuid": None,
    }
    assert json["instances"][0]["power_state"] == "RUNNING"
    assert json["seconds"].keys() >= {"deploy", "destroy"}
