# SPDX-License-Identifier: Apache-2.0

"""What gets in the way of a build, and what the user reads; both drivers where they agree."""

import uuid
from typing import Any
from unittest import mock

import oslo_messaging
import pytest
from nova import objects

from ironic_virt import exceptions
from ironic_virt.driver.claim import KEY_PREFIX
from tests.nova import figures
from tests.nova.deployment import IMAGE, Deployment


class Trouble(Deployment, starts=True):
    """One compute service with two nodes."""

    def setUp(self) -> None:
        super().setUp()
        self.nodes = self.make_nodes(2)
        self.compute = self.start_service("compute", "compute1")

    def test_a_node_that_went_into_maintenance_unseen_costs_one_try(self) -> None:
        # Both count as free for the scheduler; the first try must end at the second.
        server, wrong, right = self.boot_where_one_is("maintenance")
        assert self.node_of(server) == right
        assert self.node(wrong)["instance_uuid"] is None
        self.delete(server)

    def test_a_node_that_somebody_took_unseen_is_left_alone(self) -> None:
        server, wrong, right = self.boot_where_one_is("taken")
        assert self.node_of(server) == right
        there = self.node(wrong)
        assert there["instance_uuid"] == self.stranger
        assert there["instance_info"] == {"image_source": "theirs"}
        self.delete(server)
        assert self.node(wrong)["instance_uuid"] == self.stranger

    def test_the_records_cannot_be_asked_while_a_server_is_deployed(self) -> None:
        driver = self.compute.manager.driver
        spawn = driver.spawn
        lost = oslo_messaging.MessagingTimeout("the conductor does not answer")

        def spawn_meanwhile(*args: Any, **kwargs: Any) -> None:
            with mock.patch.object(objects.Instance, "refresh", side_effect=lost):
                spawn(*args, **kwargs)

        driver.spawn = spawn_meanwhile
        server = self.boot()
        self.look_at_the_build(server)
        self.delete(server)

    def look_at_the_build(self, server: dict[str, Any]) -> None:
        """What becomes of it."""
        raise NotImplementedError

    @pytest.mark.seldom
    def test_a_rescue_that_fails_on_the_node(self) -> None:
        server = self.new_server()
        node = self.node_of(server)
        self.set_on_node(node, driver_info={"fails": {"rescue": "the ramdisk has no network"}})
        self.act(server, rescue={"adminPass": PASSWORD})
        failed = self.wait_for(server, "ERROR")
        self.look_at_the_rescue(failed["fault"]["message"], self.node(node))
        self.set_on_node(node, driver_info={})
        self.delete_and_free(server)

    def look_at_the_rescue(self, told: str, node: dict[str, Any]) -> None:
        """What the server's user learns of a rescue that fails, and how the node is left."""
        raise NotImplementedError

    def boot_where_one_is(self, what: str) -> tuple[dict[str, Any], str, str]:
        """Boot while the node that the scheduler takes first is not free any more."""
        self.stranger = str(uuid.uuid4())
        chosen: list[str] = []
        driver = self.compute.manager.driver
        prepare = driver.prepare_for_spawn

        def spoiled(instance: Any) -> None:
            if not chosen:
                chosen.append(instance.node)
                if what == "maintenance":
                    self.ironic("PUT", f"/nodes/{instance.node}/maintenance", {})
                else:
                    taken = {"instance_uuid": self.stranger, "instance_info": THEIRS}
                    self.set_on_node(instance.node, **taken)
            prepare(instance)

        driver.prepare_for_spawn = spoiled
        server = self.new_server()
        (wrong,) = chosen
        (right,) = set(self.nodes) - {wrong}
        return server, wrong, right


THEIRS = {"image_source": "theirs"}
PASSWORD = "correct horse"


class TestTroubleInTree(Trouble, driver=figures.IN_TREE):
    """Nova's own driver."""

    def look_at_the_build(self, server: dict[str, Any]) -> None:
        self.wait_for(server, "ERROR")

    def look_at_the_rescue(self, told: str, node: dict[str, Any]) -> None:
        assert node["provision_state"] == "rescue failed"
        assert "own system" not in told


class TestTrouble(Trouble, driver=figures.OURS):
    """Ours, and what only ours does."""

    def look_at_the_build(self, server: dict[str, Any]) -> None:
        self.wait_for(server, "ACTIVE")

    def look_at_the_rescue(self, told: str, node: dict[str, Any]) -> None:
        assert node["provision_state"] == "active"
        assert "the server runs its own system" in told
        assert "the ramdisk has no network" in told

    def test_a_step_failing_in_ironic_is_told_with_the_nodes_history(self) -> None:
        gone = {"fails": {"deploy": "the disk is gone"}}
        for node in self.nodes:
            self.set_on_node(node, driver_info=gone)
        server = self.wait_for(self.boot(), "ERROR")
        told = self.told_by_the_events(server)
        assert "Deploy step deploy.deploy failed: the disk is gone" in told
        assert "history of the node: ERROR, deploying, by conductor-1, at 2" in told
        self.delete(server)

    def test_when_the_image_is_at_fault_no_second_node_is_tried(self) -> None:
        tried = self.let_deployments_fail(exceptions.ImageRefused)
        server = self.wait_for(self.boot(), "ERROR")
        assert len(tried) == 1
        assert "aborted: the image has no kernel" in server["fault"]["message"]
        assert {self.node(node)["instance_uuid"] for node in self.nodes} == {None}

    def test_when_a_node_is_at_fault_the_others_are_tried(self) -> None:
        tried = self.let_deployments_fail(exceptions.DeployFailed)
        server = self.wait_for(self.boot(), "ERROR")
        assert set(tried) == set(self.nodes)
        assert {self.node(node)["instance_uuid"] for node in self.nodes} == {None}
        self.delete(server)

    def let_deployments_fail(self, kind: type[exceptions.DeployFailed]) -> list[str]:
        """Let Ironic's answer to every deployment be an error of a kind."""
        tried: list[str] = []
        spawn = self.compute.manager.driver._driver._spawn

        def start(held: Any, drive: Any) -> None:
            tried.append(held.uuid)
            raise held.error(kind, "the image has no kernel")

        spawn._start = start
        return tried

    @pytest.mark.seldom
    def test_a_rebuild_that_ironic_refuses_is_put_back(self) -> None:
        server = self.new_server()
        node = self.node_of(server)
        before = self.node(node)["instance_info"]
        self.spoil_instance_info({"traits": 7})
        self.act(server, rebuild={"imageRef": IMAGE})
        told = self.until(
            lambda: self.told_by_the_events(server), lambda told: "Error parsing traits" in told
        )
        assert "the disk is as it was" in told
        self.wait_for(server, "ACTIVE")
        after = self.node(node)["instance_info"]
        # Ironic notes the image's type, and a rebuild renames the key of the instance's own.
        told_apart = ("image_type", KEY_PREFIX)
        for name in [one for one in (*before, *after) if one.startswith(told_apart)]:
            before[name] = after[name] = None
        assert after == before
        self.delete(server)

    def spoil_instance_info(self, more: dict[str, Any]) -> None:
        """Let every deployment ask for more than a node has."""
        records = self.compute.manager.driver._records
        records.deploy_metadata = lambda instance, network_info: more
