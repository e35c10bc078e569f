# SPDX-License-Identifier: Apache-2.0

"""What is read of services and cells, and set in Ironic: leases, names, clocks and shards."""

import contextlib
import datetime
import functools
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
from keystoneauth1 import exceptions as ksa_exceptions
from nova import config, context, objects
from nova.db.main import api as main_db
from nova.scheduler.client import report
from openstack import exceptions as sdk_exceptions
from oslo_config import cfg
from sqlalchemy.exc import OperationalError

from ironic_virt import exceptions, standby
from ironic_virt.baremetal.client import IronicClient
from ironic_virt.baremetal.http.retry import RetryPolicy
from ironic_virt.fleet import cells, checks, lock, nova_conf, placement, reading
from ironic_virt.fleet.deployment import Record, Server
from ironic_virt.fleet.hosts import Aggregate, Hosts
from ironic_virt.fleet.options import ServiceOptions
from ironic_virt.fleet.plans.apply import Effect, MoveRefused
from ironic_virt.fleet.plans.nova_world import NovaWorld
from ironic_virt.fleet.pools import convert
from ironic_virt.fleet.reading import Reader
from ironic_virt.testing.fake_ironic import FakeIronic
from tests.in_process import InProcessChannel
from tests.unit.fleet.deployments import GOLD, NOW, changed, fleet, node, node_uuid, server_uuid


def test_a_silent_backend_is_asked_once_for_all_its_services(monkeypatch) -> None:
    urls = {"a": "etcd3+http://e", "b": "redis://r", "c": "redis://r", "d": "", "e": "redis://r"}
    asked = []

    def look(url: str, ttl: int, namespace: str, host: str) -> standby.Look:
        asked.append(host)
        return standby.Look(untold="no answer") if url == "redis://r" else standby.Look(age=1.0)

    monkeypatch.setattr(standby, "look_at_lease", look)
    options = {
        host: ServiceOptions(host, written={"standby_backend_url": url} if url else {})
        for host, url in urls.items()
    }
    found = Reader(cfg.ConfigOpts(), options=options).leases()
    assert asked == ["a", "b"]
    silent = dict.fromkeys("bce", standby.Look(untold="no answer"))
    assert found == {"a": standby.Look(age=1.0), **silent}


def test_two_cells_of_one_name_are_two(monkeypatch: pytest.MonkeyPatch) -> None:
    objects.register_all()
    mappings = [
        SimpleNamespace(name="cell", uuid=uuid, is_cell0=lambda: False) for uuid in ("b", "a")
    ]
    monkeypatch.setattr(objects.CellMappingList, "get_all", lambda context: mappings)
    monkeypatch.setattr(context, "set_target_cell", lambda context, mapping: None)
    monkeypatch.setattr(context, "get_admin_context", lambda: None)
    assert [(cell.uuid, cell.name) for cell in cells.cells()] == [("a", "cell"), ("b", "cell")]
    assert [cell.uuid for cell in cells.cells(["b"])] == ["b"]
    # A name that two have names both.
    assert len(cells.cells(["cell"])) == 2


def test_a_database_says_by_its_clock_who_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    row = SimpleNamespace(
        id=1, host="a", forced_down=0, disabled=0, report_count=1, created_at=None,
        last_seen_up=NOW.replace(tzinfo=None),
    )  # fmt: skip
    cell = cells.Cell("c", "c", None)
    monkeypatch.setattr(cells, "_select_rows", lambda cell, statement: [row])
    late = NOW + datetime.timedelta(hours=1)
    for clock, here, is_up in ((NOW, late, True), (late, NOW, False), (None, late, False)):
        monkeypatch.setattr(cells, "clock", lambda cell, clock=clock: clock)
        (service,) = cells.services(cell, 60, here)
        assert service.up is is_up


def test_slow_answers_put_no_clock_apart(monkeypatch) -> None:
    times = [NOW]

    def read(cell: cells.Cell) -> datetime.datetime:
        times.append(times[-1] + datetime.timedelta(seconds=10))
        return times[-1]

    listed = [cells.Cell(name, name, None) for name in "ab"]
    channel = SimpleNamespace(send=lambda *_: SimpleNamespace(headers={}))
    monkeypatch.setattr(cells, "cells", lambda names: listed)
    monkeypatch.setattr(cells, "clock", read)
    monkeypatch.setattr(reading.KeystoneChannel, "from_conf", lambda conf: channel)
    clocks = Reader(cfg.ConfigOpts(), clock=lambda: times[-1])._clocks()
    assert list(clocks.values()) == [0.0, 0.0]


def test_what_goes_on_while_it_is_read_is_no_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    """One server is shelved before the nodes are listed; another one gets its cell."""
    before, built = fleet({"a": 2}), Server("cell1", server_uuid(9), None, None)
    (server,) = before.servers.values()
    stale = changed(before.services[0], cell="former")
    in_cells = [changed(server, host=None, node=None, vm_state="shelved_offloaded")]
    held = changed(before.placement, allocations={node_uuid(1): {built.uuid: {GOLD: 1}}})

    def ask(uuids: Any, known: list[Server]) -> list[Server]:
        found = [one for one in known if one.uuid in uuids]
        # It is created there once somebody has asked for it.
        in_cells.extend([built] if built.uuid in uuids else ())
        return found

    def requests(uuids: Any) -> list[str]:
        return [one.uuid for one in ask(uuids, [] if built in in_cells else [built])]

    ironic, placement = mock.Mock(), mock.Mock()
    ironic.from_conf().list_nodes.return_value = [node(1), node(2)]
    placement().consumer_type.return_value = None
    for place, name, stub in (
        (cells, "cells", lambda names: [cells.Cell("cell1", "", None)]),
        (cells, "services", lambda *_: [before.services[0], stale]),
        (cells, "records", lambda cell: before.records),
        (cells, "servers_of", lambda cell, column, hosts: [server]),
        (cells, "servers", lambda cell, uuids: ask(uuids, in_cells)),
        (cells, "being_built", requests),
        (cells, "migrations", lambda cell, uuids: []),
        (reading.api_database, "read", lambda conf, servers: before.hosts),
        (reading, "IronicClient", ironic),
        (reading, "PlacementClient", placement),
        (reading, "_placement", lambda *_: held),
        (reading, "_group_filters", lambda conf: {}),
        (Reader, "_clocks", lambda reader: {}),
    ):
        monkeypatch.setattr(place, name, stub)
    conf = mock.Mock(**{"ironic.endpoint_override": "https://admin:hunter2@x/v1"})
    found = Reader(conf, named=["a"]).read()
    world = NovaWorld(conf, ironic, {"cell1": mock.Mock()}, before.hosts, placement=placement)
    # Nova has mapped the host to the first one's cell.
    assert found.service_of == world.services() == {"a": before.services[0]}
    assert found.cloud[0] == "https://x/v1", "as plans have it"
    assert checks.run(found, ["allocation-of-nobody", "server-without-node"]) == []


def test_a_placement_that_is_away_is_an_error_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    for error in (ksa_exceptions.DiscoveryFailure("away"), sdk_exceptions.SDKException("away")):
        client = mock.Mock(side_effect=error)
        monkeypatch.setattr(report, "SchedulerReportClient", client)
        with pytest.raises(placement.PlacementFailed, match=r"\[placement\]: away"):
            placement.PlacementClient()


def test_files_and_directories_are_given_to_nova(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[str] = []
    monkeypatch.setattr(config, "parse_args", given.extend)
    monkeypatch.setattr(nova_conf, "_keep_native_threads", lambda: None)
    assert nova_conf.load(["a.conf"], ["a.d", "b.d"]).placement.timeout == 120
    assert given[1:] == ["--config-file=a.conf", "--config-dir=a.d", "--config-dir=b.d"]


def test_a_refused_move_leaves_a_provider_in_its_aggregates(monkeypatch) -> None:
    hosts = Hosts(aggregates=[Aggregate(name, name, frozenset({name})) for name in "ab"])
    manager = mock.MagicMock()
    monkeypatch.setattr(main_db, "get_context_manager", manager)
    read_only = OperationalError("UPDATE", {}, Exception("--read-only"))
    for host, error in (("a", read_only), ("b", MoveRefused("busy"))):
        monkeypatch.setattr(NovaWorld, "_move", mock.Mock(side_effect=error))
        placement = mock.Mock()
        world = NovaWorld(mock.Mock(), mock.Mock(), {"c": mock.Mock()}, hosts, placement=placement)
        with pytest.raises(MoveRefused, match=r"busy|read-only"):
            world.move(Record("c", 1, "n", host, "n"), "a", "b")
        assert placement.change_aggregates.call_args.args[2] == {host}
    # What a commit has done that got no answer, only another look tells.
    monkeypatch.setattr(NovaWorld, "_move", mock.Mock())
    manager.return_value.writer.using.return_value.__exit__.side_effect = read_only
    with pytest.raises(nova_conf.DatabaseFailed):
        world.move(Record("c", 1, "n", "a", "n"), "a", "b")


def test_any_error_of_a_database_is_told_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """oslo.db leaves an ``OperationalError`` as it is, unless the connection was lost."""
    objects.register_all()
    refused = mock.Mock(side_effect=OperationalError("", {}, Exception("1290 read-only")))
    monkeypatch.setattr(main_db, "get_context_manager", mock.MagicMock())
    monkeypatch.setattr(NovaWorld, "_move", refused)
    world = NovaWorld(mock.Mock(), mock.Mock(), {"c": mock.Mock()}, Hosts(), placement=mock.Mock())
    with pytest.raises(exceptions.IronicVirtError, match="1290 read-only"):
        world.move(Record("c", 1, "n", "a", "n"), "a", "b")
    outcome, reason = convert._attempt_step(refused) or ("", "")
    assert (outcome, "1290 read-only" in reason) == (Effect.FAILED, True)
    monkeypatch.setattr(objects.CellMappingList, "get_all", refused)
    monkeypatch.setattr(objects.BuildRequest, "get_by_instance_uuid", refused)
    main_db.get_context_manager("c").reader.using = refused
    engine = mock.MagicMock(**{"dialect.name": "mysql"}, connect=refused)
    monkeypatch.setattr(lock.api, "get_engine", lambda: engine)
    clock = functools.partial(cells.clock, cells.Cell("c", "c", mock.Mock()))
    for ask in (cells.cells, lambda: cells.being_built("s"), clock, lock.held().__enter__):
        with pytest.raises(exceptions.IronicVirtError, match="1290 read-only"):
            ask()


@pytest.mark.parametrize(
    ("shard", "meanwhile", "end"),
    [("a", "a", "b"), ("B", "x", "B"), ("x", "a", "x"), ("a", "x", "x"), ("a", "B", "b")],
)
def test_a_shard_is_read_again_before_each_try_to_set_it(shard, meanwhile, end) -> None:
    fake = FakeIronic()
    uuid = fake.add_node(shard=shard)
    locked = "Node 1 is locked by host a, please retry"

    def change_shard(*_: object) -> bool:
        fake.set_node(uuid, shard=meanwhile)
        return True

    fake.faults.status(409, "PATCH", uuid, locked, when=change_shard, count=1)
    client = IronicClient(InProcessChannel(fake, "http://ironic.test"), RetryPolicy(3, 0.01))
    world = NovaWorld(cfg.ConfigOpts(), client, {}, Hosts(), placement=mock.Mock())
    refusal = pytest.raises(MoveRefused, match=f"the shard of node {uuid} is now 'x'")
    with refusal if end == "x" else contextlib.nullcontext():
        world.set_shard(uuid, "a", "b")
    assert fake.node(uuid)["shard"] == end


def test_what_is_wrong_with_one_node_is_told_of_it_alone() -> None:
    client = mock.create_autospec(IronicClient, instance=True)
    world = NovaWorld(cfg.ConfigOpts(), client, {}, Hosts(), placement=mock.Mock())
    crashes = exceptions.IronicUnavailable("crashes", status=500)
    busy = exceptions.IronicUnavailable("busy", status=503)
    client.get_node.side_effect = [exceptions.NodeNotFound("gone"), crashes, busy]
    assert [world.node("n"), world.node("n")] == [None, crashes]
    with pytest.raises(exceptions.IronicUnavailable, match="busy"):
        world.node("n")
