# SPDX-License-Identifier: Apache-2.0

"""The virt driver by itself, over the fake Ironic."""

from __future__ import annotations

import io
import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from keystoneauth1 import loading
from nova import conf as nova_conf
from nova import context as nova_context
from nova import exception, objects, test
from nova.compute import provider_tree
from nova.network import model
from nova.virt.ironic import driver as in_tree
from oslo_context import context as oslo_context
from oslo_log import formatters

from ironic_virt.nova import options
from ironic_virt.nova.driver import IronicDriver
from ironic_virt.testing.fake_ironic import FakeIronic, FakeIronicServer, RealClock
from tests.nova import cases

CONF = nova_conf.CONF
INSTANCE = "6d2b4f02-0000-4000-8000-000000000001"
OTHER = "6d2b4f02-0000-4000-8000-000000000002"


class TestDriver(cases.UnderPytest, test.NoDBTestCase):
    """As nova-compute has it, but for the database."""

    def setUp(self) -> None:
        super().setUp()
        cases.let_ironic_be_found(self)
        self._clock = 0.0
        self.fake = FakeIronic(clock=RealClock())
        server = FakeIronicServer(self.fake)
        server.__enter__()
        self.addCleanup(server.__exit__, None, None, None)
        CONF.register_opts(loading.get_auth_plugin_conf_options("none"), group="ironic")
        options.register_opts(CONF)
        self.configure(auth_type="none", endpoint_override=server.url, api_max_retries=0)

    def configure(self, **values: Any) -> None:
        """Set options of [ironic]."""
        for name, value in values.items():
            self.flags(**{name: value}, group="ironic")

    def make(self, *, started: bool = True) -> IronicDriver:
        """A driver, by default a started one; the records know no node and no instance."""
        driver = IronicDriver(None, clock=lambda: self._clock)
        self.addCleanup(driver._driver.cleanup_host)
        driver._records.node_owners = lambda uuids: {}
        driver._records.instance_hosts = lambda uuids: {}
        driver._records.owned_instance_uuids = frozenset
        driver._records.instance_places = dict
        if started:
            driver.init_host("compute1")
        return driver

    def instance(self, node: str | None = None) -> objects.Instance:
        """Nova's instance."""
        return objects.Instance(uuid=INSTANCE, node=node, host="compute1")

    def test_it_can_what_novas_own_driver_can(self) -> None:
        ours, theirs = IronicDriver.capabilities, in_tree.IronicDriver.capabilities
        assert theirs.items() <= ours.items()
        # What an older Nova does not know yet.
        assert not any(ours[name] for name in ours.keys() - theirs.keys())

    def test_lines_name_the_server_and_their_error_once(self) -> None:
        """As Nova's log format shows them; a line of the next call names its own server."""
        driver = self.make()
        node = self.fake.add_node(instance_uuid=INSTANCE, provision_state="active", protected=True)
        context = nova_context.RequestContext(overwrite=True)
        stream = io.StringIO()
        handler = logging.StreamHandler(stream)
        handler.setFormatter(formatters.ContextFormatter(config=CONF))
        logging.getLogger().addHandler(handler)
        self.addCleanup(logging.getLogger().removeHandler, handler)
        with pytest.raises(exception.InstancePowerOffFailure):
            driver.destroy(context, self.instance(node), None)
        ours = [line for line in stream.getvalue().splitlines() if " ironic_virt." in line]
        for line in ours:
            assert f"[instance: {INSTANCE}]" in line
        assert any(" ironic_virt.driver." in line for line in ours)
        (failed,) = (line for line in ours if " ERROR " in line)
        assert failed.count("is protected") == 1
        assert oslo_context.get_current() is context
        assert context.resource_uuid is None

    def test_what_starting_has_listed_is_not_listed_again(self) -> None:
        first = self.fake.add_node()
        driver = self.make()
        assert driver.get_nodenames_by_uuid() == {first: first}
        before = len(self.fake.requests)
        assert driver.get_available_nodes() == [first]
        assert len(self.fake.requests) == before
        second = self.fake.add_node()
        assert set(driver.get_available_nodes()) == {first, second}

    def test_nova_waits_for_ironic_once_until_it_listens(self) -> None:
        node = self.fake.add_node()
        self.fake.faults.status(503, count=None)
        driver = self.make()
        asked = len(self.fake.requests)
        assert asked == 1
        assert driver.list_instance_uuids() == [], "Nova asks a service that it does not know yet"
        for ask in (driver.get_nodenames_by_uuid, driver.get_available_nodes):
            with pytest.raises(exception.VirtDriverNotReady):
                ask()
        assert len(self.fake.requests) == asked
        # Its periodic task asks again.
        with pytest.raises(exception.VirtDriverNotReady):
            driver.get_available_nodes()
        assert len(self.fake.requests) == asked + 1
        self.fake.faults.clear()
        assert driver.get_available_nodes() == [node]

    def test_ironic_goes_away_while_the_servers_are_looked_at(self) -> None:
        driver = self.make()
        instance = objects.Instance(uuid=INSTANCE, host="compute1", power_state=1)
        assert driver.get_info(instance, use_cache=False).state == 0, "no node has it"
        self.fake.faults.status(503, count=None)
        before = len(self.fake.requests)
        for _ in range(2):
            assert driver.get_info(instance, use_cache=False).state == 1
        assert len(self.fake.requests) == before + 1, "each would take as long as the first one"
        for ask in (driver.get_available_nodes, lambda: driver.get_info(instance)):
            with pytest.raises(exception.NovaException):
                ask()

    def test_options_that_contradict_each_other_are_refused(self) -> None:
        self.configure(shard="a", shard_key="b")
        with pytest.raises(exception.InvalidConfiguration, match="they are the same option"):
            IronicDriver(None)

    def test_an_actions_own_look_is_fresh_enough_but_not_for_long(self) -> None:
        node = self.fake.add_node(provision_state="active", instance_uuid=INSTANCE)
        driver = self.make()
        driver.get_available_nodes()
        instance = self.instance(node)
        for seconds, asked in ((0.0, 0), (5.0, 1)):
            driver._read_at[INSTANCE] = self._clock
            self._clock += seconds
            before = len(self.fake.requests)
            driver.get_info(instance, use_cache=False)
            assert len(self.fake.requests) - before == asked

    def test_a_deployment_is_waited_for_although_the_service_stops(self) -> None:
        node = self.fake.add_node(
            provision_state="wait call-back",
            target_provision_state="active",
            instance_uuid=INSTANCE,
            instance_info={"display_name": "server"},
        )
        self.configure(api_retry_interval=1)
        driver = self.make()
        waiting = threading.Event()
        # Asked again and again by what waits.
        driver._records.abort_reason = lambda instance: waiting.set()
        flavor = objects.Flavor(
            name="gold", vcpus=8, memory_mb=1, root_gb=10, ephemeral_gb=0, swap=0, extra_specs={}
        )
        instance = self.instance(node)
        instance.flavor, instance.display_name, instance.vm_state = flavor, "server", "building"
        with ThreadPoolExecutor() as pool:
            spawned = pool.submit(driver.spawn, None, instance, None, [], None, {})
            assert waiting.wait(60)
            driver.cleanup_host("compute1")
            waiting.clear()
            assert waiting.wait(60), "it still waits"
            self.fake.set_node(node, provision_state="active", target_provision_state=None)
            spawned.result()
        assert self.fake.node(node)["instance_uuid"] == INSTANCE
        changes = [entry.path for entry in self.fake.requests.mutating()]
        assert not any(path.endswith("/states/provision") for path in changes), changes

    def told(self, driver: Any, node: str) -> tuple[dict[str, Any], Any]:
        """What the driver reports of a node: its resource and its inventory."""
        tree = provider_tree.ProviderTree()
        tree.new_root(node, node, generation=1)
        driver.update_provider_tree(tree, node)
        (inventory,) = tree.data(node).inventory.values()
        return driver.get_available_resource(node), inventory

    def test_changes_on_a_node_are_told_and_the_rest_is_reused(self) -> None:
        node = self.fake.add_node(properties={"cpus": 8}, resource_class="gold")
        driver = self.make()
        driver.get_available_nodes()
        made = []
        make = driver._driver.get_available_resource
        driver._driver.get_available_resource = lambda name: made.append(name) or make(name)
        resource, inventory = self.told(driver, node)
        assert (resource["stats"]["ironic_virt.vcpus"], inventory["reserved"]) == ("8", 0)
        # Nova's resource tracker adds to it, also within.
        resource["host_ip"] = "127.0.0.1"
        resource["stats"]["uptime"] = None
        resource["supported_instances"].append(None)
        again = self.told(driver, node)[0]
        assert not {"host_ip", "uptime"} & {*again, *again["stats"]}
        assert None not in again["supported_instances"]
        assert len(made) == 1
        self.fake.set_node(node, maintenance=True, properties={"cpus": 16})
        driver.get_available_nodes()
        resource, inventory = self.told(driver, node)
        assert (resource["stats"]["ironic_virt.vcpus"], inventory["reserved"]) == ("16", 1)

    def test_a_node_that_is_gone_is_an_unknown_compute_host(self) -> None:
        with pytest.raises(exception.ComputeHostNotFound, match=OTHER):
            self.make().get_available_resource(OTHER)

    def test_servers_are_counted_without_reading_each_record(self) -> None:
        for number in range(3):
            self.fake.add_node(provision_state="active", instance_uuid=f"{INSTANCE[:-1]}{number}")
        driver = self.make()
        owned = {f"{INSTANCE[:-1]}{number}" for number in (0, 1)}
        driver._records.owned_instance_uuids = lambda: owned
        driver.get_available_nodes(refresh=True)
        self.stub_out("nova.objects.Instance.get_by_uuid", None)
        self.stub_out("nova.objects.InstanceList.get_by_filters", None)
        asked = len(self.fake.requests)
        assert driver.get_num_instances() == 2
        assert len(self.fake.requests) == asked, "nor at Ironic"

    def test_instances_unknown_to_nova_are_not_its_business(self) -> None:
        self.fake.add_node(provision_state="active", instance_uuid=INSTANCE)
        driver = self.make()
        driver._records.known_instances = lambda uuids: {}
        assert driver.list_instance_uuids() == []
        assert driver.get_num_instances() == 0
        driver._records.known_instances = lambda uuids: dict.fromkeys(uuids, "name")
        assert driver.list_instance_uuids() == [], "while it starts, only what the records give it"
        driver._records.owned_instance_uuids = lambda: {INSTANCE}
        assert driver.list_instance_uuids() == [INSTANCE]
        driver._records.owned_instance_uuids = frozenset
        driver.get_available_nodes()
        assert driver.list_instance_uuids() == [INSTANCE]

    def test_nova_2024_1_asks_for_a_new_service_before_the_start(self) -> None:
        self.fake.add_node(provision_state="active", instance_uuid=INSTANCE)
        driver = self.make(started=False)
        driver._records.known_instances = lambda uuids: dict.fromkeys(uuids, "name")
        assert driver.list_instance_uuids() == []
        driver.init_host("compute1")
        assert driver.list_instance_uuids() == []
        driver.get_available_nodes()
        assert driver.list_instance_uuids() == [INSTANCE]

    def test_a_server_on_a_volume_is_not_rebuilt_and_stays(self) -> None:
        node = self.fake.add_node(provision_state="active", instance_uuid=INSTANCE)
        driver = self.make()
        instance = self.instance(node)
        saved = []
        instance.save = lambda **expected: saved.append((instance.task_state, expected))
        disks = {
            "root_device_name": "/dev/sda",
            "block_device_mapping": [
                {"mount_device": "/dev/sda", "boot_index": 0, "connection_info": {"serial": "v"}}
            ],
        }
        before = len(self.fake.requests)
        with pytest.raises(exception.InstanceFaultRollback) as caught:
            driver.rebuild(
                *(None, instance, None, [], None, None, None, None, None),
                block_device_info=disks,
                reimage_boot_volume=True,
            )
        assert "boots from a volume" in str(caught.value.inner_exception)
        assert len(self.fake.requests) == before
        assert saved == [("rebuild_spawning", {"expected_task_state": ["rebuilding"]})]

    def test_nova_has_servers_powered_off(self) -> None:
        own = {"instance_uuid": INSTANCE, "instance_info": {"display_name": "server"}}
        node = self.fake.add_node(provision_state="active", **own)
        driver, instance = self.make(), self.instance(node)
        instance.flavor, instance.task_state = objects.Flavor(ephemeral_gb=0, extra_specs={}), None
        driver.spawn(None, instance, None, [], None, {}, power_on=False)
        assert self.fake.node(node)["power_state"] == "power off"
        driver.power_on(None, instance, None)
        # A deleted one, if running_deleted_instance_action is shutdown.
        driver.power_off(nova_context.get_admin_context(), instance)
        assert self.fake.node(node)["power_state"] == "power off"

    def test_volumes_of_a_server_that_is_there_are_not_changed(self) -> None:
        driver, instance = self.make(), self.instance(self.fake.add_node())
        before = len(self.fake.requests)
        for change in (driver.attach_volume, driver.detach_volume):
            with pytest.raises(exception.NovaException, match="when the server is created"):
                change(None, {}, instance, "/dev/sdb")
        assert len(self.fake.requests) == before

    def test_cinder_is_told_the_servers_addresses(self) -> None:
        node = self.fake.add_node(properties={"cpu_arch": "x86_64"})
        instance = self.instance(node)
        subnet = {"ips": [{"address": "192.0.2.7", "type": "fixed", "version": 4}]}
        vif = {"id": OTHER, "network": {"id": OTHER, "subnets": [subnet]}}
        instance.info_cache = objects.InstanceInfoCache(
            network_info=model.NetworkInfo.hydrate([vif])
        )
        driver = self.make()
        assert driver.get_volume_connector(instance) == {
            "host": "192.0.2.7",
            "ip": "192.0.2.7",
            "platform": "x86_64",
            "os_type": "baremetal",
            "multipath": False,
        }
        # One without an address is known by its name.
        instance.info_cache = objects.InstanceInfoCache(network_info=model.NetworkInfo())
        instance.hostname = "web-1"
        assert driver.get_volume_connector(instance)["host"] == "web-1"
