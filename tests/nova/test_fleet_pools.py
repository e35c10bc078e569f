# SPDX-License-Identifier: Apache-2.0

"""``ironic-virt-fleet pools enter`` and ``leave`` in the real Nova, with servers."""

import argparse
import contextlib
import datetime
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import pytest
from keystoneauth1 import exceptions as ksa_exceptions
from nova import context, objects
from nova.db.main import models
from nova.scheduler.client import report

from ironic_virt.cmd import fleet_pools
from ironic_virt.driver.pools.names import pool_name, pool_uuid
from ironic_virt.fleet import lock
from ironic_virt.fleet.deployment import Service
from ironic_virt.fleet.placement import PlacementClient
from ironic_virt.fleet.plans import nova_world
from ironic_virt.fleet.plans.apply import MoveRefused
from ironic_virt.fleet.pools import conversion, convert
from tests import depth
from tests.nova import figures
from tests.nova.deployment import RESOURCE_CLASS, Deployment
from tests.nova.fleets import Fleet
from tools import real_ironic

HOST = "compute-a"
GOLD = "CUSTOM_BAREMETAL_GOLD"
POOL = pool_name(HOST, (RESOURCE_CLASS, frozenset()))
FAST = pool_name(HOST, (RESOURCE_CLASS, frozenset({"CUSTOM_GPU"})))
ZONE = "5c0d0f6e-0000-4000-8000-0000000000aa"


class CutOffError(BaseException):
    """The process ends here."""


class Converted(Fleet):
    """Base class: one service, which is stopped and started."""

    def setUp(self) -> None:
        super().setUp()
        # A service that is stopped has reported last when it was started.
        self.flags(report_interval=0)
        self.compute: Any = None

    def start(self, driver: str | None = None, **options: Any) -> None:
        self.compute = self.start_compute(HOST, driver, **options)
        self.force_down(HOST, False)
        # It does so itself in a period; there is none here.
        now = datetime.datetime.now(datetime.UTC).replace(tzinfo=None)
        self.in_cell(models.Service, models.Service.host == HOST, last_seen_up=now)
        self.refresh(self.compute)

    def stop(self) -> None:
        self.compute.stop()
        self.force_down(HOST)

    def convert(self, verb: str, *arguments: str, code: int = 0) -> Any:
        return self.fleet("pools", verb, HOST, *arguments, code=code)

    def seen(self) -> tuple[Any, ...]:
        """What Nova and Placement have: records, servers' places, allocations, providers."""
        admin = context.get_admin_context()
        records = {
            one.id: (one.uuid, one.hypervisor_hostname)
            for one in objects.ComputeNodeList.get_all_by_host(admin, HOST)
        }
        servers = objects.InstanceList.get_by_host(admin, HOST)
        places, held = {}, {}
        for one in servers:
            # After any interruption a server has a record, and one allocation.
            assert records[one.compute_id][1] == one.node
            places[one.uuid] = one.node
            ((provider, body),) = self._get_allocations_by_server_uuid(one.uuid).items()
            assert body["resources"] == {GOLD: 1}
            held[one.uuid] = provider
        providers = {one["uuid"]: one["name"] for one in self._get_all_providers()}
        assert held.keys() == places.keys()
        assert set(held.values()) <= providers.keys()
        return set(records.values()), places, held, set(providers.items())


def test_nothing_is_converted_while_one_of_the_services_runs(monkeypatch) -> None:
    service = Service("cell1", 1, HOST)
    plans = [conversion.Conversion(service, why) for why in ("", "x")]
    monkeypatch.setattr(fleet_pools.Enter, "reader", mock.Mock())
    monkeypatch.setattr(lock, "held", lambda: contextlib.nullcontext(lambda: None))
    monkeypatch.setattr(nova_world, "NovaWorld", mock.Mock())
    monkeypatch.setattr(conversion, "plan", mock.Mock(side_effect=plans))
    run = mock.Mock(return_value=[])
    monkeypatch.setattr(convert, "run", run)
    args = argparse.Namespace(hosts=["a", "b"], dry_run=False)
    with pytest.raises(MoveRefused, match=r"^x$"):
        fleet_pools.Enter(mock.Mock(**{"options.verbose_level": 0}), args).act(args)
    run.assert_not_called()


class TestThereAndBack(Converted):
    """With servers, over a real Ironic: from our driver into pools, and out to Nova's own."""

    given = "ironic"
    make_nodes = Deployment.make_nodes

    def provide_ironic(self) -> real_ironic.RealIronic:
        return self._real

    def used(self, servers: list[dict[str, Any]]) -> None:
        """Reboot servers, and stop and start one."""
        for server in servers:
            self.reboot(server)
        self.act(servers[0], **{"os-stop": None})
        self.wait_for(servers[0], "SHUTOFF")
        self.act(servers[0], **{"os-start": None})
        self.wait_for(servers[0], "ACTIVE")

    def aggregates(self, provider: str) -> list[str]:
        path = f"/resource_providers/{provider}/aggregates"
        return self.placement_call("get", path)["aggregates"]

    def power(self, nodes: list[str]) -> dict[str, tuple[str, str]]:
        return {
            uuid: (node["provision_state"], node["power_state"])
            for uuid in nodes
            if (node := self.node(uuid))
        }

    @pytest.mark.nightly  # Six minutes on a quiet machine.
    def test_with_servers(self) -> None:
        plain, gpu = self.make_nodes(4), self.make_nodes(1, traits=["CUSTOM_GPU"])
        nodes = [*plain, *gpu]
        self.start(figures.IN_TREE)
        olds = [self.boot_at(HOST, node, f"old-{node}") for node in (*plain[:2], *gpu)]
        self.refresh(self.compute)
        path = f"/resource_providers/{plain[3]}"
        generation = self.placement_call("get", path)["generation"]
        body = {"aggregates": [ZONE], "resource_provider_generation": generation}
        self.placement_call("put", f"{path}/aggregates", body)
        assert self.check() == {}
        before, power = self.seen(), self.power(nodes)

        # A service that runs is left alone.
        self.convert("enter", code=1)
        assert f"stop nova-compute on {HOST}, and force it down" in self.said
        self.stop()
        (*dry,) = self.convert("enter", "--dry-run")
        assert {row["Outcome"] for row in dry} == {"would be done"}
        assert self.seen() == before

        (*done,) = self.convert("enter")
        assert {row["Server"] for row in done} == {server["id"] for server in olds}
        assert {row["Outcome"] for row in done} == {"done"}
        assert self.convert("enter") == []
        records, places, held, providers = self.seen()
        uuids = {name: uuid for uuid, name in records}
        assert providers == records
        assert uuids.keys() == {POOL, FAST}
        first, second, third = (server["id"] for server in olds)
        assert places == {first: POOL, second: POOL, third: FAST}
        assert held == {server: uuids[pool] for server, pool in places.items()}
        assert self.aggregates(uuids[POOL]) == [ZONE]
        assert self.power(nodes) == power
        assert set(self.check()) == {"service-down"}

        # The service finds nothing to correct.
        self.start(node_selection="ironic")
        assert self.check() == {}
        assert self.seen() == (records, places, held, providers)
        assert self.free_places() == {POOL: 2}
        assert {one["id"] for one in self.api.get_servers()} == {first, second, third}
        self.used(olds)
        new = self.new_server("new")
        assert self.node_of(new) == POOL
        self.refresh(self.compute)
        assert self.free_places() == {POOL: 1}
        self.say_image_type(self.carrier(olds[0]))
        self.rebuild(olds[0])
        self.wait_for(olds[0], "ACTIVE")
        self.delete_and_free(olds[1])
        self.refresh(self.compute)
        assert self.free_places() == {POOL: 2}

        # Out of them, to Nova's own driver.
        self.convert("leave", code=1)
        self.stop()
        living = [olds[0], olds[2], new]
        carriers = {server["id"]: self.carrier(server) for server in living}
        (*done,) = self.convert("leave")
        assert {row["Server"]: row["Node"] for row in done} == carriers
        assert self.convert("leave") == []
        _, places, held, providers = self.seen()
        assert (places, held) == (carriers, carriers)
        assert providers == {(node, node) for node in carriers.values()}
        assert self.aggregates(self.carrier(new)) == [ZONE]
        assert set(self.check()) - {"node-without-record"} == {"service-down"}
        protected = {carriers[server["id"]] for server in (olds[0], new)}
        assert {one["Node"] for one in self.fleet("unprotect", HOST)} == protected
        self.start(figures.IN_TREE)
        assert not type(self.compute.manager.driver).__module__.startswith("ironic_virt")
        assert self.check() == {}
        _, places, held, providers = self.seen()
        assert (places, held) == (carriers, carriers)
        assert providers == {(node, node) for node in nodes}
        assert self.free_places() == dict.fromkeys(set(nodes) - set(carriers.values()), 1)
        self.used(living)
        newer = self.new_server("newer")
        for server in (*living, newer):
            self.delete_and_free(server)
        self.refresh(self.compute)
        assert self.free_places() == dict.fromkeys(nodes, 1)
        assert self.check() == {}


class TestCutOff(Converted):
    """Over the fake Ironic: what stays, and cut off before each change in turn."""

    def setUp(self) -> None:
        super().setUp()
        self.first, self.second = self.make_nodes(2)
        (self.gpu,) = self.make_nodes(1, traits=["CUSTOM_GPU"])
        self.start()
        self.servers = {
            node: self.boot_at(HOST, node, f"server-{node}")["id"]
            for node in (self.first, self.gpu)
        }
        self.refresh(self.compute)
        self.stop()

    def outcomes(self, verb: str, code: int) -> dict[str, str]:
        rows = self.convert(verb, code=code)
        return {row["Server"]: row["Outcome"] for row in rows if row["Server"]}

    def placed_by(self, answer: Callable[[], Any]) -> Any:
        """Who answers requests to allocate."""
        put = report.SchedulerReportClient.put

        def ask(client: Any, url: str, *args: Any, **kwargs: Any) -> Any:
            return answer() if "/allocations/" in url else put(client, url, *args, **kwargs)

        return mock.patch.object(report.SchedulerReportClient, "put", ask)

    def test_what_can_not_go_stays_until_it_can(self) -> None:
        (plain, fast) = (self.servers[node] for node in (self.first, self.gpu))
        # Something that others than Nova's compute give is kept.
        path = "/resource_providers"
        shared = self.placement_call("post", path, {"name": "shared"})["uuid"]
        stock = {"resource_provider_generation": 0, "inventories": {"IPV4_ADDRESS": {"total": 9}}}
        self.placement_call("put", f"{path}/{shared}/inventories", stock)
        # Earlier Placements refuse what is held already where all is reserved.
        inventories = self.placement_call("get", f"{path}/{self.first}/inventories")
        inventories["inventories"][GOLD]["reserved"] = 0
        self.placement_call("put", f"{path}/{self.first}/inventories", inventories)
        held = self.placement_call("get", f"/allocations/{plain}")
        held["allocations"][shared] = {"resources": {"IPV4_ADDRESS": 1}}
        self.placement_call("put", f"/allocations/{plain}", held)
        # Placement is silent: it is not asked for each server.
        silent = mock.Mock(side_effect=ksa_exceptions.ConnectTimeout("mute"))
        with self.placed_by(silent):
            assert self.outcomes("enter", 1) == {}
        assert silent.call_count == 1
        assert "Run the command again" in self.said
        where = models.Instance.uuid == fast
        self.in_cell(models.Instance, where, task_state="rebooting")
        assert self.outcomes("enter", 2) == {plain: "done", fast: "waits"}
        held = self.placement_call("get", f"/allocations/{plain}")["allocations"]
        assert {uuid: one["resources"] for uuid, one in held.items()} == {
            pool_uuid(POOL): {GOLD: 1},
            shared: {"IPV4_ADDRESS": 1},
        }
        assert self.hosts().keys() == {POOL, FAST, self.gpu}
        self.in_cell(models.Instance, where, task_state=None)
        # Placement refuses what Nova's provider.yaml gives the node, and not the pool.
        self.placement_call("post", "/resource_classes", {"name": "CUSTOM_LICENSE"})
        stocks = self.placement_call("get", f"{path}/{self.gpu}/inventories")
        stocks["inventories"] |= {GOLD: {"total": 1}, "CUSTOM_LICENSE": {"total": 4}}
        self.placement_call("put", f"{path}/{self.gpu}/inventories", stocks)
        for code, more in ((1, {"CUSTOM_LICENSE": 1}), (0, {})):
            held = self.placement_call("get", f"/allocations/{fast}")
            held["allocations"][self.gpu]["resources"] = {GOLD: 1} | more
            self.placement_call("put", f"/allocations/{fast}", held)
            assert self.outcomes("enter", code) == {fast: ("done", "failed")[code]}
            assert (self.gpu in self.hosts()) == bool(code)
        assert self.hosts().keys() == {POOL, FAST}
        self.start(node_selection="ironic")
        assert self.check() == {}

    def test_what_another_host_has_got_meanwhile_is_left_alone(self) -> None:
        """By ``nova-manage db ironic_compute_node_move``, which heeds no lock."""
        offer, offered = PlacementClient.offer, []

        def noted(client: Any, provider: str, *more: Any) -> None:
            offered.append(provider)
            offer(client, provider, *more)

        self.stub_out("ironic_virt.fleet.placement.PlacementClient.offer", noted)
        for verb, step, node in (
            ("enter", "remove", self.second),
            ("leave", "provide", self.first),
        ):
            act = getattr(convert._Steps, step)

            def moved(steps: Any, about: Any, node: str = node, act: Any = act) -> None:
                if about.name == node:
                    where = models.ComputeNode.uuid == node
                    self.in_cell(models.ComputeNode, where, host="compute-b", deleted=0)
                act(steps, about)

            with mock.patch.object(convert._Steps, step, moved):
                rows = self.convert(verb, code=2)
            (reason,) = {row["Reason"] for row in rows if row["Outcome"] == "refused"}
            assert "another host" in reason or "host compute-b" in reason
            assert self.hosts()[node] == "compute-b"
        assert self.second in {one["uuid"] for one in self._get_all_providers()}
        assert self.first not in offered

    @contextlib.contextmanager
    def cut_off(self, number: int) -> Iterator[list[str]]:
        """Let the process end before a change, and count them."""
        made: list[str] = []

        def counted(owner: Any, name: str) -> Any:
            original = getattr(owner, name)

            def call(*args: Any, **kwargs: Any) -> Any:
                if len(made) == number:
                    raise CutOffError(name)
                made.append(name)
                return original(*args, **kwargs)

            return mock.patch.object(owner, name, call)

        with contextlib.ExitStack() as stack:
            for name in ("put", "post", "delete"):
                stack.enter_context(counted(report.SchedulerReportClient, name))
            for name in ("create", "save", "destroy"):
                stack.enter_context(counted(objects.ComputeNode, name))
            # Before a server's row is written, its allocation has moved.
            stack.enter_context(counted(convert.sa, "update"))
            yield made

    def test_it_goes_on_where_it_was_cut_off(self) -> None:
        self.convert("enter")
        inside = self.seen()
        self.convert("leave")
        # Only nodes with a server have a record now.
        outside = self.seen()
        for verb, back, goal in (("enter", "leave", inside), ("leave", "enter", outside)):
            number, was_cut = 0, True
            while was_cut:
                with self.cut_off(number) as made:
                    try:
                        self.convert(verb)
                        was_cut = False
                    except CutOffError:
                        assert len(made) == number
                        assert "Run the command again" in self.said
                self.seen()
                self.convert(verb)
                assert self.seen() == goal, (verb, number, made)
                # By day each third one.
                number += depth.choose(3, nightly=1)
                if was_cut:
                    self.convert(back)
            assert len(made) > 10, made
        self.start(node_selection="scheduler")
        assert self.check() == {}
        for server in self.api.get_servers():
            self.reboot(server)
            self.delete(server)
