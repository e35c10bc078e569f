# SPDX-License-Identifier: Apache-2.0

"""What ``ironic-virt server`` asks of a server, carried out on the real Ironic."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import real_ironic
from ironic_virt.compute.db import Database
from ironic_virt.conf import database as database_options
from tests.functional.compute.processes import ComputeProcess, create, wait_for
from tests.integration.commands import SECONDS, run, shown
from tests.integration.services import SEEDS, Operator


@pytest.fixture
def node(ironic_on_mariadb: real_ironic.RealIronic) -> str:
    """A node in a shard of its own."""
    seed = next(SEEDS)
    template = real_ironic.NodeTemplate(
        shard=f"actions-{seed}",
        resource_class="gold",
        fields={"console_interface": "fake-graphical"},
    )
    (node,) = real_ironic.create_nodes(
        ironic_on_mariadb, 1, template, name=f"actions-{seed}-{{}}", seed=seed
    )
    return node


@pytest.fixture
def service(
    tmp_path: Path, ironic_on_mariadb: real_ironic.RealIronic, node: str
) -> Iterator[ComputeProcess]:
    """A compute service for it."""
    shard = Operator(ironic_on_mariadb).node(node)["shard"]
    process = ComputeProcess(
        tmp_path, "compute1", "unused", ironic_on_mariadb.url, ironic={"shard_key": shard}
    )
    process.configure(database={"connection": None})
    yield process.started()
    process.kill()


@pytest.fixture
def server(service: ComputeProcess, node: str) -> Iterator[str]:
    """A server, built."""
    db = Database(database_options.load([str(service.config)]), patient=False).open()
    wait_for(
        "the record of the node",
        lambda: any(one.uuid == node and one.available for one in db.compute_nodes.list()),
    )
    uuid = create(db, node, display_name="web")
    wait_for("it to be built", lambda: db.instances.get(uuid).vm_state == "active", SECONDS)
    yield uuid
    db.close()


def test_a_console_is_told_of(
    service: ComputeProcess,
    server: str,
    node: str,
    ironic_on_mariadb: real_ironic.RealIronic,
) -> None:
    operator = Operator(ironic_on_mariadb)
    told = shown(service, "server", "console", "url", "show", "--vnc", "web")
    assert (told["type"], told["host"], told["port"]) == ("vnc", "192.0.2.1", 5900)
    assert told["url"].startswith("http")
    assert operator.node(node)["console_enabled"]
    code, out, err = run(service, "server", "console", "url", "show", "web")
    assert (code, out) == (1, "")
    assert "'vnc', and 'socat' is wanted" in err
    assert told["url"] not in service.text()


def test_an_interface_is_added_and_removed(
    service: ComputeProcess,
    server: str,
    node: str,
    ironic_on_mariadb: real_ironic.RealIronic,
) -> None:
    operator = Operator(ironic_on_mariadb)
    vif = "5e4f2c7a-6a4f-4a60-9a38-0a4d6a5d2f11"
    assert shown(service, "server", "add", "interface", "--wait", "web", vif)["ports"] == [vif]
    assert operator.vifs(node) == [vif]
    code, _, err = run(service, "server", "add", "interface", "--wait", "web", "another")
    assert code == 1
    assert "VIF another could not be attached" in err
    shown_after = shown(service, "server", "remove", "interface", "--wait", "web", vif)
    assert shown_after["ports"] == []
    assert operator.vifs(node) == []
    code, _, err = run(service, "server", "delete", "--wait", "web")
    assert code == 0, err


def test_a_server_is_rescued_and_unrescued(
    service: ComputeProcess,
    server: str,
    node: str,
    ironic_on_mariadb: real_ironic.RealIronic,
) -> None:
    operator = Operator(ironic_on_mariadb)
    rescued = shown(service, "server", "rescue", "--wait", "web")
    assert (rescued["status"], len(rescued["adminPass"])) == ("RESCUE", 16)
    there = operator.node(node)
    assert (there["provision_state"], there["instance_uuid"]) == ("rescue", server)
    code, _, err = run(service, "server", "stop", "web")
    assert code == 1
    assert "it is rescued, and stop needs one that is active; unrescue it first" in err
    code, _, err = run(service, "server", "unrescue", "--wait", "web")
    assert code == 0, err
    back = operator.node(node)
    assert back["provision_state"] == "active"
    # The fake interfaces of this Ironic power nothing on.
    status = {"power on": "ACTIVE", "power off": "SHUTOFF"}[back["power_state"]]
    assert shown(service, "server", "show", "web")["status"] == status
    code, _, err = run(service, "server", "delete", "--wait", "web")
    assert code == 0, err
    assert rescued["adminPass"] not in service.text()


def test_a_server_is_sent_an_nmi(
    service: ComputeProcess,
    server: str,
    node: str,
    ironic_on_mariadb: real_ironic.RealIronic,
) -> None:
    operator = Operator(ironic_on_mariadb)

    def nmis() -> int:
        events = operator.request("GET", f"/nodes/{node}/history")["history"]
        return [one["event"] for one in events].count("An NMI was injected")

    # The fake interfaces of this Ironic power nothing on.
    code, _, err = run(service, "server", "reboot", "--hard", "--wait", "web")
    assert code == 0, err
    code, out, err = run(service, "server", "dump", "create", "--wait", "web", "-f", "json")
    assert (code, json.loads(out)["name"]) == (1, "web")
    assert f"Node {node}, server {server}: " in err
    assert "does not support inject_nmi" in err
    assert nmis() == 0
    operator.patch(node, driver_info={"takes_nmi": True})
    assert shown(service, "server", "dump", "create", "--wait", "web")["status"] == "ACTIVE"
    assert nmis() == 1
    events = shown(service, "server", "event", "list", "web")
    assert [one["Action"] for one in events[:2]] == ["trigger_crash_dump"] * 2
    code, _, err = run(service, "server", "stop", "--wait", "web")
    assert code == 0, err
    code, _, err = run(service, "server", "dump", "create", "web")
    assert code == 1
    assert "it is stopped, and trigger_crash_dump needs one that is active, error, resc" in err
    code, _, err = run(service, "server", "delete", "--wait", "web")
    assert code == 0, err
    assert nmis() == 1


def test_diagnostics_are_what_ironic_knows(
    service: ComputeProcess,
    server: str,
    node: str,
    ironic_on_mariadb: real_ironic.RealIronic,
) -> None:
    operator = Operator(ironic_on_mariadb)
    began = time.monotonic()
    code, _, err = run(service, "server", "reboot", "--hard", "--wait", "web")
    assert code == 0, err
    told = shown(service, "server", "diagnostics", "show", "web")
    there = operator.node(node)
    ports = operator.request("GET", f"/nodes/{node}/ports")["ports"]
    # Ironic's times are whole seconds.
    assert told.pop("uptime") <= time.monotonic() - began + 1
    assert told == {
        "config_drive": True,
        "driver": "ironic",
        "hypervisor": "ironic",
        "memory_details": {"maximum": there["properties"]["memory_mb"]},
        "nic_details": [{"mac_address": port["address"]} for port in ports],
        "num_cpus": there["properties"]["cpus"],
        "num_nics": len(ports),
        "state": "running",
    }
    code, _, err = run(service, "server", "delete", "--wait", "web")
    assert code == 0, err
    code, out, err = run(service, "server", "diagnostics", "show", server)
    assert (code, out) == (1, "")
    assert err == f"There is no server '{server}'\n"
