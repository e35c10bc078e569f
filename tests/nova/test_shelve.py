# SPDX-License-Identifier: Apache-2.0

"""A server that boots from a volume moves to other hardware: shelve, then unshelve."""

from __future__ import annotations

from typing import Any, ClassVar
from unittest import mock

from nova.tests import fixtures as nova_fixtures
from nova.volume import cinder

from tests.nova.fleets import Fleet
from tests.nova.test_volumes import ROOT, disk


class Shelve(Fleet):
    """Two nodes that can boot from a volume, over a fake Ironic.

    :cvar own: options of the service.
    """

    __test__ = False
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
        server = self.boot(imageRef="", block_device_mapping_v2=[disk(ROOT, 0)])
        self.wait_for(server, "ACTIVE")
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

    def allocated(self) -> int:
        """How many nodes are allocated in Placement."""
        providers = self.placement_call("get", "/resource_providers")["resource_providers"]
        usages = [self._get_provider_usages(one["uuid"]) for one in providers]
        return sum(sum(usage.values()) for usage in usages)

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


class TestShelve(Shelve):
    """Nova's scheduler picks the node."""

    __test__ = True


class TestPools(Shelve):
    """Ironic picks it."""

    __test__ = True
    own: ClassVar[dict[str, Any]] = {"node_selection": "ironic"}
