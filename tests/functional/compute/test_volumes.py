# SPDX-License-Identifier: Apache-2.0

"""Servers with volumes: commands, a service in a process of its own, and a fake Ironic."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ironic_virt import virt
from ironic_virt.compute.db import Database
from ironic_virt.driver.volumes import MARK
from ironic_virt.testing.fake_ironic import Durations, FakeIronic, FakeIronicServer
from tests import log_watch
from tests.clock import StoppableClock
from tests.functional.compute.commands import Commands
from tests.functional.compute.processes import (
    Compute,
    ComputeProcess,
    wait_for,
    wait_for_nodes,
    wait_until,
)
from tests.integration.services import Operator

PASSWORD = log_watch.secret("chap-password")
CREATE = ("server", "create", "--flavor", "san")
IQN = "iqn.2026-01.test:node"

Describe = Callable[[str], str]


@pytest.fixture
def server(durations: Durations, ironic_clock: StoppableClock) -> Iterator[FakeIronicServer]:
    """A fake Ironic over HTTP, in real time.

    Its nodes are locked as long as they are cleaned, as it is with Ironic's fake hardware.
    Agents would power them on without a lock, and then it deletes no volume target; where
    there are agents, Ironic itself has deleted them by then.
    """
    fake = FakeIronic(clock=ironic_clock, durations=durations, power_follows_deploy=True)
    with FakeIronicServer(fake) as running:
        yield running


@pytest.fixture
def node(server: FakeIronicServer) -> str:
    """A node that Ironic connects to volumes."""
    node = server.fake.add_node(
        resource_class="gold",
        ports=1,
        storage_interface="cinder",
        properties={"capabilities": "iscsi_boot:True", "cpu_arch": "x86_64"},
    )
    ironic: Any = SimpleNamespace(url=server.url)
    connector = {"node_uuid": node, "type": "iqn", "connector_id": IQN}
    Operator(ironic).request("POST", "/volume/connectors", connector)
    return node


@pytest.fixture
def service(compute: Compute, db: Database, node: str) -> ComputeProcess:
    """A compute service that has it."""
    process = compute(DEFAULT={"debug": True}).started()
    wait_for_nodes(db, "compute1", [node])
    return process


@pytest.fixture
def run(
    service: ComputeProcess,
    db: Database,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Commands:
    db.flavors.create(virt.Flavor("san", extra_specs={"resources:CUSTOM_GOLD": "1"}))
    return Commands(service.config, capsys, monkeypatch)


@pytest.fixture
def describe(tmp_path: Path) -> Describe:
    """Write a file that says how to connect to a volume."""

    def write(volume_id: str) -> str:
        file = tmp_path / f"{volume_id}.json"
        file.write_text(description(volume_id))
        return str(file)

    return write


def description(volume_id: str) -> str:
    data = {
        "target_portal": "192.0.2.5:3260",
        "target_iqn": f"iqn.2026-01.test:{volume_id}",
        "target_lun": 1,
        "auth_method": "CHAP",
        "auth_username": "user",
        "auth_password": PASSWORD,
    }
    info = {"driver_volume_type": "iscsi", "data": data}
    return json.dumps({"connection_info": info, "volume_id": volume_id})


def targets(server: FakeIronicServer) -> list[tuple[str, int, str, str]]:
    """All volume targets in Ironic: node, boot index, volume, whose."""
    return sorted(
        (row.node.uuid, row.boot_index, row.volume_id, row.extra[MARK])
        for row in server.fake.bm.store.targets
    )


def test_a_server_boots_from_a_volume_and_nothing_secret_is_shown(
    run: Commands,
    db: Database,
    server: FakeIronicServer,
    service: ComputeProcess,
    node: str,
    describe: Describe,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(description("data")))
    created = run(
        *(*CREATE, "--boot-volume", describe("root"), "--volume", "-", "--wait", "db"),
        *("-f", "json", "-vv"),
    )
    assert created.code == 0, created.err
    shown = created.json
    uuid = shown["id"]
    assert (shown["status"], shown["image"]) == ("ACTIVE", "")
    assert shown["volumes_attached"] == [
        {"id": "root", "boot_index": 0},
        {"id": "data", "boot_index": 1},
    ]
    assert targets(server) == [(node, 0, "root", uuid), (node, 1, "data", uuid)]
    assert PASSWORD in str([entry.body for entry in server.fake.requests])
    told = [
        created.out + created.err,
        run.ok("server", "show", "db"),
        str(run.json("server", "show", "db")),
        run.ok("server", "list", "--long"),
        str(run.json("server", "list", "--long")),
        run.ok("server", "event", "list", "--long", "db"),
    ]
    assert "root (boot index 0), data (boot index 1)" in told[1]
    assert "N/A (booted from volume)" in told[1]
    rebuilt = run("server", "rebuild", "--wait", "db")
    assert rebuilt.code == 1
    assert "it boots from a volume, which Ironic can't rebuild" in rebuilt.err
    assert db.instances.get("db").vm_state == "active"
    assert run("server", "delete", "--wait", "db").code == 0
    assert targets(server) == []
    assert PASSWORD not in service.text() + "".join(told) + rebuilt.err
    assert "/volume/targets" in service.text(), "it was logged at this level"


@pytest.mark.parametrize("deleted", [False, True], ids=["goes on", "deleted meanwhile"])
def test_of_a_build_that_was_killed_no_volume_is_left(
    run: Commands,
    db: Database,
    server: FakeIronicServer,
    ironic_clock: StoppableClock,
    service: ComputeProcess,
    node: str,
    describe: Describe,
    deleted: bool,
) -> None:
    ironic_clock.stop()
    uuid = run.json(*CREATE, "--boot-volume", describe("root"), "db")["id"]
    wait_for("the volume", lambda: targets(server))
    service.kill()
    assert db.instances.get(uuid).task_state == "spawning"
    if deleted:
        run.ok("server", "delete", "db")
    service.started()
    ironic_clock.go_on()
    if not deleted:
        wait_until(db, uuid, "active")
        assert targets(server) == [(node, 0, "root", uuid)]
        run.ok("server", "delete", "db")
    wait_until(db, uuid, "deleted")
    assert targets(server) == []
    assert server.fake.node(node)["instance_uuid"] is None


def test_a_storage_is_told_of_the_node_on_which_a_server_is_built_then(
    run: Commands, db: Database, server: FakeIronicServer, node: str, describe: Describe
) -> None:
    other = server.fake.add_node(resource_class="gold", ports=1)
    wait_for_nodes(db, "compute1", [node, other])
    connector = run.json("volume", "connector", "show", "--node", node)
    assert connector == {
        "host": server.fake.node(node)["name"] or node,
        "initiator": IQN,
        "ip": None,
        "multipath": False,
        "os_type": "baremetal",
        "platform": "x86_64",
        "wwnns": [],
        "wwpns": [],
    }
    create = (*CREATE, "--boot-volume", describe("root"), "--node", node, "db")
    uuid = run.json(*create)["id"]
    wait_until(db, uuid, "active")
    assert db.instances.get(uuid).node == node
    told = run.ok("volume", "connector", "show", "db", "-f", "value", "-c", "initiator")
    assert told == f"{IQN}\n"
    run.ok("server", "delete", "db")
    wait_until(db, uuid, "deleted")


def test_a_volume_that_a_server_has_is_refused_to_others(
    run: Commands, db: Database, describe: Describe
) -> None:
    uuid = run.json(*CREATE, "--boot-volume", describe("root"), "db")["id"]
    again = run(*CREATE, "--boot-volume", describe("root"), "other")
    assert (again.code, again.out) == (2, "")
    assert again.err == f"instance {uuid} has the volume root\n"
    assert [one.uuid for one in db.instances.list()] == [uuid]
