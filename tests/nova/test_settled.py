# SPDX-License-Identifier: Apache-2.0

"""Nodes that are passed over are those in which a whole pass would change nothing.

After each event there is one period.  Then Nova's caches are dropped and all nodes get a whole
pass, by Nova's own code: records, providers and allocations have to be as they were.
"""

import contextlib
import datetime
import functools
import json
import os
import stat
from collections.abc import Iterator
from typing import Any
from unittest import mock

import fixtures
import msgspec
import pytest
import requests
from nova import conf as nova_conf
from nova import context, exception, objects, servicegroup
from nova.cmd import manage
from nova.compute import resource_tracker, task_states, vm_states
from oslo_utils import timeutils
from oslo_utils.fixture import TimeFixture

from ironic_virt.nova import tracker, warm
from ironic_virt.nova.driver import IronicDriver
from ironic_virt.nova.observer import Observer
from tests.nova.services import Services

CONF = nova_conf.CONF
HOST = "compute-1"
GOLD = "CUSTOM_BAREMETAL_GOLD"
AGGREGATE = "11111111-2222-3333-4444-555555555555"
GONE = "77777777-0000-4000-8000-000000000001"
DISABLED = "COMPUTE_STATUS_DISABLED"
LARGER = {"cpus": "9", "memory_mb": "9999", "local_gb": "99", "cpu_arch": "x86_64"}
_PLACEMENT = "1.38"


def differences(before: dict[str, Any], after: dict[str, Any]) -> list[tuple[Any, ...]]:
    """The fields in which two looks differ."""
    return [
        (key, name, one.get(name), other.get(name))
        for key in before.keys() | after.keys()
        for one, other in [(before.get(key, {}), after.get(key, {}))]
        for name in one.keys() | other.keys()
        if one.get(name) != other.get(name)
    ]


class Settled(Services, starts=True, nodes_made=5):
    """A nova-compute with a few nodes, in which nothing changes by itself."""

    def setUp(self) -> None:
        super().setUp()
        find = objects.InstanceList.get_by_filters

        def find_by_message(context: Any, filters: Any, **kwargs: Any) -> Any:
            """Here all is one process; elsewhere the question goes to the conductor as JSON."""
            if filters.keys() & {"host", "changes-since"}:
                filters = json.loads(json.dumps(filters))
            return find(context, filters, **kwargs)

        patch = mock.patch.object(objects.InstanceList, "get_by_filters", find_by_message)
        patch.start()
        self.addCleanup(patch.stop)
        self.nodes = self.make_nodes(self.nodes_made, traits=["CUSTOM_A", "CUSTOM_B"])
        self.compute = self.start_compute(HOST)
        self.manager = self.compute.manager
        self.passed: list[str] = []
        self.settle()

    # -- periods --------------------------------------------------------------

    @property
    def passes(self) -> Any:
        """What decides which nodes are passed."""
        return self.manager.rt.update_available_resource.__self__

    def period(self) -> list[str]:
        """Run a period; the nodes that got a whole pass."""
        passed: list[str] = []
        real = self.passes._pass

        def note(*args: Any, **kwargs: Any) -> None:
            passed.append(args[1])
            real(*args, **kwargs)

        with mock.patch.object(self.passes, "_pass", note):
            self.refresh(self.compute)
        return sorted(passed)

    def settle(self) -> None:
        """Let all nodes settle."""
        for _ in range(3):
            passed = self.period()
        assert passed == []

    def whole_pass(self) -> None:
        """Let Nova look at all nodes, and at all of Placement, by its own code."""
        self.manager.reportclient.clear_provider_cache()
        rt = self.manager.rt
        with mock.patch.object(rt, "update_available_resource", self.passes._pass):
            self.refresh(self.compute)

    def seen(self) -> dict[str, Any]:
        """What the scheduler and operators see: each record and provider."""
        seen: dict[str, Any] = {}
        for record in objects.ComputeNodeList.get_all(context.get_admin_context()):
            fields = record.obj_to_primitive()["nova_object.data"]
            del fields["created_at"], fields["updated_at"]
            seen["record", record.hypervisor_hostname] = fields
        for provider in self._get_all_providers():
            uuid = provider["uuid"]
            seen["provider", uuid] = {
                "inventory": self._get_provider_inventory(uuid),
                "traits": sorted(self._get_provider_traits(uuid)),
                "aggregates": sorted(self._get_provider_aggregates(uuid) or []),
                "allocations": self._get_allocations_by_provider_uuid(uuid),
            }
        return seen

    def check(self) -> dict[str, Any]:
        """One period after an event: a whole pass changes nothing any more."""
        self.passed = self.period()
        before = self.seen()
        self.whole_pass()
        after = self.seen()
        found = differences(before, after)
        assert not found, "\n".join(map(str, found))
        return after

    # -- Placement, behind Nova's back ----------------------------------------

    def place(self, method: str, path: str, body: Any = None) -> Any:
        """A request to Placement."""
        more = {} if body is None else {"body": body}
        answer = getattr(self.placement, method)(path, version=_PLACEMENT, **more)
        assert answer.status < 300, answer.body
        return answer.body

    def edit(self, node: str, what: str, **body: Any) -> None:
        """Write a part of a provider."""
        generation = self.place("get", f"/resource_providers/{node}")["generation"]
        body["resource_provider_generation"] = generation
        self.place("put", f"/resource_providers/{node}/{what}", body)

    def traits(self, node: str) -> set[str]:
        return set(self._get_provider_traits(node))

    def allocate(self, node: str, consumer: str) -> None:
        """Write an allocation by hand."""
        body = {
            "allocations": {node: {"resources": {GOLD: 1}}},
            "consumer_generation": None,
            "consumer_type": "INSTANCE",
            "project_id": "p",
            "user_id": "u",
        }
        self.place("put", f"/allocations/{consumer}", body)

    @contextlib.contextmanager
    def placement_away(self) -> Iterator[None]:
        """No request reaches Placement."""
        send = requests.Session.send

        def fail(session: Any, request: Any, **kwargs: Any) -> Any:
            if request.url.startswith(self.placement_url()):
                raise requests.exceptions.ConnectionError("away")
            return send(session, request, **kwargs)

        with mock.patch.object(requests.Session, "send", fail):
            yield

    # -- Nova's records -------------------------------------------------------

    def service(self) -> Any:
        return objects.Service.get_by_compute_host(context.get_admin_context(), HOST)

    def disable(self, disabled: bool) -> None:
        """As the API writes it, without the message to nova-compute."""
        service = self.service()
        service.disabled = disabled
        service.save()

    def record(self, node: str) -> Any:
        return objects.ComputeNode.get_by_uuid(context.get_admin_context(), node)


class TestPlacement(Settled):
    """What somebody has written into Placement."""

    def test_edits(self) -> None:
        node = self.nodes[0]
        self.check()
        assert self.passed == []
        was = self.seen()["provider", node]
        self.edit(node, "inventories", inventories={GOLD: {"total": 5}})
        assert self.check()["provider", node] == was
        assert self.passed == [node]
        self.edit(node, "inventories", inventories={})
        assert self.check()["provider", node] == was
        for traits in ([], ["COMPUTE_NODE"], was["traits"][1:], was["traits"][:-1]):
            self.edit(node, "traits", traits=traits)
            assert self.check()["provider", node] == was
        self.edit(node, "traits", traits=[*was["traits"], "HW_CPU_X86_VMX", DISABLED])
        assert self.check()["provider", node] == was
        self.edit(node, "aggregates", aggregates=[AGGREGATE])
        assert self.check()["provider", node] == {**was, "aggregates": [AGGREGATE]}
        self.place("delete", f"/resource_providers/{node}")
        assert self.check()["provider", node] == was
        self.settle()
        # Both at once, and of several nodes.
        self.edit(node, "inventories", inventories={})
        self.edit(self.nodes[1], "traits", traits=[])
        self.place("delete", f"/resource_providers/{self.nodes[2]}")
        self.check()
        assert self.passed == sorted(self.nodes[:3])

    def test_an_edit_while_nova_reads(self) -> None:
        """Nova reads inventory, aggregates and traits in one request each."""
        node = self.nodes[0]
        client = self.manager.reportclient
        get_traits = client.get_provider_traits
        edits = iter([{"inventories": {GOLD: {"total": 5}}}])

        def edited(*args: Any, **kwargs: Any) -> Any:
            for edit in edits:
                self.edit(node, "inventories", **edit)
            return get_traits(*args, **kwargs)

        self.edit(node, "aggregates", aggregates=[AGGREGATE])
        with mock.patch.object(client, "get_provider_traits", edited):
            assert self.period() == [node]
        self.check()
        assert self.passed == [node]
        assert self._get_provider_inventory(node)[GOLD]["total"] == 1

    def test_placement_is_away(self) -> None:
        node, other = self.nodes[:2]
        self.ironic("PUT", f"/nodes/{node}/maintenance", {})
        with self.placement_away():
            assert self.period() == [node]
        self.edit(other, "inventories", inventories={})
        with self.placement_away():
            assert self.period() == [node]
        inventory = self.check()["provider", node]["inventory"]
        assert inventory[GOLD]["reserved"] == 1
        assert self.passed == sorted([node, other])

    def test_an_unknown_consumer_is_looked_at_until_it_is_gone(self) -> None:
        """A server of another host, which is deleted while its allocation can't be."""
        node = self.nodes[0]
        self.settle()
        server = self.make_server(node, host="elsewhere")
        self.allocate(node, server.uuid)
        self.check()
        assert self.period() == [node]
        server.destroy()
        assert self.check()["provider", node]["allocations"] == {}
        self.settle()

    def make_server(self, node: str, host: str = HOST) -> Any:
        """A server's record."""
        instance = objects.Instance(
            context.get_admin_context(),
            uuid=GONE,
            host=host,
            node=node,
            compute_id=self.record(node).id,
            project_id="p",
            user_id="u",
            flavor=objects.Flavor.get_by_flavor_id(context.get_admin_context(), self.flavor_id),
            vm_state="active",
        )
        instance.create()
        return instance

    def test_allocations(self) -> None:
        node, other = self.nodes[:2]
        server = self.make_server(node)
        self.allocate(node, server.uuid)
        self.check()
        self.settle()
        # Deleted by hand; Nova does not make it again, either.
        self.place("delete", f"/allocations/{server.uuid}")
        assert self.check()["provider", node]["allocations"] == {}
        self.settle()
        # Shelved, and unshelved at another node, since the last look.
        server.node, server.compute_id = other, self.record(other).id
        server.save()
        self.allocate(other, server.uuid)
        assert self.check()["record", node]["running_vms"] == 0
        self.settle()
        # As the API deletes a server whose host is down; its allocation could not be deleted.
        server.destroy()
        assert self.check()["provider", other]["allocations"] == {}
        assert self.passed == [other]


class TestRecords(Settled):
    """What has happened to the service and to Nova's records."""

    def all_disabled(self) -> set[bool]:
        return {DISABLED in self.traits(node) for node in self.nodes}

    def test_the_service(self) -> None:
        node = self.nodes[0]
        for disabled in (True, False):
            self.disable(disabled)
            self.check()
            assert self.all_disabled() == {disabled}
            assert self.passed == sorted(self.nodes)
        (service,) = self.api.get_services(host=HOST, binary="nova-compute")
        for status in ("disabled", "enabled"):
            self.api.put_service(service["id"], {"status": status})
            assert self.all_disabled() == {status == "disabled"}
            self.check()
        self.settle()
        # Nova's own write follows upon an edit that it has not read.
        self.edit(node, "inventories", inventories={GOLD: {"total": 5}})
        self.api.put_service(service["id"], {"status": "disabled"})
        self.check()
        assert self._get_provider_inventory(node)[GOLD]["total"] == 1
        # Enabled again before the next period looks, disabled only while a node was looked at.
        self.disable(False)
        self.settle()
        self.ironic("PUT", f"/nodes/{node}/maintenance", {})
        real = self.passes._pass

        def disabled_meanwhile(*args: Any, **kwargs: Any) -> None:
            self.disable(True)
            real(*args, **kwargs)
            self.disable(False)

        with mock.patch.object(self.passes, "_pass", disabled_meanwhile):
            self.refresh(self.compute)
        assert DISABLED in self.traits(node)
        self.check()

    def test_failed_builds(self) -> None:
        node = self.nodes[0]
        for _ in range(3):
            self.manager.rt.build_failed(node)
        assert self.check()["record", node]["stats"]["failed_builds"] == "3"
        assert self.passed == [node]
        self.manager.rt.build_succeeded(node)
        assert self.check()["record", node]["stats"]["failed_builds"] == "0"

    def test_records(self) -> None:
        node, other, third = self.nodes[:3]
        self.record(node).destroy()
        assert ("record", node) in self.check()
        assert self.passed == [node]
        record = self.record(other)
        record.host = "compute-2"
        record.save()
        assert self.check()["record", other]["host"] == "compute-2"
        record = self.record(other)
        record.host = HOST
        record.save()
        self.check()
        self.settle()
        self.manager.reset()
        self.check()
        assert self.passed == sorted(self.nodes)
        self.settle()
        self.set_on_node(third, properties=LARGER)
        with mock.patch.object(objects.ComputeNode, "save", side_effect=OSError("lost")):
            assert self.period() == [third]
        assert self.check()["record", third]["stats"]["ironic_virt.memory_mb"] == "9999"
        assert self.passed == [third]

    def test_the_conductor_is_away(self) -> None:
        node = self.nodes[0]
        look = objects.InstanceList.get_uuids_by_host
        with mock.patch.object(
            objects.InstanceList, "get_uuids_by_host", side_effect=OSError("away")
        ):
            assert self.period() == sorted(self.nodes)
        assert objects.InstanceList.get_uuids_by_host == look
        self.manager.rt.build_failed(node)
        self.check()
        self.settle()


class TestNodes(Settled):
    """What has happened in Ironic."""

    def reserved(self, node: str) -> int:
        return int(self._get_provider_inventory(node)[GOLD]["reserved"])

    def test_nodes(self) -> None:
        node, other = self.nodes[:2]
        self.ironic("PUT", f"/nodes/{node}/maintenance", {})
        self.check()
        assert (self.passed, self.reserved(node)) == ([node], 1)
        # Nova's own writes are counted, so one pass was enough.
        assert self.period() == []
        self.ironic("DELETE", f"/nodes/{node}/maintenance")
        self.check()
        assert (self.passed, self.reserved(node)) == ([node], 0)
        self.set_on_node(node, properties=LARGER)
        assert self.check()["record", node]["stats"]["ironic_virt.memory_mb"] == "9999"
        self.ironic("PUT", f"/nodes/{node}/traits", {"traits": ["CUSTOM_A"]})
        self.check()
        assert "CUSTOM_B" not in self.traits(node)
        (new,) = self.make_nodes(1)
        self.check()
        assert self.passed == [new]
        self.settle()
        # Not listed for one period; meanwhile another service has had it.
        listed = self.manager.driver.get_available_nodes

        def without(refresh: bool = False) -> list[str]:
            return [name for name in listed(refresh) if name != other]

        self.edit(other, "inventories", inventories={GOLD: {"total": 5}})
        with mock.patch.object(self.manager.driver, "get_available_nodes", without):
            self.period()
        self.check()
        assert other in self.passed

    def test_a_node_goes_and_comes(self) -> None:
        node = self.nodes[0]
        fields = self.node(node)
        self.ironic("PUT", f"/nodes/{node}/maintenance", {})
        self.ironic("DELETE", f"/nodes/{node}")
        seen = self.check()
        assert not {("record", node), ("provider", node)} & seen.keys()
        names = ("uuid", "name", "driver", "resource_class", "properties")
        self.ironic("POST", "/nodes", {name: fields[name] for name in names})
        for target, state in (("manage", "manageable"), ("provide", "available")):
            self.ironic("PUT", f"/nodes/{node}/states/provision", {"target": target})
            self.wait_for_node(node, state)
        self.check()
        assert self.passed == [node]
        self.settle()


class TestServers(Settled):
    """What has happened to servers."""

    def test_a_server(self) -> None:
        driver = self.manager.driver
        spawn = driver.spawn
        seen: list[Any] = []

        def spawn_with_a_period(*args: Any, **kwargs: Any) -> None:
            seen.append(self.check())
            spawn(*args, **kwargs)

        with mock.patch.object(driver, "spawn", spawn_with_a_period):
            server = self.new_server()
        (midst,) = seen
        node = self.node_of(server)
        assert midst["record", node]["stats"]["num_task_spawning"] == "1"
        assert self.check()["record", node]["stats"]["num_vm_active"] == "1"
        self.act(server, **{"os-stop": None})
        self.wait_for(server, "SHUTOFF")
        assert self.check()["record", node]["stats"]["num_vm_stopped"] == "1"
        self.settle()
        self.act(server, **{"os-resetState": {"state": "error"}})
        assert self.check()["record", node]["stats"]["num_vm_error"] == "1"
        assert self.passed == [node]
        self.settle()
        # By somebody whose clock is ahead; then by somebody whose clock is right.
        with TimeFixture(timeutils.utcnow() + datetime.timedelta(hours=1)):
            self.act(server, **{"os-resetState": {"state": "active"}})
        assert self.check()["record", node]["stats"]["num_vm_active"] == "1"
        self.act(server, **{"os-resetState": {"state": "error"}})
        assert self.check()["record", node]["stats"]["num_vm_error"] == "1"
        self.settle()
        with mock.patch.object(servicegroup.API, "service_is_up", return_value=False):
            self.delete(server)
        assert self.check()["record", node]["running_vms"] == 0
        # The driver takes the rest off the node.
        self.set_on_node(node, protected=False)
        self.ironic("PUT", f"/nodes/{node}/states/provision", {"target": "deleted"})
        self.wait_for_node(node, "available")
        self.settle()
        server = self.new_server("another")
        self.check()
        self.settle()
        self.delete(server)
        self.check()
        self.settle()
        assert manage.PlacementCommands().audit(verbose=True) == 0

    @pytest.mark.seldom
    def test_a_resize_that_fails(self) -> None:
        server = self.new_server()
        self.settle()
        flavor = self.make_flavor(ephemeral=1)
        self.act(server, resize={"flavorRef": flavor})
        self.until(lambda: self.server(server), lambda seen: not seen["OS-EXT-STS:task_state"])
        self.check()

    def test_a_build_that_fails(self) -> None:
        error = exception.BuildAbortException(instance_uuid="", reason="by the test")
        with mock.patch.object(self.manager.driver, "prepare_for_spawn", side_effect=error):
            server = self.boot()
            self.wait_for(server, "ERROR")
        self.check()
        self.delete(server)
        self.check()
        self.settle()


class TestRestarts(Settled):
    """A service that starts again takes nodes over, and a whole pass would change nothing."""

    @property
    def path(self) -> str:
        return warm.state_path(CONF.state_path, HOST)

    def restart(self) -> list[str]:
        """Start the stopped service; the nodes that got a whole pass, one at least.

        :returns: those whose passes were not just because there must be a first one.
        """
        passed: list[str] = []
        began = len(self.counted.log)
        real = resource_tracker.ResourceTracker.update_available_resource

        @functools.wraps(real)
        def note(rt: Any, context: Any, nodename: str, startup: bool = False) -> None:
            passed.append(nodename)
            real(rt, context, nodename, startup=startup)

        with mock.patch.object(
            resource_tracker.ResourceTracker, "update_available_resource", note
        ):
            self.compute = self.start_compute(HOST)
        self.manager = self.compute.manager
        self.passed = list(passed)
        self.sent = [line for line in self.counted.log[began:] if line.startswith("placement")]
        before = self.seen()
        self.whole_pass()
        after = self.seen()
        found = differences(before, after)
        assert not found, "\n".join(map(str, found))
        self.settle()
        # Once more, for the file to tell of it.
        self.period()
        return sorted(self.passed[1:])

    def stop(self) -> None:
        self.compute.stop()

    def test_nothing_has_changed(self) -> None:
        """Twice; in the first minute nothing is written."""
        with open(self.path, "rb") as file:
            assert len(file.read()) <= 600 * len(self.nodes)
        assert stat.S_IMODE(os.stat(self.path).st_mode) == 0o600
        for _ in range(2):
            self.stop()
            assert self.restart() == []
            # Two lists, and the pass of the first node.
            assert len(self.sent) <= 2 + 8
            assert len([line for line in self.sent if "required=" in line]) == 2

    def test_changes_while_it_was_down(self) -> None:
        node, other, third = self.nodes[:3]
        self.stop()
        self.edit(node, "inventories", inventories={GOLD: {"total": 5}})
        self.edit(other, "aggregates", aggregates=[AGGREGATE])
        self.place("delete", f"/resource_providers/{third}")
        self.restart()
        assert set(self.passed) >= {node, other, third}
        assert len(self.passed) <= 4
        self.stop()
        self.ironic("PUT", f"/nodes/{node}/maintenance", {})
        self.set_on_node(other, properties=LARGER)
        self.record(third).destroy()
        self.restart()
        assert set(self.passed) >= {node, other, third}
        assert len(self.passed) <= 4
        self.stop()
        record = self.record(other)
        record.host = "compute-2"
        record.save()
        self.edit(node, "traits", traits=[])
        self.restart()
        assert self.record(other).host == "compute-2"
        assert set(self.passed) >= {node}
        self.stop()
        self.ironic("DELETE", f"/nodes/{node}")
        (new,) = self.make_nodes(1)
        self.restart()
        assert new in self.passed
        assert not {node, other} & set(self.passed)
        self.stop()
        self.disable(True)
        self.restart()
        assert set(self.passed) == {*self.nodes[2:], new}
        self.stop()
        assert self.restart() == []

    def test_servers(self) -> None:
        server = self.new_server()
        node = self.node_of(server)
        self.settle()
        # An hour later: what was written in the last two minutes is looked at again.
        hour = datetime.timedelta(hours=1)
        with TimeFixture(timeutils.utcnow() + hour):
            self.manager.reset()
            self.settle()
        self.stop()
        assert self.restart() == []
        assert self.record(node).stats["num_vm_active"] == "1"
        self.stop()
        with TimeFixture(timeutils.utcnow() + 2 * hour):
            self.act(server, **{"os-resetState": {"state": "error"}})
        self.restart()
        assert node in self.passed
        self.stop()
        with mock.patch.object(servicegroup.API, "service_is_up", return_value=False):
            self.delete(server)
        self.restart()
        assert node in self.passed
        # A server that was to be built here, although its record names no host.
        self.stop()
        free = next(name for name in self.nodes if name != node)
        instance = objects.Instance(
            context.get_admin_context(),
            uuid=GONE,
            project_id="p",
            user_id="u",
            flavor=objects.Flavor.get_by_flavor_id(context.get_admin_context(), self.flavor_id),
            vm_state=vm_states.BUILDING,
            task_state=task_states.SCHEDULING,
        )
        instance.create()
        self.allocate(free, GONE)
        self.compute = self.start_compute(HOST)
        instance.refresh()
        assert instance.vm_state == vm_states.ERROR
        self.manager = self.compute.manager
        self.period()
        # Deleted, while its allocation could not be.
        self.stop()
        instance.destroy()
        self.restart()
        assert free in self.passed
        assert self._get_allocations_by_provider_uuid(free) == {}

    def test_a_standby_reads_what_it_needs_to_take_over(self) -> None:
        node, other = self.nodes[:2]
        observer = Observer(self.manager.rt, self.path)
        os.unlink(self.path)
        # A package that has just been installed does not run yet.
        with mock.patch.object(warm.metadata, "version", return_value="99.0"):
            observer.look()
        self.stop()
        assert self.restart() == []
        self.edit(node, "inventories", inventories={GOLD: {"total": 5}})
        self.period()
        self.edit(other, "inventories", inventories={GOLD: {"total": 5}})
        for _ in range(60):
            observer.look()
        self.stop()
        self.restart()
        assert other in self.passed
        assert len(self.passed) <= 2

    @pytest.mark.seldom
    def test_a_file_that_is_of_no_use(self) -> None:
        with open(self.path, "rb") as file:
            good = file.read()
        state = msgspec.json.decode(good)
        for bad in (
            None,
            b"",
            good[:-9],
            b"[]",
            msgspec.json.encode({**state, "host": "compute-2"}),
            msgspec.json.encode({**state, "made_by": ["28.0.0", *state["made_by"][1:]]}),
        ):
            self.stop()
            if bad is None:
                os.unlink(self.path)
            else:
                with open(self.path, "wb") as file:
                    file.write(bad)
            self.restart()
            assert sorted(self.passed) == sorted(self.nodes)
        self.stop()
        os.unlink(self.path)
        os.mkdir(self.path)
        self.restart()
        assert sorted(self.passed) == sorted(self.nodes)

    @pytest.mark.seldom
    def test_a_write_unlike_the_former_processs_is_noticed(self) -> None:
        self.stop()
        with mock.patch.dict(IronicDriver.capabilities, supports_multiattach=True):
            self.restart()
            assert sorted(self.passed) == sorted(self.nodes)
            assert "COMPUTE_VOLUME_MULTI_ATTACH" in self.traits(self.nodes[0])
            self.stop()
        self.restart()
        assert sorted(self.passed) == sorted(self.nodes)
        provider = {
            "identification": {"uuid": self.nodes[0]},
            "traits": {"additional": ["CUSTOM_Y"]},
        }
        location = self.useFixture(fixtures.TempDir()).path
        with open(os.path.join(location, "provider.yaml"), "w") as file:
            json.dump({"meta": {"schema_version": "1.0"}, "providers": [provider]}, file)
        for directory, memory in ((location, 512), ("/nowhere", 512), ("/nowhere", 0)):
            self.stop()
            self.flags(provider_config_location=directory, group="compute")
            self.flags(reserved_host_memory_mb=memory)
            self.restart()
            assert sorted(self.passed) == sorted(self.nodes)
            assert ("CUSTOM_Y" in self.traits(self.nodes[0])) == (directory == location)
        self.stop()
        assert self.restart() == []


class TestChoices(Services, starts=True):
    """When nodes are not passed over, or all of them are looked at."""

    def passed(self) -> list[str]:
        """The nodes that get a whole pass in a period."""
        passed: list[str] = []
        driver = self.compute.manager.driver
        real = driver.get_available_resource

        def note(nodename: str) -> Any:
            passed.append(nodename)
            return real(nodename)

        with mock.patch.object(driver, "get_available_resource", note):
            self.refresh(self.compute)
        return sorted(passed)

    def test_all_nodes_are_looked_at(self) -> None:
        nodes = sorted(self.make_nodes(2))
        self.compute = self.start_compute(HOST, node_refresh="all")
        assert "update_available_resource" not in vars(self.compute.manager.rt)
        assert [self.passed() for _ in range(2)] == [nodes] * 2
        self.compute.stop()
        self.compute = self.start_compute(HOST, settled_max_age=0)
        assert [self.passed() for _ in range(2)] == [nodes] * 2
        self.compute.stop()
        known = {resource_tracker.ResourceTracker.update_available_resource: ["node"]}
        with mock.patch.dict(tracker._KNOWN, known):
            self.compute = self.start_compute(HOST)
        assert "[settled-unavailable]" in self.stdlog.logger.output
        assert "ResourceTracker.update_available_resource" in self.stdlog.logger.output
        assert [self.passed() for _ in range(2)] == [nodes] * 2
        self.compute.stop()
        self.compute = self.start_compute(HOST)
        assert self.passed() == []
        # What monitors report changes by itself.
        rt = self.compute.manager.rt
        with mock.patch.object(rt, "monitors", [mock.Mock()]):
            assert self.passed() == nodes

    def test_shards_change_hands(self) -> None:
        """There and back; each time a whole pass by either service changes nothing."""
        (node,) = self.make_nodes(1, shard="one")
        self.make_nodes(1, shard="two")
        one = self.start_compute("one", shard_key="one")
        two = self.start_compute("two", shard_key="two")
        for source, target in ((one, two), (two, one)):
            for _ in range(2):
                self.refresh(one, two)
            self.force_down(source.host)
            self.set_on_node(node, shard=target.host)
            self.move(node, target.host)
            self.force_down(source.host, down=False)
            self.refresh(source, target)
            seen = self.hosts(), self._get_provider_inventory(node)
            assert seen[0][node] == target.host
            for compute in (one, two):
                compute.manager.reportclient.clear_provider_cache()
                whole = compute.manager.rt.update_available_resource.__self__._pass
                with mock.patch.object(compute.manager.rt, "update_available_resource", whole):
                    self.refresh(compute)
            assert seen == (self.hosts(), self._get_provider_inventory(node))
