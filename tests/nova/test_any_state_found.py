# SPDX-License-Identifier: Apache-2.0

"""What ``make any-state`` and ``make verbs`` have found, one by one."""

from nova.compute import task_states, vm_states
from nova.db.main import models

from tests.nova.fleets import Fleet


class TestStates(Fleet):
    """A service over the fake Ironic, stopped while states change."""

    def test_one_node_with_an_inventory_in_use_stops_no_service(self) -> None:
        taken, free = self.make_nodes(2)
        compute = self.start_compute("compute1")
        server = self.boot_at("compute1", taken)
        compute.stop()
        former = self.fake.node(taken)["resource_class"]
        self.fake.set_node(taken, resource_class="silver")
        compute = self.start_compute("compute1")
        assert self.check()["resource-class-renamed"] == taken
        assert set(self.hosts()) == {taken, free}
        # Until the node has its class again, Nova ends a delete in ERROR.
        self.fake.set_node(taken, resource_class=former)
        self.refresh(compute)
        self.delete(server)
        self.refresh(compute)
        assert set(self.check()) <= {"node-without-flavor"}

    def test_one_reboot_that_fails_keeps_no_service_from_starting(self) -> None:
        lost, well = self.make_nodes(2)
        compute = self.start_compute("compute1")
        servers = [self.boot_at("compute1", node, node) for node in (lost, well)]
        compute.stop()
        for server in servers:
            where = models.Instance.uuid == server["id"]
            self.in_cell(models.Instance, where, task_state=task_states.REBOOT_PENDING_HARD)
        self.fake.set_node(lost, instance_uuid=None)
        compute = self.start_compute("compute1")
        self.until(lambda: self.server(servers[0]), lambda seen: seen["status"] == "ERROR")
        self.wait_for(servers[1], "ACTIVE")
        self.reboot(servers[1])

    def test_deletes_that_take_long_hold_up_no_start(self) -> None:
        nodes = self.make_nodes(2)
        compute = self.start_compute("compute1", unprovision_timeout=300)
        servers = [self.boot_at("compute1", node, node) for node in nodes]
        compute.stop()
        for server, node in zip(servers, nodes, strict=True):
            where = models.Instance.uuid == server["id"]
            self.in_cell(models.Instance, where, task_state=task_states.DELETING)
            self.fake.set_node(node, provision_state="deleting")
        compute = self.start_compute("compute1", unprovision_timeout=300)
        assert set(self.hosts()) == set(nodes)
        for node in nodes:
            self.fake.set_node(node, provision_state="cleaning", instance_uuid=None)
        for server in servers:
            self.wait_until_gone(server)

    def test_a_soft_delete_that_was_interrupted_is_finished(self) -> None:
        (node,) = self.make_nodes(1, power_state="power on")
        compute = self.start_compute("compute1")
        server = self.boot_at("compute1", node)
        compute.stop()
        where = models.Instance.uuid == server["id"]
        self.in_cell(models.Instance, where, task_state=task_states.SOFT_DELETING)
        self.start_compute("compute1")
        self.wait_for(server, "SOFT_DELETED")
        assert self.fake.node(node)["power_state"] == "power off"
        # A list of servers shows none that is soft-deleted.
        self.api.delete_server(server["id"])
        self.until(lambda: self.fake.node(node)["instance_uuid"], lambda uuid: uuid is None)

    def test_what_a_restart_interrupts_does_not_stay_in_its_task(self) -> None:
        interrupted = {
            (vm_states.ACTIVE, task_states.SHELVING): "ACTIVE",
            (vm_states.SOFT_DELETED, task_states.RESTORING): "ACTIVE",
            (vm_states.ERROR, task_states.REBUILD_SPAWNING): "ERROR",
            (vm_states.ERROR, task_states.REBOOT_STARTED_HARD): "ERROR",
        }
        nodes = self.make_nodes(len(interrupted), power_state="power on")
        compute = self.start_compute("compute1")
        servers = [self.boot_at("compute1", node, node) for node in nodes]
        compute.stop()
        for server, (vm, task) in zip(servers, interrupted, strict=True):
            where = models.Instance.uuid == server["id"]
            self.in_cell(models.Instance, where, vm_state=vm, task_state=task)
        self.start_compute("compute1")
        for server, status in zip(servers, interrupted.values(), strict=True):
            self.until(
                lambda of=server: self.server(of),
                lambda seen, ends=status: (
                    (seen["status"], seen["OS-EXT-STS:task_state"]) == (ends, None)
                ),
            )
        self.act(servers[-1], reboot={"type": "HARD"})
        self.until(lambda: self.server(servers[-1])["status"], lambda status: status == "ACTIVE")

    def test_what_bare_metal_can_not_do_changes_nothing(self) -> None:
        for host, shard in (("compute1", "a"), ("compute2", "b")):
            (node,) = self.make_nodes(1, shard=shard, power_state="power on")
            self.start_compute(host, shard_key=shard)
        server = self.boot_at("compute2", node)
        info, images = self.fake.node(node)["instance_info"], set(self.glance.images)
        live = {"host": None, "block_migration": "auto"}
        requests = {"suspend": None, "pause": None, "os-migrateLive": live, "shelve": None}
        for action, body in {**requests, "createImage": {"name": "copy"}}.items():
            self.act(server, **{action: body})
            self.wait_for(server, "ACTIVE")
        # Nova sees to this when the server is at rest already.  2024.1 notes the image, too.
        self.until(
            lambda: [row["message"] for row in self.api.get_instance_actions(server["id"])],
            lambda messages: messages.count("Error") >= len(requests),
        )
        self.until(lambda: set(self.glance.images), lambda there: there == images)
        told = self.told_by_the_events(server)
        # 2024.1 refuses it before it asks the driver.
        assert "migrated live" in told or "Unable to replace instance claim" in told
        assert self.fake.node(node)["instance_info"] == info
