# SPDX-License-Identifier: Apache-2.0

"""What ``ironic-virt server`` asks of a server, carried out on the real Ironic."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest

from tests.functional.compute.processes import ComputeProcess, create, wait_for
from tests.integration.commands import SECONDS, compute_service, done, records_of, run, shown
from tests.integration.services import SEEDS
from tests.integration.stage import Stage


@pytest.fixture
def node(stage: Stage) -> str:
    """A node in a shard of its own."""
    fields = {"console_interface": "fake-graphical"}
    return stage.node(shard=f"actions-{next(SEEDS)}", resource_class="gold", fields=fields)


@pytest.fixture
def service(stage: Stage, node: str) -> Iterator[ComputeProcess]:
    """A compute service for it."""
    shard = stage.operator.node(node)["shard"]
    with compute_service(stage, shard_key=shard) as service:
        yield service.started()


@pytest.fixture
def server(service: ComputeProcess, node: str) -> Iterator[str]:
    """A server, built."""
    with records_of(service) as db:
        wait_for(
            "the record of the node",
            lambda: any(one.uuid == node and one.available for one in db.compute_nodes.list()),
        )
        uuid = create(db, node, display_name="web")
        wait_for("it to be built", lambda: db.instances.get(uuid).vm_state == "active", SECONDS)
        yield uuid


def test_diagnostics_consoles_and_interfaces_of_a_server(
    stage: Stage, service: ComputeProcess, server: str, node: str
) -> None:
    began = time.monotonic()
    done(service, "server", "reboot", "--hard", "--wait", "web")
    told = shown(service, "server", "diagnostics", "show", "web")
    there = stage.operator.node(node)
    ports = stage.operator.request("GET", f"/nodes/{node}/ports")["ports"]
    # Ironic's times are whole seconds.
    assert 0 <= told.pop("uptime") <= time.monotonic() - began + 1
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

    told = shown(service, "server", "console", "url", "show", "--vnc", "web")
    assert (told["type"], told["host"], told["port"]) == ("vnc", "192.0.2.1", 5900)
    assert told["url"].startswith("http")
    assert stage.operator.node(node)["console_enabled"]
    code, out, err = run(service, "server", "console", "url", "show", "web")
    assert (code, out) == (1, "")
    assert "'vnc', and 'socat' is wanted" in err
    assert told["url"] not in service.text()

    vif = "5e4f2c7a-6a4f-4a60-9a38-0a4d6a5d2f11"
    assert shown(service, "server", "add", "interface", "--wait", "web", vif)["ports"] == [vif]
    assert stage.operator.vifs(node) == [vif]
    code, _, err = run(service, "server", "add", "interface", "--wait", "web", "another")
    assert code == 1
    assert "VIF another could not be attached" in err
    shown_after = shown(service, "server", "remove", "interface", "--wait", "web", vif)
    assert shown_after["ports"] == []
    assert stage.operator.vifs(node) == []
    done(service, "server", "delete", "--wait", "web")
    code, out, err = run(service, "server", "diagnostics", "show", server)
    assert (code, out) == (1, "")
    assert err == f"There is no server '{server}'\n"


def test_a_server_is_rescued_and_unrescued(
    stage: Stage, service: ComputeProcess, server: str, node: str
) -> None:
    rescued = shown(service, "server", "rescue", "--wait", "web")
    assert (rescued["status"], len(rescued["adminPass"])) == ("RESCUE", 16)
    there = stage.operator.node(node)
    assert (there["provision_state"], there["instance_uuid"]) == ("rescue", server)
    code, _, err = run(service, "server", "stop", "web")
    assert code == 1
    assert "it is rescued, and stop needs one that is active; unrescue it first" in err
    done(service, "server", "unrescue", "--wait", "web")
    back = stage.operator.node(node)
    assert back["provision_state"] == "active"
    # The fake interfaces of this Ironic power nothing on.
    status = {"power on": "ACTIVE", "power off": "SHUTOFF"}[back["power_state"]]
    assert shown(service, "server", "show", "web")["status"] == status
    done(service, "server", "delete", "--wait", "web")
    assert rescued["adminPass"] not in service.text()


def test_a_server_is_sent_an_nmi(
    stage: Stage, service: ComputeProcess, server: str, node: str
) -> None:

    def nmis() -> int:
        events = stage.operator.request("GET", f"/nodes/{node}/history")["history"]
        return [one["event"] for one in events].count("An NMI was injected")

    # The fake interfaces of this Ironic power nothing on.
    done(service, "server", "reboot", "--hard", "--wait", "web")
    code, out, err = run(service, "server", "dump", "create", "--wait", "web", "-f", "json")
    assert (code, json.loads(out)["name"]) == (1, "web")
    assert f"Node {node}, server {server}: " in err
    assert "does not support inject_nmi" in err
    assert nmis() == 0
    stage.operator.patch(node, driver_info={"takes_nmi": True})
    assert shown(service, "server", "dump", "create", "--wait", "web")["status"] == "ACTIVE"
    assert nmis() == 1
    done(service, "server", "stop", "--wait", "web")
    code, _, err = run(service, "server", "dump", "create", "web")
    assert code == 1
    assert "it is stopped, and trigger_crash_dump needs one that is active, error, resc" in err
    done(service, "server", "delete", "--wait", "web")
    assert nmis() == 1
