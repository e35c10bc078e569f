# SPDX-License-Identifier: Apache-2.0

"""What nova-compute was doing when it stopped, and what becomes of it at its next start."""

import datetime
import threading
from typing import Any

from nova import context, objects
from nova.compute import task_states, vm_states

from ironic_virt import exceptions
from ironic_virt.testing.fault_proxy import FaultProxy, Status
from tests.nova import figures
from tests.nova.services import Services

# What a user asks for to bring a server into a task.
ACTIONS = {
    task_states.DELETING: "delete",
    task_states.RESCUING: "rescue",
    task_states.UNRESCUING: "unrescue",
}


class TestRestarts(Services, driver=figures.OURS):
    """One compute service; its servers are put into the states that a restart finds."""

    def restart(
        self, servers: list[dict[str, Any]], vm_state: str, task_state: str, *, asked: str = ""
    ) -> None:
        """Start the service again as if it had been stopped in a task of these servers.

        :param asked: what a user has asked for, if it isn't the task.
        """
        self.compute.stop()
        for server in servers:
            admin = context.get_admin_context()
            # What Ironic has done since is what was asked for.
            admin.timestamp -= datetime.timedelta(minutes=5)
            if action := asked or ACTIONS.get(task_state):
                objects.InstanceAction.action_start(admin, server["id"], action, want_result=False)
            record = objects.Instance.get_by_uuid(admin, server["id"])
            record.vm_state, record.task_state = vm_state, task_state
            record.save()
        self.compute = self.start_compute("compute1")

    def start(self, count: int) -> tuple[list[str], list[dict[str, Any]]]:
        """So many servers, each on its node."""
        self.start_nova(self._real)
        nodes = self.make_nodes(count)
        self.compute = self.start_compute("compute1")
        return nodes, [self.boot_at("compute1", node, f"on-{node}") for node in nodes]

    def event_results(self, server: dict[str, Any], action: str) -> list[Any]:
        """How the parts of a server's action ended."""
        (found,) = [
            one for one in self.api.get_instance_actions(server["id"]) if one["action"] == action
        ]
        path = f"/servers/{server['id']}/os-instance-actions/{found['request_id']}"
        return [one["result"] for one in self.api.api_get(path).body["instanceAction"]["events"]]

    def undeploy(self, node: str) -> None:
        """Have an operator tear a node down."""
        self.set_on_node(node, protected=False)
        self.ironic("PUT", f"/nodes/{node}/states/provision", {"target": "deleted"})
        self.wait_for_node(node, "available")

    def test_builds(self) -> None:
        nodes, (whole, never_begun, off_its_node) = self.start(3)
        self.undeploy(nodes[1])
        self.set_on_node(nodes[1], instance_uuid=never_begun["id"])
        self.undeploy(nodes[2])
        self.restart([whole, never_begun, off_its_node], vm_states.BUILDING, task_states.SPAWNING)
        failed = [self.wait_for(server, "ERROR") for server in (never_begun, off_its_node)]
        self.wait_for(whole, "ACTIVE")
        assert set(self.event_results(whole, "create")) == {"Success"}
        assert "Error" in self.event_results(never_begun, "create")
        assert "interrupted before the deployment" in failed[0]["fault"]["message"]
        assert self.wait_for_node(nodes[1], "available")["instance_uuid"] is None
        self.reboot(whole)
        for server in (whole, never_begun, off_its_node):
            self.delete(server)
        for node in nodes:
            assert self.wait_for_node(node, "available")["instance_uuid"] is None

    def test_one_answer_of_ironic_erases_no_build(self) -> None:
        with FaultProxy(self._real.url) as proxy:
            self.start_nova(self._real, endpoint_override=proxy.url)
            (node,) = self.make_nodes(1)
            self.compute = self.start_compute("compute1")
            server = self.boot_at("compute1", node)
            for status in (401, 500):
                broken = proxy.add(Status(status), "GET", "instance_uuid=", times=1)
                self.restart([server], vm_states.BUILDING, task_states.SPAWNING)
                self.wait_for(server, "ACTIVE")
                assert broken.hits == 1
                there = self.node(node)
                seen = (there["provision_state"], there["instance_uuid"])
                assert seen == ("active", server["id"])
            self.delete(server)
            self.compute.stop()

    def test_an_unfinished_evacuation_harms_no_server(self) -> None:
        (node,), (server,) = self.start(1)
        admin, it = context.get_admin_context(), {"instance_uuid": server["id"]}
        source = {"source_compute": "compute1", "source_node": node}
        how = {"status": "accepted", "migration_type": "evacuation"}
        objects.Migration(admin, **it, **source, **how).create()
        # Up to 2026.1, Nova does this at each start.
        self.compute.manager._destroy_evacuated_instances(admin, {})
        assert self.node(node)["provision_state"] == "active"

    def test_a_delete_during_a_build(self) -> None:
        nodes, servers = self.start(3)
        for server, task in zip(
            servers,
            # Nova's build writes the other two even over a delete.
            (task_states.DELETING, task_states.BLOCK_DEVICE_MAPPING, task_states.SPAWNING),
            strict=True,
        ):
            self.restart([server], vm_states.BUILDING, task, asked="delete")
        self.until(lambda: self.api.get_servers(), lambda seen: not seen)
        for node in nodes:
            assert self.wait_for_node(node, "available")["instance_uuid"] is None

    def test_rescue_and_unrescue(self) -> None:
        (node, other), (server, untouched) = self.start(2)
        for kind, target in (
            ("power", {"target": "power on"}),
            ("provision", {"target": "rescue", "rescue_password": "correct horse"}),
        ):
            self.ironic("PUT", f"/nodes/{node}/states/{kind}", target)
        self.restart([server, untouched], vm_states.ACTIVE, task_states.RESCUING)
        self.wait_for(server, "RESCUE")
        told = self.wait_for(untouched, "ERROR")
        assert "interrupted before Ironic" in told["fault"]["message"]
        assert self.wait_for_node(other, "active")["instance_uuid"] == untouched["id"]

        self.restart([server], vm_states.RESCUED, task_states.UNRESCUING)
        self.wait_for(server, "ACTIVE")
        self.wait_for_node(node, "active")

    def test_rebuilds(self) -> None:
        (node, _), (rebuilt, never_begun) = self.start(2)
        self.rebuild(rebuilt)
        self.wait_for(rebuilt, "ACTIVE")
        # Ironic has ended it, and nobody has seen that.
        self.set_on_node(node, protected=False)
        self.restart([rebuilt, never_begun], vm_states.STOPPED, task_states.REBUILD_SPAWNING)
        self.wait_for(rebuilt, "SHUTOFF")
        assert self.node(node)["protected"]
        assert set(self.event_results(rebuilt, "rebuild")) == {"Success"}
        message = self.wait_for(never_begun, "ERROR")["fault"]["message"]
        assert "interrupted before Ironic had begun" in message

    def test_a_delete_comes_while_a_rescue_is_finished(self) -> None:
        ended = threading.Event()

        def deleted_meanwhile(_driver: Any, instance: Any, since: Any) -> None:
            assert since.utcoffset() is not None
            record = objects.Instance.get_by_uuid(context.get_admin_context(), instance.uuid)
            record.task_state = task_states.DELETING
            record.save()
            # As while it waits for the node.
            instance.refresh()
            ended.set()
            raise exceptions.BuildAborted(None, instance.uuid, "the server is being deleted")

        _, (server,) = self.start(1)
        self.stub_out("ironic_virt.driver.IronicDriver.finish_rescue", deleted_meanwhile)
        self.restart([server], vm_states.ACTIVE, task_states.RESCUING)
        assert ended.wait(300)
        self.compute.stop()
        seen = self.server(server)
        assert (seen["status"], seen["OS-EXT-STS:task_state"]) == ("ACTIVE", "deleting")
