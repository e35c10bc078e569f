# SPDX-License-Identifier: Apache-2.0

"""A server that boots from a volume moves to other hardware: shelve, then unshelve."""

from __future__ import annotations

import itertools
import threading
from typing import Any, ClassVar
from unittest import mock

import pytest
from nova import context, exception, objects
from nova.compute import task_states, vm_states
from nova.db.main import models
from nova.tests import fixtures as nova_fixtures
from nova.volume import cinder
from oslo_utils import uuidutils

from ironic_virt import exceptions as errors
from ironic_virt.baremetal.http.connection import KeystoneChannel
from ironic_virt.driver.deploy import completion
from ironic_virt.driver.deploy.teardown import TearDown
from ironic_virt.nova.attachments import Attachments
from tests.crashing import Crash
from tests.nova.fleets import Fleet
from tests.nova.test_volumes import ROOT, disk


class Shelve(Fleet):
    """Two nodes that can boot from a volume, over a fake Ironic.

    :cvar own: options of the service.
    """

    own: ClassVar[dict[str, Any]] = {}

    def setUp(self) -> None:
        super().setUp()
        self.cinder = self.useFixture(nova_fixtures.CinderFixture(self))
        data = {"target_iqn": f"iqn.2026-01.test:{ROOT}", "target_lun": 1}
        self.cinder.VOLUME_CONNECTION_INFO = {ROOT: {"driver_volume_type": "iscsi", "data": data}}
        properties = {"cpu_arch": "x86_64", "capabilities": "iscsi_boot:True"}
        self.nodes = self.make_nodes(2, properties=properties, storage_interface="cinder")
        for node in self.nodes:
            body = {"node_uuid": node, "type": "iqn", "connector_id": f"iqn.2026-01.node:{node}"}
            self.ironic("POST", "/volume/connectors", body)
        self.compute = self.start_compute("compute1", **self.own)

    def shelved(self) -> tuple[dict[str, Any], str, str]:
        """A shelved server, the node that it had, which is broken now, and the other one."""
        server = self.new_server(imageRef="", block_device_mapping_v2=[disk(ROOT, 0)])
        (old,) = [node for node in self.nodes if self.node(node)["instance_uuid"]]
        (new,) = set(self.nodes) - {old}
        self.act(server, shelve=None)
        self.wait_for(server, "SHELVED_OFFLOADED")
        self.ironic("PUT", f"/nodes/{old}/maintenance", {"reason": "broken"})
        self.refresh(self.compute)
        return server, old, new

    def carriers(self) -> dict[str, str]:
        """The server on each node that has one."""
        uuids = {node: self.node(node)["instance_uuid"] for node in self.nodes}
        return {node: uuid for node, uuid in uuids.items() if uuid}

    def targets(self) -> list[tuple[str, str]]:
        listed = self.ironic("GET", "/volume/targets?detail=true")["targets"]
        return [(target["node_uuid"], target["volume_id"]) for target in listed]

    def unshelved(self, server: dict[str, Any], node: str) -> None:
        self.act(server, unshelve=None)
        self.wait_for(server, "ACTIVE")
        assert self.carriers() == {node: server["id"]}
        assert self.node(node)["provision_state"] == "active"
        assert self.targets() == [(node, ROOT)]
        assert self.allocated() == 1
        (attachment,) = self.cinder.volume_to_attachment[ROOT].values()
        assert attachment["connector"]["initiator"] == f"iqn.2026-01.node:{node}"

    def test_a_server_moves_to_another_node(self) -> None:
        server, _, new = self.shelved()
        assert (self.carriers(), self.targets(), self.allocated()) == ({}, [], 0)
        self.unshelved(server, new)
        self.delete(server)
        self.until(self.carriers, lambda carriers: not carriers)
        assert (self.targets(), self.allocated()) == ([], 0)

    def test_a_node_that_was_reserved_in_vain_is_given_up(self) -> None:
        server, _, new = self.shelved()

        def fail(*args: Any, **kwargs: Any) -> None:
            raise RuntimeError("Cinder is away")

        with mock.patch.object(cinder.API, "attachment_update", new=fail):
            self.act(server, unshelve=None)
            self.until(lambda: self.node(new), lambda node: node["instance_uuid"])
            self.wait_for(server, "SHELVED_OFFLOADED")
        assert (self.carriers(), self.allocated()) == ({new: server["id"]}, 1)
        self.refresh(self.compute)
        assert self.carriers() == {new: server["id"]}
        self.refresh(self.compute)
        assert (self.carriers(), self.targets(), self.allocated()) == ({}, [], 0)
        self.refresh(self.compute)
        self.unshelved(server, new)

    def test_a_node_that_is_taken_leaves_nothing(self) -> None:
        server, _, new = self.shelved()
        # The scheduler does not know yet.
        self.ironic("PUT", f"/nodes/{new}/maintenance", {"reason": "broken as well"})
        self.act(server, unshelve=None)
        self.until(
            lambda: self.api.get_instance_actions(server["id"]),
            lambda actions: any(
                one["action"] == "unshelve" and one["message"] == "Error" for one in actions
            ),
        )
        self.wait_for(server, "SHELVED_OFFLOADED")
        assert (self.carriers(), self.targets(), self.allocated()) == ({}, [], 0)

    def test_a_node_that_could_not_be_torn_down_does_not_keep_it(self) -> None:
        server, old, _ = self.shelved()
        self.ironic("DELETE", f"/nodes/{old}/maintenance")
        self.refresh(self.compute)

        def fail(*args: Any, **kwargs: Any) -> None:
            raise errors.DeployFailed(None, server["id"], "failed")

        with (
            mock.patch.object(completion, "wait", new=fail),
            mock.patch.object(TearDown, "tear_down", new=fail),
        ):
            self.act(server, unshelve=None)
            self.until(self.carriers, bool)
            self.wait_for(server, "SHELVED_OFFLOADED")
        ((left, _),) = self.carriers().items()
        self.wait_for_node(left, "active")
        self.refresh(self.compute, self.compute, self.compute)
        (other,) = set(self.nodes) - {left}
        if self.own:
            # Ironic might pick the same one again.
            self.ironic("PUT", f"/nodes/{left}/maintenance", {"reason": "broken"})
            self.refresh(self.compute)
        self.unshelved(server, other)

    def test_one_that_a_restart_interrupts_is_finished(self) -> None:
        server = self.new_server(imageRef="", block_device_mapping_v2=[disk(ROOT, 0)])
        ((node, _),) = self.carriers().items()
        self.compute.stop()
        where = models.Instance.uuid == server["id"]
        self.in_cell(models.Instance, where, task_state=task_states.SHELVING)
        # It had come so far.
        self.fake.set_node(node, protected=False)
        self.ironic("PUT", f"/nodes/{node}/states/provision", {"target": "deleted"})
        self.wait_for_node(node, "available")
        for target in self.ironic("GET", "/volume/targets?detail=true")["targets"]:
            self.ironic("DELETE", f"/volume/targets/{target['uuid']}")
        self.compute = self.start_compute("compute1", **self.own)
        self.wait_for(server, "SHELVED_OFFLOADED")
        assert (self.carriers(), self.targets(), self.allocated()) == ({}, [], 0)
        self.ironic("PUT", f"/nodes/{node}/maintenance", {"reason": "broken"})
        self.refresh(self.compute)
        (other,) = set(self.nodes) - {node}
        self.unshelved(server, other)
        self.compute.stop()
        task = {"vm_state": vm_states.SHELVED_OFFLOADED, "task_state": task_states.SPAWNING}
        self.in_cell(models.Instance, where, **task)
        self.compute = self.start_compute("compute1", **self.own)
        self.wait_for(server, "ACTIVE")

    @pytest.mark.seldom
    def test_ten_of_ten_move(self) -> None:
        server, old, new = self.shelved()
        for _ in range(10):
            self.unshelved(server, new)
            self.ironic("DELETE", f"/nodes/{old}/maintenance")
            old, new = new, old
            self.refresh(self.compute)
            self.act(server, shelve=None)
            self.wait_for(server, "SHELVED_OFFLOADED")
            assert (self.carriers(), self.targets(), self.allocated()) == ({}, [], 0)
            self.ironic("PUT", f"/nodes/{old}/maintenance", {"reason": "broken"})
            self.refresh(self.compute)

    @pytest.mark.seldom
    def test_killed_before_each_change_of_ironic(self) -> None:
        self.kill_at_each_change(after=False)

    @pytest.mark.seldom
    def test_killed_after_each_change_of_ironic(self) -> None:
        self.kill_at_each_change(after=True)

    def kill_at_each_change(self, *, after: bool) -> None:
        """In the reservation, at the volume target, at the deployment, and in between."""
        death = self.enterContext(Death())
        for at in itertools.count(1):
            server, old, new = self.shelved()
            death.comes(at, after=after)
            if not self.dies(server, death):
                break
            self.compute.stop()
            self.compute = self.start_compute("compute1", **self.own)
            if self.server(server)["OS-EXT-STS:task_state"] is not None:
                # An operator does so, if nobody carries the task out.
                self.act(server, **{"os-resetState": {"state": "error"}})
            if self.server(server)["status"] == "SHELVED_OFFLOADED":
                self.refresh(self.compute, self.compute)
                self.unshelved(server, new)
            self.end(server, old)
        assert at > 3, at
        death.stays_away()
        self.end(server, old)

    def dies(self, server: dict[str, Any], death: Death) -> bool:
        """Unshelve a server, until that has ended or the service dies."""
        self.act(server, unshelve=None)
        seen = self.until(
            lambda: (death.came, self.server(server)["status"]),
            lambda seen: seen[0] or seen[1] == "ACTIVE",
        )
        return bool(seen[0])

    def end(self, server: dict[str, Any], old: str) -> None:
        """Delete the server: nothing is left."""
        self.delete(server)
        self.ironic("DELETE", f"/nodes/{old}/maintenance")
        self.refresh(self.compute, self.compute, self.compute)
        # Nova's own task, each half an hour: it tears down what Ironic had begun to deploy.
        self.compute.manager._cleanup_running_deleted_instances(context.get_admin_context())
        self.until(self.carriers, lambda carriers: not carriers)
        assert (self.targets(), self.allocated()) == ([], 0)
        for node in self.nodes:
            self.wait_for_node(node, "available")
            assert self.ironic("GET", f"/nodes/{node}/vifs")["vifs"] == []
        self.refresh(self.compute)


class Death:
    """The process dies at a change of Ironic: each of its later requests does, too."""

    def __init__(self) -> None:
        self._send = KeystoneChannel.send
        self._lock = threading.Lock()
        self._dead: set[int] = set()
        self._channels: list[Any] = []
        self._remaining, self._after = 0, False
        self.came = False

    def comes(self, at: int, *, after: bool) -> None:
        """Have it come at a change from now on, before it is sent or when it was answered."""
        self._remaining, self._after, self.came = at, after, False

    def stays_away(self) -> None:
        """Have it not come any more."""
        self._remaining = 0

    def __enter__(self) -> Death:
        death = self

        def send(channel: Any, method: str, path: str, **request: Any) -> Any:
            return death.send(channel, method, path, **request)

        self._patch = mock.patch.object(KeystoneChannel, "send", new=send)
        self._patch.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._patch.stop()

    def send(self, channel: Any, method: str, path: str, **request: Any) -> Any:
        with self._lock:
            # Kept, so that no other one gets its id.
            self._channels.append(channel)
            dies = False
            if method != "GET" and self._remaining:
                self._remaining -= 1
                dies = not self._remaining
            is_dead = id(channel) in self._dead
            if dies:
                self._dead.update(map(id, self._channels))
        if is_dead or (dies and not self._after):
            self.came = self.came or dies
            raise Crash(path)
        answer = self._send(channel, method, path, **request)
        if dies:
            self.came = True
            raise Crash(path)
        return answer


class TestShelve(Shelve):
    """Nova's scheduler picks the node."""


class TestPools(Shelve):
    """Ironic picks it."""

    own: ClassVar[dict[str, Any]] = {"node_selection": "ironic"}


@pytest.mark.parametrize("chosen", [(), ("u1", "u2"), ("elsewhere",), errors.InventoryTooOld("")])
def test_a_place_that_is_not_certain_is_not_reserved(chosen: Any) -> None:
    volumes, uuids = Attachments(), {"n1": "u1", "n2": "u2"}
    volumes._driver, volumes._records = mock.Mock(), mock.Mock()
    nodes = chosen if isinstance(chosen, Exception) else list(uuids)
    volumes._driver.get_available_nodes.side_effect = [nodes]
    volumes._driver.record_uuid = uuids.get
    volumes._records.places.return_value = chosen
    volumes._records.release_place.side_effect = exception.AllocationDeleteFailed(
        consumer_uuid="", error="Placement is away"
    )
    server = objects.Instance(uuid=uuidutils.generate_uuid(), node=None)
    server.vm_state, server.task_state = vm_states.SHELVED_OFFLOADED, task_states.SPAWNING
    with pytest.raises(exception.NovaException, match=r"(Placement names|Ironic).*is away"):
        volumes.get_volume_connector(server)
    volumes._driver.prepare_for_spawn.assert_not_called()
    volumes._records.release_place.assert_called_once_with(server.uuid)
