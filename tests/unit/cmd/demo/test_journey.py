# SPDX-License-Identifier: Apache-2.0

"""The demo's journey: its checks, and its early ends.

What the commands ask for is asked of a real compute service without threads, over a
fake Ironic in virtual time.
"""

import io
from collections.abc import Callable

import pytest
from msgspec import structs

from ironic_virt import virt
from ironic_virt.baremetal.node import Node
from ironic_virt.cmd.demo.commands import DemoFailed, Display
from ironic_virt.cmd.demo.journey import Journey
from ironic_virt.compute.api import Requests
from ironic_virt.compute.db import records
from ironic_virt.compute.images import image
from ironic_virt.testing.fake_ironic import FakeIronic
from tests.unit.compute.conftest import SetStage
from tests.unit.compute.service_stage import ServiceStage, new_uuid


class Typist:
    """Does what a command would, with the service taking its turn right after.

    :ivar instead: what happens in a command's stead, by its first two words.
    """

    def __init__(self, stage: ServiceStage) -> None:
        self._stage = stage
        self._requests = Requests(stage.conf, stage.db, new_uuid=new_uuid)
        self.typed: list[tuple[str, ...]] = []
        self.instead: dict[str, Callable[[], None]] = {}

    def __call__(self, *argv: str) -> None:
        self.typed.append(argv)
        what = " ".join(argv[:2])
        if what in self.instead:
            self.instead[what]()
        elif what == "flavor create":
            name, _, resource_class = argv[2:]
            specs = {f"resources:CUSTOM_{resource_class.upper()}": "1"}
            self._stage.db.flavors.create(virt.Flavor(name, extra_specs=specs))
        elif what == "server create":
            options = dict(zip(argv[2:-2:2], argv[3:-2:2], strict=True))
            new = records.NewInstance(
                uuid=new_uuid(),
                flavor=self._stage.db.flavors.get(options["--flavor"]),
                image=image(options["--image"]),
                display_name=argv[-1],
            )
            self._requests.create(new, least=int(options.get("--min", "1")))
        elif argv[0] == "server" and argv[1] in ("reboot", "stop", "start", "delete"):
            for name in argv[2:]:
                if name != "--wait":
                    self._requests.ask(argv[1], name)
        self._stage.look()
        self._stage.service.refresh()


class Trip:
    """A journey, ready to go, and all that it leaves behind."""

    def __init__(self, stage: ServiceStage) -> None:
        self.stage = stage
        self.typist = Typist(stage)
        self.seen: Callable[[list[Node]], list[Node]] = lambda nodes: nodes
        self.journey = Journey(
            *(self.typist, stage.db, self, Display(io.StringIO())),
            pooled=False,
            clock=stage.fake.clock.now,
            sleep=self.sleep,
        )

    def sleep(self, _seconds: float) -> None:
        self.stage.fake.advance(5)
        self.stage.service.refresh()

    def list_nodes(self) -> list[Node]:
        return self.seen(self.stage.ironic.driver._site.client.list_nodes())

    def go(self) -> None:
        self.journey.go(3)


@pytest.fixture
def trip(fake: FakeIronic, set_stage: SetStage) -> Trip:
    fake.add_nodes(5, resource_class="baremetal")
    return Trip(set_stage().begin())


def test_a_command_that_fails_is_the_end(trip: Trip) -> None:
    def fail() -> None:
        raise DemoFailed("'ironic-virt server create' failed")

    trip.typist.instead["server create"] = fail
    with pytest.raises(DemoFailed, match="server create"):
        trip.go()
    assert trip.typist.typed[-1][:2] == ("server", "create")


def test_a_server_that_ironic_has_not_is_a_failure(trip: Trip) -> None:
    trip.seen = lambda nodes: [structs.replace(node, instance_uuid=None) for node in nodes]
    with pytest.raises(DemoFailed, match=r"demo-1 is active on node .* in Ironic on no node"):
        trip.go()


def test_a_server_that_stays_is_a_failure(trip: Trip) -> None:
    trip.typist.instead["server delete"] = lambda: None
    with pytest.raises(DemoFailed, match=r"after 300 s: node node-\d is active with server "):
        trip.go()


def test_a_node_that_cannot_be_cleaned_is_a_failure_and_says_why(trip: Trip) -> None:
    def fail(nodes: list[Node]) -> list[Node]:
        return [
            structs.replace(node, provision_state="clean failed", last_error="no more ink")
            if node.provision_state == "cleaning"
            else node
            for node in nodes
        ]

    trip.seen = fail
    with pytest.raises(DemoFailed, match=r"node-\d was not cleaned: no more ink"):
        trip.go()
