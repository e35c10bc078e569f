# SPDX-License-Identifier: Apache-2.0

"""Nova asks the driver about several nodes at a time, and its records are none the worse.

The same fleet lives through the same periods of ``nova-compute`` three times: with one worker
(``[compute] update_resources_max_workers``), with eight, and with eight that pass over nodes in
which nothing has changed.
"""

import contextlib
import itertools
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from nova import conf as nova_conf
from nova import context, objects

from ironic_virt.nova import virtapi
from ironic_virt.nova.driver import IronicDriver
from tests.nova.deployment import Deployment
from tools import real_ironic

pytestmark = pytest.mark.skipif(
    "update_resources_max_workers" not in nova_conf.CONF.compute,
    reason="this Nova sees to one node after the other",
)

HOST = "compute1"
WORKERS = 8
SILVER = "baremetal-silver"
LARGE = {"cpus": 64, "memory_mb": 262144, "local_gb": 1000, "cpu_arch": "x86_64"}
NOT_COMPARED = {"id", "created_at", "updated_at", "mapped"}
"""Which record came first, and when; Nova's tests map the first one of a host."""
Records = dict[tuple[str, str], Any]
"""By compute node and field, or what else is known of it."""
_PATIENCE = 60.0
_SHORT = 1e-5


@contextlib.contextmanager
def crowded() -> Iterator[None]:
    """Threads get into each other's way all the time, which makes all slow."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(_SHORT)
    try:
        yield
    finally:
        sys.setswitchinterval(usual)


class Meeting:
    """Lets threads into the driver as many at a time as there are workers.

    :ivar together: how many threads came in the period in which most did.
    """

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self.together = 0

    def expect(self, nodes: int) -> None:
        """A period begins; each node is asked for once."""
        together = min(self._workers, nodes)
        self._barrier = threading.Barrier(together, timeout=_PATIENCE)
        self._numbers = itertools.count()
        self._threads: set[int] = set()
        self._last = nodes - nodes % together

    def arrive(self) -> None:
        """Wait for the others; those that are left over go alone."""
        # By eventlet each period has its own thread.
        self._threads.add(threading.get_ident())
        self.together = max(self.together, len(self._threads))
        if next(self._numbers) < self._last:
            self._barrier.wait()


class Life(Deployment):
    """A fleet in its own Nova.

    :param workers: of ``nova-compute``.
    :param node_selection: of the driver; likewise ``node_refresh``.
    """

    def __init__(self, workers: int, node_selection: str, node_refresh: str) -> None:
        super().__init__("runTest")
        # The same nodes in each life.
        self.seeds = itertools.count(9000)
        self._workers = workers
        self._node_selection = node_selection
        self._node_refresh = node_refresh
        self._names: dict[str, str] = {}
        self.meeting = Meeting(workers)

    def runTest(self) -> None:  # noqa: N802 - unittest's name
        """Nothing: :meth:`periods` is asked from outside."""

    def start(self, ironic: real_ironic.RealIronic) -> None:
        """Start Nova, but for nova-compute."""
        self.flags(update_resources_max_workers=self._workers, group="compute")
        self.start_nova(
            ironic,
            node_selection=self._node_selection,
            node_refresh=self._node_refresh,
            api_retry_interval=1,
        )
        names, resource = IronicDriver.get_available_nodes, IronicDriver.get_available_resource

        def get_available_nodes(driver: IronicDriver, refresh: bool = False) -> list[str]:
            found = names(driver, refresh)
            self.meeting.expect(len(found))
            return found

        def get_available_resource(driver: IronicDriver, nodename: str) -> dict[str, Any]:
            if self._node_refresh == "all":
                self.meeting.arrive()
            return resource(driver, nodename)

        door = "ironic_virt.nova.driver.IronicDriver"
        self.stub_out(f"{door}.get_available_nodes", get_available_nodes)
        self.stub_out(f"{door}.get_available_resource", get_available_resource)

    def periods(self) -> Iterator[Records]:
        """Nova's records after each period."""
        plain = self.make_nodes(8)
        gpu = self.make_nodes(5, traits=["CUSTOM_GPU"])
        silver = self.make_nodes(4, resource_class=SILVER, properties=LARGE)
        for node in (plain[0], gpu[0]):
            self.ironic("PUT", f"/nodes/{node}/maintenance", {})
        self.ask_for(plain[1], "manage", "manageable")
        self.set_on_node(plain[1], retired=True)
        with crowded():
            compute = self.start_service("compute", HOST)
        yield self.records()

        servers = [self.boot_on(node) for node in (plain[3], plain[4], gpu[1])]
        for server in servers:
            self.wait_for(server, "ACTIVE")
        yield self.refreshed(compute)

        self.give_up(servers[:1])
        for nodes in (plain, silver):
            self.take_away(nodes, self.free(nodes)[-1:])
        self.make_nodes(2, resource_class=SILVER)
        self.make_nodes(1, traits=["CUSTOM_FPGA", "CUSTOM_GPU"])
        self.ironic("DELETE", f"/nodes/{plain[0]}/maintenance")
        self.ironic("PUT", f"/nodes/{silver[0]}/maintenance", {})
        self.ironic("PUT", f"/nodes/{gpu[2]}/traits", {"traits": ["CUSTOM_FPGA"]})
        self.ironic("DELETE", f"/nodes/{gpu[3]}/traits/CUSTOM_GPU")
        self.set_on_node(silver[1], properties={**LARGE, "memory_mb": 524288})
        self.set_on_node(gpu[4], resource_class=SILVER)
        self.set_on_node(plain[1], retired=False)
        self.ask_for(plain[1], "provide", "available")
        yield self.refreshed(compute)

        # Nothing has changed.
        yield self.refreshed(compute)

        # Many go at once.
        self.give_up(servers[1:])
        for nodes in (plain[::2], silver):
            self.take_away(nodes, list(nodes))
        yield self.refreshed(compute)

    # -- the fleet ------------------------------------------------------------

    def ask_for(self, node: str, target: str, state: str) -> None:
        """Have a node brought into another provision state."""
        self.ironic("PUT", f"/nodes/{node}/states/provision", {"target": target})
        self.wait_for_node(node, state)

    def free(self, nodes: Sequence[str]) -> list[str]:
        """Those that have no server."""
        return [node for node in nodes if self.node(node)["instance_uuid"] is None]

    def take_away(self, nodes: list[str], gone: Sequence[str]) -> None:
        """Delete some of these nodes."""
        for node in gone:
            self.ironic("DELETE", f"/nodes/{node}")
            nodes.remove(node)

    def boot_on(self, node: str) -> dict[str, Any]:
        """Request a server, on this node if Nova picks nodes."""
        where = {}
        if self._node_selection == "scheduler":
            where["availability_zone"] = f"nova:{HOST}:{node}"
        name = f"server-{len(self._names)}"
        server = self.boot(name, **where)
        self._names[server["id"]] = name
        return server

    def give_up(self, servers: Sequence[dict[str, Any]]) -> None:
        """Delete servers, and wait until their nodes are free."""
        carriers = [
            self.ironic("GET", f"/nodes?instance_uuid={server['id']}")["nodes"][0]["uuid"]
            for server in servers
        ]
        for server in servers:
            self.delete(server)
        for node in carriers:
            self.wait_for_node(node, "available")

    # -- the records ----------------------------------------------------------

    def refreshed(self, compute: Any) -> Records:
        """Nova's records after its periodic task."""
        with crowded():
            compute.manager.update_available_resource(context.get_admin_context())
        return self.records()

    def records(self) -> Records:
        """What Nova and Placement have on each compute node."""
        assert "Error updating resources" not in self.stdlog.logger.output
        found: Records = {}
        for node in objects.ComputeNodeList.get_all(context.get_admin_context()):
            fields = node.obj_to_primitive()["nova_object.data"]
            for name in fields.keys() - NOT_COMPARED:
                found[node.hypervisor_hostname, name] = fields[name]
        for provider in self._get_all_providers():
            uuid = provider["uuid"]
            held = self._get_allocations_by_provider_uuid(uuid)
            known = {
                "provider": (uuid, provider["parent_provider_uuid"]),
                "inventory": self._get_provider_inventory(uuid),
                "traits": sorted(self._get_provider_traits(uuid)),
                "aggregates": self._get_provider_aggregates(uuid),
                "usages": self._get_provider_usages(uuid),
                "servers": sorted(self._names[server] for server in held),
            }
            found.update(((provider["name"], what), value) for what, value in known.items())
        return found


@contextlib.contextmanager
def life(
    ironic: real_ironic.RealIronic, workers: int, node_selection: str, node_refresh: str
) -> Iterator[Life]:
    """A life from its beginning to its end."""
    one = Life(workers, node_selection, node_refresh)
    try:
        one.setUp()
        one.start(ironic)
        yield one
    finally:
        one.doCleanups()


@pytest.mark.seldom  # Two minutes each.
@pytest.mark.parametrize("node_selection", ["scheduler", "ironic"])
def test_the_records_are_those_of_one_worker(ironic, node_selection, monkeypatch) -> None:
    # Of more nodes than these, those that the resource tracker holds are not asked for.
    monkeypatch.setattr(virtapi, "_FEW", 4)
    lived: list[list[Records]] = []
    for workers, node_refresh in ((1, "all"), (WORKERS, "all"), (WORKERS, "changed")):
        with life(ironic, workers, node_selection, node_refresh) as one:
            lived.append(list(one.periods()))
            together = node_refresh == "all" and workers > 1
            assert (one.meeting.together > 1) == together
    alone, *others = lived
    nodes = {node for node, what in alone[0] if what == "inventory"}
    assert len(nodes) == (17 if node_selection == "scheduler" else 3)
    changes = [before != after for before, after in itertools.pairwise(alone)]
    assert changes == [True, True, False, True]
    for other in others:
        for with_one, with_several in zip(alone, other, strict=True):
            assert with_several == with_one
