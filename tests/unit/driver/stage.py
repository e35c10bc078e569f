# SPDX-License-Identifier: Apache-2.0

"""A stage for stories about the driver: the whole of it, over a fake Ironic in process.

Only the clocks are replaced: where the driver would sleep, the fake's
virtual clock moves on, so that a story takes no time and goes the same way
each time.
"""

from __future__ import annotations

import dataclasses
import json
import random
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from oslo_config import cfg

from ironic_virt import conf as ironic_virt_conf
from ironic_virt import exceptions, virt
from ironic_virt.baremetal.client import IronicClient
from ironic_virt.baremetal.http.connection import Answer, Channel
from ironic_virt.baremetal.http.retry import RetryPolicy
from ironic_virt.baremetal.waiting.watcher import Watcher
from ironic_virt.driver import IronicDriver
from ironic_virt.driver.claim import KEY_PREFIX
from ironic_virt.testing.fake_ironic import FakeIronic
from ironic_virt.testing.fake_ironic.faults import Fault
from tests.compute_service import VirtAPI
from tests.crashing import CrashingChannel
from tests.in_process import InProcessChannel

URL = "http://ironic.test"
INSTANCE = "6d2b4f02-0000-4000-8000-000000000001"
STRANGER = "6d2b4f02-0000-4000-8000-00000000beef"
VIF = "5f1f0000-0000-4000-8000-000000000001"
IMAGE = virt.ImageMeta("https://images.example.test/a.raw", checksum="ab" * 16)
OTHER_IMAGE = virt.ImageMeta("https://images.example.test/b.raw", checksum="cd" * 16)
# With it Ironic refuses a change before anything is done (39.0.0).
BUSY = "Requested action cannot be performed due to lack of free conductor workers."
SECRET = "correct horse battery staple"


def write_conf(directory: Path, host: str = "compute1", **options: Any) -> Path:
    """Write options as an operator would, over those of an earlier time."""
    lines = ["[DEFAULT]", f"host = {host}", "[ironic]", "auth_type = none"]
    lines += [f"endpoint_override = {URL}"]
    lines += [f"{name} = {value}" for name, value in options.items()]
    path = directory / f"{host}.conf"
    path.write_text("\n".join(lines) + "\n")
    return path


def make_conf(directory: Path, host: str = "compute1", **options: Any) -> cfg.ConfigOpts:
    """Options that are read from a file."""
    return ironic_virt_conf.load([str(write_conf(directory, host, **options))])


class Service(VirtAPI):
    """The least of a compute service, whose every answer a test may change.

    :ivar live: the hosts that are up.
    :ivar owned: the instances that this host has.
    :ivar owners: the hosts that the records give nodes to.
    :ivar tried: nodes on which an instance could not be deployed, by the instance's uuid.
    :ivar places: the compute nodes that the records put its instances on.
    :ivar image: what an instance is to be deployed from.
    :ivar has_drive: whether instances have a config drive.
    :ivar drive: the config drive that they have; by default it tells uuid and password.
    :ivar on_config_drive: called while one is made.
    :ivar on_existing: called when it is asked which instances exist.
    :ivar steps: what was reported.
    :ivar reports: each reported step with its detail.
    """

    def __init__(self, host: str = "compute1") -> None:
        super().__init__(host)
        self.live = [host]
        self.owned = {INSTANCE}
        self.owners: dict[str, str] = {}
        self.tried: dict[str, Collection[str]] = {}
        self.on_abort_question: Callable[[], None] | None = None
        self.places: dict[str, str] = {}
        self.image: virt.ImageMeta | None = IMAGE
        self.has_drive = True
        self.drive: virt.ConfigDrive | None = None
        self.on_config_drive: Callable[[], None] | None = None
        self.on_existing: Callable[[], object] = lambda: None
        self.steps: list[str] = []
        self.reports: list[str] = []

    def live_hosts(self) -> Collection[str]:
        return list(self.live)

    def owned_instance_uuids(self) -> Collection[str]:
        return set(self.owned)

    def node_owners(self, uuids: Collection[str]) -> Mapping[str, str]:
        return {uuid: self.owners[uuid] for uuid in uuids if uuid in self.owners}

    def instance_places(self) -> Mapping[str, str]:
        return dict.fromkeys(self.owned, "") | self.places

    def existing_instances(self, uuids: Collection[str]) -> Collection[str]:
        self.on_existing()
        return (self.owned | self.hosts.keys()).intersection(uuids)

    def tried_nodes(self, instance: virt.InstanceLike) -> Collection[str]:
        return self.tried.get(instance.uuid, ())

    def image_of(self, instance: virt.InstanceLike) -> virt.ImageLike | None:
        return self.image

    def abort_reason(self, instance: virt.InstanceLike) -> str | None:
        if self.on_abort_question is not None:
            self.on_abort_question()
        return self.unwanted if instance.uuid == INSTANCE else None

    def config_drive(self, request: virt.DeployRequest) -> virt.ConfigDrive | None:
        if self.on_config_drive is not None:
            self.on_config_drive()
        if not self.has_drive:
            return None
        told = {"uuid": request.instance.uuid, "admin_pass": request.admin_password}
        return self.drive or virt.ConfigDrive(meta_data=told)

    def report_progress(self, instance: virt.InstanceLike, step: str, detail: str = "") -> None:
        self.steps.append(step if instance.uuid == INSTANCE else f"{step} {instance.uuid}")
        self.reports.append(f"{step}: {detail}")


def meanwhile(act: Callable[[], object], *, hits: bool = False) -> Callable[..., bool]:
    """For ``when`` of a fault: something happens as a request comes in.

    :param hits: whether the request then meets the fault.
    """

    def when(*_: Any) -> bool:
        act()
        return hits

    return when


def just_before(fake: FakeIronic, act: Callable[[], object]) -> None:
    """Have something happen as the next request for a provision state comes in."""
    handle = fake.handle

    def late(method: str, path: str, *more: Any) -> Any:
        if path.endswith("/states/provision"):
            fake.handle = handle  # type: ignore[method-assign]
            act()
        return handle(method, path, *more)

    fake.handle = late  # type: ignore[method-assign]


def find_locked(fake: FakeIronic, method: str, path: str = "", **rule: Any) -> Fault:
    """Have requests find their node locked."""
    text = "Node 1 is locked by host a, please retry after the current operation is completed."
    return fake.faults.status(409, method, path, text, **rule)


def taken(fake: FakeIronic, kind: str = "provision", key: str = "target") -> list[Any]:
    """What changes of a state Ironic was asked for, and took on."""
    asked = fake.requests.matching("PUT", f"/states/{kind}$")
    return [entry.body[key] for entry in asked if entry.status == 202]


_STEP = 2.0
"""Seconds of the fake's clock that pass at a time."""


class _VirtualPauses:
    """Moves the fake's clock on where the watcher would wait.

    The poller moves it only after the caller has seen all that was news, so
    that both take turns: the same requests each time.
    """

    def __init__(self, fake: FakeIronic, check: Callable[[], None]) -> None:
        self._fake = fake
        self._check = check
        self._idle = 0
        self._ready = False

    def __call__(self, condition: threading.Condition, seconds: float | None) -> None:
        if threading.current_thread().name != "ironic-virt-watcher":
            self._check()
            self._idle += 1
            condition.wait(0.001)
            return
        if self._ready and seconds is not None:
            self._ready = False
            # Not past what others sleep for: it is asked again what is left.
            self._fake.advance(min(seconds, _STEP))
            return
        # How long is asked again when the caller is idle: it may be another wait's.
        before = self._idle
        condition.wait(0.002)
        self._ready = self._idle > before


Edit = Callable[[str, str, dict[str, Any]], None]
"""Given method, path and a node as Ironic shows it; changes what is shown."""


class _EditedChannel:
    """Shows nodes as a test wants them."""

    def __init__(self, channel: Channel, edits: Sequence[Edit]) -> None:
        self._channel = channel
        self._edits = edits

    def send(self, method: str, path: str, **request: Any) -> Answer:
        answer = self._channel.send(method, path, **request)
        if not self._edits or answer.status >= 300 or not answer.body:
            return answer
        shown = json.loads(answer.body)
        for node in shown.get("nodes", [shown]):
            for edit in list(self._edits):
                edit(method, path, node)
        return dataclasses.replace(answer, body=json.dumps(shown).encode())


@dataclasses.dataclass
class Stage:
    """A driver, its service and its options over a fake Ironic.

    :ivar pauses: the seconds for which the driver itself has slept, outside of the watcher.
    """

    fake: FakeIronic
    conf: cfg.ConfigOpts
    service: Service = dataclasses.field(default_factory=Service)
    crash_at: int = 0
    crash_after: bool = False
    stopping: bool = False
    edits: list[Edit] = dataclasses.field(default_factory=list)
    pauses: list[float] = dataclasses.field(default_factory=list)

    def __post_init__(self) -> None:
        channel = InProcessChannel(self.fake, URL)
        self.channel = CrashingChannel(channel, self.crash_at, self.crash_after)
        clock = self.fake.clock.now
        retry = RetryPolicy(
            self.conf.ironic.api_max_retries,
            float(self.conf.ironic.api_retry_interval),
            clock=clock,
            sleep=self.fake.advance,
            rng=random.Random(0),
        )
        channel = _EditedChannel(self.channel, self.edits)
        domain = self.conf.ironic.failure_domain
        client = IronicClient(channel, retry, failure_domain=domain)
        watcher = Watcher(
            client.single_try(),
            node_filter=lambda: self.driver._site.nodes.ownership.target.node_filter(),
            interval=float(self.conf.ironic.api_retry_interval),
            clock=clock,
            rng=random.Random(0),
            pause=_VirtualPauses(self.fake, self.channel.check),
        )
        self.driver = IronicDriver(
            self.conf, self.service, client=client, watcher=watcher, clock=clock, pause=self._pause
        )

    def _pause(self, seconds: float) -> bool:
        self.channel.check()
        self.pauses.append(seconds)
        self.fake.advance(seconds)
        return self.stopping

    def restarted(self) -> Stage:
        """Return the stage after a restart of the service, on the same Ironic."""
        return Stage(self.fake, self.conf, self.service)

    def set_options(self, **options: Any) -> None:
        """What an operator does to have other options in force: writes them, and says so."""
        write_conf(Path(self.conf.config_file[0]).parent, self.service.host, **options)
        self.conf.mutate_config_files()

    def refresh(self) -> list[str]:
        """The compute nodes as a refresh finds them."""
        return self.driver.get_available_nodes(refresh=True)

    def instance(self, node: str | None, **fields: Any) -> virt.Instance:
        """Our instance, placed on a node."""
        flavor = virt.Flavor("bm", vcpus=8, memory_mb=16384, root_gb=100)
        values = {"uuid": INSTANCE, "name": "instance-1", "host": "compute1", "flavor": flavor}
        return virt.Instance(node=node, **(values | fields))

    def while_it_is(self, state: str, node: str, act: Callable[[], object]) -> None:
        """Have something happen while a node is waited for, in a provision state."""

        def hook() -> None:
            seen = {one["uuid"]: one["provision_state"] for one in self.fake.nodes()}
            if seen.get(node) == state:
                act()

        self.service.on_abort_question = hook

    def ironic_gives_up(self, node: str, at: str, then: str, reason: str | None) -> None:
        """Have Ironic give up waiting for a node: it says why when that is all over.

        :param at: the provision state in which it does.
        :param then: the one to which the node goes, and in which Ironic holds it.
        """

        def hook() -> None:
            seen = self.fake.node(node)
            if seen["provision_state"] == at:
                self.fake.set_node(node, provision_state=then, last_error=None)
                self.fake.lock_node(node)
            elif seen["provision_state"] == then:
                self.fake.set_node(node, last_error=reason)
                self.fake.unlock_node(node)
                self.service.on_abort_question = None

        self.service.on_abort_question = hook

    def active(self, node: str) -> virt.Instance:
        """Our instance, active on a node; what was asked and reported until then is forgotten."""
        placed = self.instance(node)
        self.spawn(placed)
        self.fake.advance(60)
        self.fake.requests.clear()
        self.service.steps.clear()
        self.service.reports.clear()
        return placed

    def reserve(self, instance: virt.Instance) -> None:
        """The first thing that a compute service does for a new instance."""
        self.driver.prepare_for_spawn(instance)

    def spawn(
        self,
        instance: virt.Instance,
        image: virt.ImageMeta = IMAGE,
        vifs: Sequence[virt.Vif] = (virt.Vif(VIF),),
    ) -> None:
        """What a compute service does to have an instance deployed."""
        self.reserve(instance)
        self.driver.spawn(virt.DeployRequest(instance, image, vifs, admin_password=SECRET))

    def fail_to_spawn(
        self, node: str, error: type[exceptions.NodeError], says: str | None = None, **more: Any
    ) -> Any:
        """Have a spawn of our instance fail, which leaves the node as it was; the error."""
        untouched = self.trace(node)
        with pytest.raises(error, match=says) as caught:
            self.spawn(self.instance(node), **more)
        assert (caught.value.node, caught.value.instance) == (node, INSTANCE)
        assert self.trace(node) == untouched
        return caught.value

    def die_while_it_deploys(self, instance: virt.Instance) -> None:
        """Spawn in a process that dies when it has asked for the deployment."""

        def dies() -> None:
            if self.provision_requests("active"):
                raise SystemExit

        self.service.on_abort_question = dies
        with pytest.raises(SystemExit):
            self.spawn(instance)
        self.service.on_abort_question = None

    def rebuild(
        self, instance: virt.Instance, image: virt.ImageMeta = OTHER_IMAGE, **more: Any
    ) -> None:
        """What a compute service does to have another image put on."""
        more = {"admin_password": SECRET, "request_id": "req-1", **more}
        self.driver.rebuild(virt.DeployRequest(instance, image, [virt.Vif(VIF)], **more))

    def rescue(self, instance: virt.Instance, password: str = SECRET) -> None:
        """What a compute service does to have a rescue system run."""
        self.driver.rescue(instance, password)

    def unrescue(self, instance: virt.Instance) -> None:
        """What a compute service does to have the instance's own system run again."""
        self.driver.unrescue(instance)

    def destroy(self, instance: virt.Instance) -> None:
        """What a compute service does to get rid of an instance."""
        self.driver.destroy(instance)

    def provision_requests(self, verb: str) -> int:
        """How many requests for a change of the provision state were taken."""
        return taken(self.fake).count(verb)

    def trace(self, node: str) -> dict[str, Any]:
        """All that an instance leaves on a node, and its state."""
        self.fake.settle()
        seen = self.fake.node(node)
        # When the instance got it, and how often it was written to, is not of interest.
        seen["instance_info"] = {
            **{k: v for k, v in seen["instance_info"].items() if not k.startswith(KEY_PREFIX)},
            **{k[:-12]: "" for k in seen["instance_info"] if k.startswith(KEY_PREFIX)},
        }
        kept = (
            "provision_state",
            "target_provision_state",
            "instance_uuid",
            "instance_info",
            "instance_name",
            "maintenance",
            "last_error",
            "reservation",
            "allocation_uuid",
        )
        return {key: seen[key] for key in kept} | {"vifs": self.fake.vifs(node)}


Act = Callable[[Stage, virt.Instance], object]
"""What is done to an instance."""

SetStage = Callable[..., Stage]
"""The fixture ``set_stage``: given a fake and options, makes a stage."""
