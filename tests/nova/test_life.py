# SPDX-License-Identifier: Apache-2.0

"""The life of a server, with Nova's in-tree driver and with ours."""

import pytest

from tests.nova import figures
from tests.nova.deployment import IMAGE, OTHER_IMAGE, Deployment

RUNNING = 1
PASSWORD = "correct horse battery"


class Life(Deployment, starts=True):
    """What both drivers go through."""

    def test_boot_reboot_stop_start_delete(self) -> None:
        (node,) = self.make_nodes(1)
        with self.step("start nova-compute, 1 node"):
            compute = self.start_service("compute", "compute1")
        with self.step("refresh, 1 node"):
            self.refresh(compute)
        with self.step("boot"):
            server = self.new_server()
        assert self.node_of(server) == node
        there = self.node(node)
        assert (there["provision_state"], there["instance_uuid"]) == ("active", server["id"])
        # Fake hardware is off after a deployment.
        assert there["power_state"] == "power off"
        for kind in ("SOFT", "HARD"):
            sent = len(self.counted.log)
            with self.step(f"reboot, {kind.lower()}", node):
                self.act(server, reboot={"type": kind})
                self.wait_for(server, "ACTIVE")
            asked = [line for line in self.counted.log[sent:] if line.startswith("ironic PUT")]
            assert asked == [f"ironic PUT /v1/nodes/{node}/states/power"]
            assert self.node(node)["power_state"] == "power on"
            assert self.server(server)["OS-EXT-STS:power_state"] == RUNNING
        with self.step("stop", node):
            self.act(server, **{"os-stop": None})
            self.wait_for(server, "SHUTOFF")
        assert self.node(node)["power_state"] == "power off"
        with self.step("start", node):
            self.act(server, **{"os-start": None})
            self.wait_for(server, "ACTIVE")
        assert self.node(node)["power_state"] == "power on"
        with self.step("delete", node):
            self.delete(server)
        assert self.wait_for_node(node, "available")["instance_uuid"] is None

    def test_rebuild(self) -> None:
        node = self.start_with_a_node()
        server = self.new_server()
        self.say_image_type(node)
        before = self.deployed_long_ago(node)
        with self.step("rebuild, API 2.92", node):
            self.rebuild(server, IMAGE)
            self.wait_for(server, "ACTIVE")
        there = self.node(node)
        assert (there["provision_state"], there["instance_uuid"]) == ("active", server["id"])
        assert there["provision_updated_at"] != before
        with self.step("stop, and rebuild, API 2.92", node):
            self.act(server, **{"os-stop": None})
            self.wait_for(server, "SHUTOFF")
            self.rebuild(server)
            self.until(
                lambda: self.node(node), lambda now: now["instance_info"]["image_source"] != IMAGE
            )
            self.wait_for(server, "SHUTOFF")
        assert self.node(node)["instance_info"]["image_source"] == OTHER_IMAGE
        assert self.server(server)["image"]["id"] == OTHER_IMAGE
        self.delete_and_free(server)

    def test_rescue(self) -> None:
        node = self.start_with_a_node()
        server = self.new_server()
        with self.step("rescue", node):
            self.act(server, rescue={"adminPass": PASSWORD})
            self.wait_for(server, "RESCUE")
        there = self.node(node)
        assert (there["provision_state"], there["instance_uuid"]) == ("rescue", server["id"])
        assert there["instance_info"]["rescue_password"] == "******"
        assert self.kept_by_ironic(node)["rescue_password"] == PASSWORD
        with self.step("unrescue", node):
            self.act(server, unrescue=None)
            self.wait_for(server, "ACTIVE")
        assert self.node(node)["provision_state"] == "active"
        # The rescue system is Ironic's: an image of the user's changes nothing.
        self.act(server, rescue={"rescue_image_ref": OTHER_IMAGE})
        self.wait_for(server, "RESCUE")
        there = self.node(node)
        assert (there["provision_state"], there["instance_uuid"]) == ("rescue", server["id"])
        assert there["instance_info"]["image_source"] == IMAGE
        # Nova makes a password where its user gives none.
        assert self.kept_by_ironic(node)["rescue_password"] not in (None, "", PASSWORD)
        assert PASSWORD not in self.stdlog.logger.output
        self.delete_and_free(server)

    def test_boot_with_a_network(self) -> None:
        node = self.start_with_a_node()
        with self.step("boot with a network"):
            server = self.new_server(networks=[{"port": self.neutron.port_1["id"]}])
        vifs = self.ironic("GET", f"/nodes/{node}/vifs")["vifs"]
        assert vifs == [{"id": self.neutron.port_1["id"]}]
        told = self.node(node)["instance_info"]
        # Nova's own driver of 2024.1 tells Ironic nothing of these.
        if self.driver == figures.OURS or "project_id" in told:
            assert told["project_id"] == self.server(server)["tenant_id"]
            assert self.neutron.port_1["fixed_ips"][0]["ip_address"] in told["fixed_ips"]
        with self.step("delete with a network", node):
            self.delete(server)
        self.wait_for_node(node, "available")
        assert self.ironic("GET", f"/nodes/{node}/vifs")["vifs"] == []


class SlowLife(Deployment, given="slow_ironic", starts=True):
    """A deployment that takes its time."""

    def test_boot_and_delete_one(self) -> None:
        node = self.start_with_a_node()
        with self.step(ONE):
            server = self.new_server()
        with self.step(ONE_DELETED, node):
            self.delete(server)
        self.wait_for_node(node, "available")

    def test_boot_five_at_once(self) -> None:
        self.make_nodes(COUNT)
        self.start_service("compute", "compute1")
        with self.step(MANY):
            servers = [self.boot(f"server-{number}") for number in range(COUNT)]
            for server in servers:
                self.wait_for(server, "ACTIVE")
        assert len({self.node_of(server) for server in servers}) == COUNT


COUNT = 5
ONE = "boot, the deployment takes 20 s"
ONE_DELETED = "delete, the teardown takes 20 s"
MANY = "boot 5, a deployment takes 20 s"


class TestLifeInTree(Life, driver=figures.IN_TREE):
    """Nova's own driver."""


class TestLife(Life, driver=figures.OURS):
    """Ours."""


class TestSlowLifeInTree(SlowLife, driver=figures.IN_TREE):
    """Nova's own driver."""


@pytest.mark.seldom
class TestSlowLife(SlowLife, driver=figures.OURS):
    """Ours."""


STEPS = frozenset(
    {
        "start nova-compute, 1 node",
        "refresh, 1 node",
        "boot",
        "reboot, soft",
        "reboot, hard",
        "stop",
        "start",
        "delete",
        "boot with a network",
        "delete with a network",
        "rebuild, API 2.92",
        "rescue",
        "unrescue",
        ONE,
        ONE_DELETED,
        MANY,
    }
)
"""What both drivers have to be compared in."""


PROTECTED = frozenset(
    {
        *("boot", "boot with a network", ONE, "delete", "delete with a network", ONE_DELETED),
        *("rebuild, API 2.92", "stop, and rebuild, API 2.92"),
    }
)
"""Steps in which ours puts protection on a node, or takes it off: its own request."""

LOOKED_UP = frozenset({"reboot, soft", "reboot, hard"})
"""Steps before which ours reads when the node was last switched, so as not to make them twice."""

UNSEEN = frozenset({"unrescue"})
"""Steps in which in-tree asks for a change of a node that it has not looked at."""

REBUILD = "rebuild, API 2.92"
"""After it a request takes the former image's data off the node."""

WAITS = {"rescue": 2}
"""How often a step waits, where that is more than once: Nova powers off before a rescue."""


@pytest.fixture
def compared() -> dict[str, tuple[figures.Figure, figures.Figure]]:
    """Theirs and ours, by step."""
    found = {step: (theirs, ours) for step, theirs, ours in figures.compared()}
    assert found.keys() >= STEPS, (
        f"run the scenarios of both drivers before it; missing: {sorted(STEPS - found.keys())}"
    )
    return {step: found[step] for step in STEPS}


Compared = dict[str, tuple[figures.Figure, figures.Figure]]


@pytest.mark.seldom
def test_no_step_takes_more_requests_to_ironic(compared: Compared) -> None:
    """Where in-tree changes a node without a look at it, ours looks, and less often later.

    Of several servers at once nobody can say which request is a look: how many there are in
    all is compared where a deployment takes 20 s.
    """
    more = {
        step: (theirs, ours)
        for step, (theirs, ours) in compared.items()
        if step != MANY
        and ours.steps > theirs.steps + (step in PROTECTED | LOOKED_UP) + (step == REBUILD)
        and not (step in UNSEEN and ours.ironic < theirs.ironic)
    }
    assert more == {}


@pytest.mark.seldom
def test_no_wait_looks_more_often_than_every_two_seconds(compared: Compared) -> None:
    """In-tree looks at once, then every 2 s, and once more when Nova asks for the state."""
    alone = {step: ours for step, (_, ours) in compared.items() if step != MANY}
    often = {
        step: ours
        for step, ours in alone.items()
        if ours.looks > 2 * WAITS.get(step, 1) + ours.seconds / 2
    }
    assert often == {}


@pytest.mark.seldom
@pytest.mark.parametrize(("step", "servers"), [(ONE, 1), (MANY, COUNT)])
def test_a_deployment_of_20_s_takes_half_the_requests(compared, step, servers) -> None:
    theirs, ours = compared[step]
    steps = servers * compared[ONE][0].steps
    # Where Ironic was slower for us than for them, they would have looked more often, too.
    longer = max(1.0, ours.seconds / theirs.seconds)
    # On a busy machine a look takes its time, and they come to fewer than one in 2 s.
    looks = max((theirs.ironic - steps) * longer, servers * ours.seconds / 2)
    assert ours.ironic <= (steps + looks) / 2
