# SPDX-License-Identifier: Apache-2.0

"""``ironic-virt-fleet check`` in the real Nova: what it finds, and what fixes it."""

from nova.cmd import manage
from nova.db.main import models

from ironic_virt.exit_codes import FleetExitCode
from tests.nova.deployment import RESOURCE_CLASS
from tests.nova.fleets import Fleet

NOBODY = "5c0d0f6e-0000-4000-8000-000000000009"
GOLD = "CUSTOM_BAREMETAL_GOLD"


class TestCheck(Fleet):
    """Two services with a shard each; one of them has a server."""

    def setUp(self) -> None:
        super().setUp()
        self.taken, self.free = self.make_nodes(2, shard="a", traits=["CUSTOM_SSD"])
        (self.other,) = self.make_nodes(1, shard="b")
        self.a = self.start_compute("compute-a", shard="a")
        self.b = self.start_compute("compute-b", shard="b")
        self.server_id = self.boot_at("compute-a", self.taken)["id"]
        self.refresh(self.a, self.b)

    def test_a_sound_fleet(self) -> None:
        assert self.check() == {}
        assert "3 nodes, 3 records, 1 servers, 2 services: found nothing" in self.said
        # Without the files it says what it can't know, and finds nothing.
        assert self.fleet("check") == []
        assert "compute-a, compute-b" in self.said

    def test_what_is_wrong_in_placement_is_found_and_mended(self) -> None:
        call = self.placement_call
        # An allocation of nobody.
        held = {"allocations": {self.free: {"resources": {GOLD: 1}}}, "consumer_generation": None}
        owner = {"project_id": "p", "user_id": "u"}
        call("put", f"/allocations/{NOBODY}", {**held, **owner})
        assert self.check() == {"allocation-of-nobody": self.free}
        fix = ("check", *self.service_files, "--fix")
        both = "allocation-of-nobody", "--fix", "offered-unavailable"
        (dry,) = self.fleet(*fix, *both, code=FleetExitCode.FOUND)
        assert "would be corrected" in dry["Outcome"]
        assert self.check() == {"allocation-of-nobody": self.free}
        (done,) = self.fleet(*fix, "allocation-of-nobody", "--apply")
        assert NOBODY in done["Outcome"]
        assert self.check() == {}
        # A node in maintenance that is still offered.
        self.fake.set_node(self.free, maintenance=True)
        assert self.check() == {"offered-unavailable": self.free}
        self.fleet(*fix, "offered-unavailable", "--apply")
        assert self.check() == {}
        self.refresh(self.a)
        self.fake.set_node(self.free, maintenance=False)
        assert self.check() == {"reserved-differs": self.free}
        self.refresh(self.a)
        assert self.check() == {}
        # A provider of another name.
        call("put", f"/resource_providers/{self.free}", {"name": "x"})
        assert self.check() == {"provider-name-wrong": self.free}
        call("put", f"/resource_providers/{self.free}", {"name": self.free})
        # Traits and class.
        self.fake.set_node(self.free, traits=("CUSTOM_OTHER",))
        assert self.check() == {"traits-differ": self.free}
        self.refresh(self.a)
        self.fake.set_node(self.free, resource_class="silver")
        assert set(self.check()) == {"inventory-differs", "node-without-flavor"}
        self.refresh(self.a)
        assert self.check() == {"node-without-flavor": self.free}
        self.fake.set_node(self.free, resource_class=RESOURCE_CLASS)
        self.refresh(self.a)
        assert self.check() == {}
        # A server without its allocation.
        call("delete", f"/allocations/{self.server_id}")
        assert self.check() == {"allocation-missing": self.server_id}
        # Nova's own command can't: a node with a server is reserved.
        assert manage.PlacementCommands().heal_allocations(instance_uuid=self.server_id) == 3
        self.fleet(*fix, "allocation-missing", "--apply")
        assert self.check() == {}
        wrong = {"allocations": {self.other: {"resources": {GOLD: 1}}}, **owner}
        call("put", f"/allocations/{self.server_id}", {**wrong, "consumer_generation": 1})
        assert set(self.check()) == {"allocation-missing", "allocation-elsewhere"}
        self.fleet(*fix, "allocation-elsewhere", "--apply")
        assert self.check() == {}

    def test_a_server_of_a_renamed_class_gets_its_allocation_again(self) -> None:
        self.fake.set_node(self.taken, resource_class="R640 (96G)")
        asked = {"resources__CUSTOM_BAREMETAL_GOLD": "0", "resources__CUSTOM_R640_96G_": "1"}
        self.make_flavor(**asked)
        # Placement refuses this: the former class is in use.
        self.refresh(self.a)
        assert self.check() == {"resource-class-renamed": self.taken}
        assert f"server {self.server_id} holds {GOLD} of it" in self.rows[0]["Finding"]
        # What the finding says to do.
        self.placement_call("delete", f"/allocations/{self.server_id}")
        self.refresh(self.a)
        self.fleet("check", *self.service_files, "--fix", "allocation-missing", "--apply")
        assert self.check() == {}
        held = self.placement.get(f"/allocations/{self.server_id}").body["allocations"]
        assert held[self.taken]["resources"] == {"CUSTOM_R640_96G_": 1}

    def test_what_is_mended_leaves_all_else_alone(self) -> None:
        call = self.placement_call
        owner = {"project_id": "p", "user_id": "u"}
        fix = ("check", *self.service_files, "--fix")
        # A port's bandwidth, and an allocation that is Cinder's.
        shared = call("post", "/resource_providers", {"name": "shared"})["uuid"]
        stock = {"NET_BW_EGR_KILOBIT_PER_SEC": {"total": 9}, "SRIOV_NET_VF": {"total": 9}}
        body = {"resource_provider_generation": 0, "inventories": stock}
        call("put", f"/resource_providers/{shared}/inventories", body)
        bandwidth = {shared: {"resources": {"NET_BW_EGR_KILOBIT_PER_SEC": 1}}}
        held = {"allocations": bandwidth, "consumer_generation": 1}
        call("put", f"/allocations/{self.server_id}", {**held, **owner})
        assert self.check() == {"allocation-missing": self.server_id}
        # Ironic carries the server on another node than Nova's record says.
        self.fake.set_node(self.taken, instance_uuid=None)
        self.fake.set_node(self.other, instance_uuid=self.server_id)
        (row,) = self.fleet(*fix, "allocation-missing", "--apply")
        assert f"left alone: node {self.other} carries server {self.server_id}" in row["Outcome"]
        self.fake.set_node(self.other, instance_uuid=None)
        # Nova's provider.yaml may add a class, which flavors ask for along with the node's.
        self.fake.set_node(self.taken, instance_uuid=self.server_id, provision_updated_at=None)
        stocks = f"/resource_providers/{self.taken}/inventories"
        call("post", "/resource_classes", {"name": "CUSTOM_LICENSE"})
        body = call("get", stocks)
        body["inventories"]["CUSTOM_LICENSE"] = {"total": 4}
        call("put", stocks, body)
        assert self.check() == {"allocation-missing": self.server_id}
        self.fleet(*fix, "allocation-missing", "--apply")
        after = call("get", f"/allocations/{self.server_id}")["allocations"]
        assert {one: each["resources"] for one, each in after.items()} == {
            shared: {"NET_BW_EGR_KILOBIT_PER_SEC": 1},
            self.taken: {GOLD: 1},
        }
        # A consumer that is not a server is not one that Nova lacks.
        held = {"allocations": {self.free: {"resources": {GOLD: 1}}}, "consumer_generation": None}
        body = {**held, **owner, "consumer_type": "VOLUME"}
        answer = self.placement.put(f"/allocations/{NOBODY}", body, version="1.38")
        assert answer.status == 204
        assert self.check() == {}

    def test_what_is_wrong_in_records_is_found_and_mended(self) -> None:
        # The record of a node with a server is another host's.
        self.set_record_host(self.taken, "compute-b")
        wrong = {"host-differs": self.server_id, "node-outside-its-service": self.taken}
        assert self.check() == wrong
        self.set_record_host(self.taken, "compute-a")
        # Ironic has lost a node, has one more, has another server, or none.
        kept = self.fake.node(self.other)
        self.fake.remove_node(self.other)
        assert self.check() == {"record-without-node": self.other}
        self.refresh(self.b)
        assert self.check() == {}
        assert kept["uuid"] == self.other
        (new,) = self.make_nodes(1, shard="b")
        assert self.check() == {"node-without-record": new}
        self.refresh(self.b)
        self.fake.set_node(new, instance_uuid=NOBODY, provision_state="active")
        self.refresh(self.b)
        assert self.check() == {"node-with-unknown-instance": new}
        self.fake.set_node(new, instance_uuid=None, provision_state="available")
        self.fake.set_node(self.taken, instance_uuid=None)
        assert self.check()["server-without-node"] == self.server_id
        self.fake.set_node(self.taken, instance_uuid=self.server_id)
        self.refresh(self.b)
        # Nova has deleted a server, and the node carries it.
        where = models.Instance.uuid == self.server_id
        self.in_cell(models.Instance, where, deleted=1)
        codes = "node-with-deleted-instance", "allocation-of-nobody"
        assert self.check() == dict.fromkeys(codes, self.taken)
        self.in_cell(models.Instance, where, deleted=0)
        # A shard that is nobody's, a service that is down.
        self.fake.set_node(self.free, shard="c")
        assert self.check()["node-in-no-target-set"] == self.free
        self.fake.set_node(self.free, shard="a")
        self.force_down("compute-b")
        assert self.check() == {"service-down": "compute-b"}
        self.force_down("compute-b", False)
        assert self.check() == {}

    def test_what_can_not_be_read_is_no_finding(self) -> None:
        file = self._files / "compute-typo.conf"
        file.write_text("[ironic]\nshard = a\n")
        for option in ("--serves=compute-typo=a", f"--service-conf=compute-typo={file}"):
            self.fleet("check", *self.service_files, option, code=1)
            assert "no nova-compute on compute-typo, only on compute-a, compute-b" in self.said
        self.flags(endpoint_override="http://127.0.0.1:9", api_max_retries=0, group="ironic")
        assert self.fleet("check", code=1) is None
        assert "Ironic" in self.said
        self.fleet("check", "--cell", "cell9", code=1)
        assert "no cell cell9" in self.said


class TestPools(Fleet):
    """One service that reports pools, with a server in one of them."""

    def setUp(self) -> None:
        super().setUp()
        self.nodes = self.make_nodes(3)
        self.compute = self.start_compute("compute-a", node_selection="ironic")
        self.booted = self.new_server()
        self.refresh(self.compute)

    def test_pools_are_sound_and_so_is_what_is_allocated_from_them(self) -> None:
        assert self.check() == {}
        assert manage.PlacementCommands().audit() == 0
        (pool,) = self.hosts()
        self.placement_call("delete", f"/allocations/{self.booted['id']}")
        assert self.check() == {"allocation-missing": self.booted["id"]}
        assert pool in self.rows[0]["Finding"]
        self.fleet("check", "--fix", "allocation-missing", "--apply")
        assert self.check() == {}
        # Numbers that are not reported yet.
        free = next(one for one in self.nodes if not self.node(one)["instance_uuid"])
        for node in self.nodes:
            # Deployed long ago.
            self.fake.set_node(node, provision_updated_at=None)
        self.fake.set_node(free, maintenance=True)
        assert self.check() == {"pool-differs": pool}
        words = "3 (0 reserved) in it, but by its nodes it should be 3 (1 reserved)"
        assert words in self.rows[0]["Finding"]
        self.refresh(self.compute)
        assert self.check() == {}
