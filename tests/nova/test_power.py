# SPDX-License-Identifier: Apache-2.0

"""Power states that change without Nova, nodes that are never powered off, NMIs, diagnostics."""

from typing import Any

import pytest
from nova import context, objects, utils
from nova.tests.functional.api import client

from tests.nova import figures
from tests.nova.deployment import OTHER_IMAGE, Deployment

RUNNING, SHUTDOWN = 1, 4


class Power(Deployment, starts=True):
    """One compute service with one node, which has a server.

    :cvar no_nmi: what a user reads of an NMI that the hardware can't take.
    """

    no_nmi = "an NMI could not be injected: Driver fake-hardware does not support"

    def start_with_a_server(self, **fields: Any) -> None:
        """With a node that has these fields, switched on as hardware is that was deployed to."""
        (self.bare_metal,) = self.make_nodes(1)
        if fields:
            self.set_on_node(self.bare_metal, **fields)
        self.compute = self.start_service("compute", "compute1")
        self.booted = self.new_server()
        self.switch("power on")
        self.refresh(self.compute)
        # Nova knows what it is by now, and not only from its next look.
        self.sync()
        self.until(lambda: self.power_state(), lambda state: state == RUNNING)

    def switch_on_after_a_list(self) -> None:
        """The node goes on after Nova's last list, and Ironic tells Nova."""
        self.start_with_a_server()
        self.switch("power off")
        self.refresh(self.compute)
        self.sync()
        self.wait_for(self.booted, "SHUTOFF")
        self.refresh(self.compute)
        self.switch("power on")
        self.tell("POWER_ON")
        self.wait_for(self.booted, "ACTIVE")
        self.sync()

    def sync(self) -> None:
        """Nova's periodic task that compares power states, to its end."""
        manager = self.compute.manager
        manager._sync_power_states(context.get_admin_context())
        self.until(lambda: bool(manager._syncs_in_progress), lambda comparing: not comparing)

    def power_state(self) -> int:
        """What Nova says."""
        return self.server(self.booted)["OS-EXT-STS:power_state"]

    def switch(self, target: str) -> None:
        """Somebody switches the node."""
        self.ironic("PUT", f"/nodes/{self.bare_metal}/states/power", {"target": target})
        self.until(
            lambda: self.node(self.bare_metal),
            lambda now: now["power_state"] == target and now["reservation"] is None,
        )

    def tell(self, target: str) -> None:
        """What Ironic tells Nova when a node's power state has changed."""
        event = {"name": "power-update", "server_uuid": self.booted["id"], "tag": target}
        self.api.microversion = "2.76"
        self.api.create_server_external_events([event])

    def diagnostics(self) -> dict[str, Any]:
        """The server's diagnostics, as an administrator gets them."""
        with utils.temporary_mutation(self.api, microversion="2.48"):
            return self.api.api_get(f"/servers/{self.booted['id']}/diagnostics").body

    def test_what_happens_behind_novas_back_is_taken_over(self) -> None:
        self.start_with_a_server()
        self.switch("power off")
        self.tell("POWER_OFF")
        self.wait_for(self.booted, "SHUTOFF")
        assert self.power_state() == SHUTDOWN
        self.switch("power on")
        self.tell("POWER_ON")
        self.wait_for(self.booted, "ACTIVE")
        assert self.power_state() == RUNNING
        # Now nobody tells.
        self.switch("power off")
        self.refresh(self.compute)
        self.sync()
        self.wait_for(self.booted, "SHUTOFF")
        # A server that was stopped stays so: Nova switches the node off again.
        self.switch("power on")
        self.refresh(self.compute)
        self.sync()
        self.until(
            lambda: self.node(self.bare_metal), lambda now: now["power_state"] == "power off"
        )
        self.wait_for(self.booted, "SHUTOFF")
        self.delete(self.booted)

    def test_an_nmi_reaches_the_node(self) -> None:
        self.start_with_a_server(driver_info={"takes_nmi": True})
        self.act(self.booted, trigger_crash_dump=None)
        self.until(
            lambda: self.ironic("GET", f"/nodes/{self.bare_metal}/history")["history"],
            lambda events: "An NMI was injected" in {one["event"] for one in events},
        )
        self.wait_for(self.booted, "ACTIVE")
        # From now on it takes none.
        self.ironic(
            "PATCH", f"/nodes/{self.bare_metal}", [{"op": "remove", "path": "/driver_info"}]
        )
        self.act(self.booted, trigger_crash_dump=None)
        told = self.until(
            lambda: self.told_by_the_events(self.booted), lambda told: self.no_nmi in told
        )
        assert ("inject_nmi" in told) is (self.driver == figures.OURS)
        self.wait_for(self.booted, "ACTIVE")
        self.delete(self.booted)


class TestPowerInTree(Power, driver=figures.IN_TREE, no_nmi="BadRequestException"):
    """Nova's own driver."""

    def test_what_nova_was_told_is_undone_by_an_old_list(self) -> None:
        self.switch_on_after_a_list()
        assert self.power_state() == SHUTDOWN
        assert self.node(self.bare_metal)["power_state"] == "power on"

    def test_there_are_no_diagnostics(self) -> None:
        self.start_with_a_server()
        with pytest.raises(client.OpenStackApiException) as caught:
            self.diagnostics()
        assert caught.value.response.status_code == 501


class TestPower(Power, driver=figures.OURS):
    """Ours."""

    def test_what_nova_was_told_stays_so(self) -> None:
        self.switch_on_after_a_list()
        assert self.power_state() == RUNNING
        # So it does when an earlier event comes after that: Nova would power the node off.
        server = objects.Instance.get_by_uuid(context.get_admin_context(), self.booted["id"])
        self.compute.manager.power_update(server._context, server, "POWER_OFF")
        assert self.power_state() == RUNNING

    @pytest.mark.seldom
    def test_a_server_on_a_node_without_power_off_works_but_for_stop(self) -> None:
        if not self._asked("GET", "/nodes?fields=disable_power_off").ok:
            self.skipTest("this Ironic powers every node off")
        self.start_with_a_server(disable_power_off=True)
        self.act(self.booted, **{"os-stop": None})
        told = self.until(
            lambda: self.told_by_the_events(self.booted), lambda told: "disable_power_off" in told
        )
        assert "says its disable_power_off in Ironic" in told
        self.wait_for(self.booted, "ACTIVE")
        for kind in ("SOFT", "HARD"):
            self.act(self.booted, reboot={"type": kind})
            self.wait_for(self.booted, "ACTIVE")
        assert self.node(self.bare_metal)["power_state"] == "power on"
        # Nova powers a server off before it is rescued; Ironic reboots such a node itself.
        self.act(self.booted, rescue={"adminPass": "correct horse battery"})
        self.wait_for(self.booted, "RESCUE")
        assert self.node(self.bare_metal)["provision_state"] == "rescue"
        self.act(self.booted, unrescue=None)
        self.wait_for(self.booted, "ACTIVE")
        self.rebuild(self.booted, microversion="2.93")
        self.until(
            lambda: self.node(self.bare_metal)["instance_info"]["image_source"],
            lambda image: image == OTHER_IMAGE,
        )
        self.wait_for(self.booted, "ACTIVE")
        self.delete_and_free(self.booted)

    @pytest.mark.seldom
    def test_a_server_with_a_disk_that_is_shelved_stays_on(self) -> None:
        self.start_with_a_server()
        before = self.switched_at()
        for count in range(1, 11):
            self.act(self.booted, shelve=None)
            self.until(
                lambda: self.told_by_the_events(self.booted).count("no image can be made of that"),
                lambda refused, count=count: refused == count,
            )
            server = self.until(
                lambda: self.server(self.booted),
                lambda server: server["OS-EXT-STS:task_state"] is None,
            )
            assert server["status"] == "ACTIVE"
            assert (self.power_state(), self.switched_at()) == (RUNNING, before)
        self.delete(self.booted)

    def switched_at(self) -> str:
        """When Ironic last changed the node's power."""
        noted = self.node(self.bare_metal)["driver_internal_info"]
        return str(noted["last_power_state_change"])

    def test_diagnostics_tell_what_ironic_knows(self) -> None:
        self.start_with_a_server()
        told = self.diagnostics()
        (port,) = self.ironic("GET", f"/ports?node={self.bare_metal}")["ports"]
        assert [nic["mac_address"] for nic in told["nic_details"]] == [port["address"]]
        assert (told["state"], told["driver"], told["hypervisor"]) == (
            *("running", "ironic"),
            "ironic",
        )
        assert (told["num_cpus"], told["num_nics"], told["num_disks"]) == (8, 1, 0)
        assert told["memory_details"] == {"maximum": 16384, "used": None}
        assert told["config_drive"] is False
        # No longer than a test may take.
        assert 0 <= told["uptime"] < 1200
        self.delete(self.booted)
