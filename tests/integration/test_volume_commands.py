# SPDX-License-Identifier: Apache-2.0

"""A server of the reference service that boots from a volume, on the real Ironic."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import real_ironic
from tests.functional.compute.processes import ComputeProcess, wait_for
from tests.integration.commands import SECONDS, run, shown
from tests.integration.services import SEEDS, Operator

CHAP_SECRET = "chap-secret-0815"


@pytest.fixture
def node(ironic_on_mariadb: real_ironic.RealIronic, operator: Operator) -> str:
    """A node in a shard of its own that may boot from a volume, and has one volume connector."""
    seed = next(SEEDS)
    template = real_ironic.NodeTemplate(
        shard=f"volumes-{seed}",
        resource_class="san",
        properties={"cpu_arch": "x86_64", "capabilities": "iscsi_boot:True"},
        fields={"storage_interface": "cinder"},
    )
    (node,) = real_ironic.create_nodes(
        ironic_on_mariadb, 1, template, name=f"volume-commands-{seed}-{{}}", seed=seed
    )
    body = {"node_uuid": node, "type": "iqn", "connector_id": f"iqn.2026-01.test:{node}"}
    operator.request("POST", "/volume/connectors", body)
    return node


@pytest.fixture
def service(
    tmp_path: Path, ironic_on_mariadb: real_ironic.RealIronic, operator: Operator, node: str
) -> Iterator[ComputeProcess]:
    """A compute service for it."""
    shard = operator.node(node)["shard"]
    process = ComputeProcess(
        tmp_path, "compute1", "unused", ironic_on_mariadb.url, ironic={"shard_key": shard}
    )
    process.configure(database={"connection": None}, DEFAULT={"debug": True})
    process.started()
    wait_for("the node's record", lambda: [row["UUID"] for row in nodes(process)] == [node])
    assert run(process, "flavor", "create", "san", "--resource-class", "san")[0] == 0
    yield process
    process.kill()


def nodes(service: ComputeProcess) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = shown(service, "node", "list", "--state", "available")
    return listed


@pytest.fixture
def root(tmp_path: Path, node: str) -> str:
    """A file that says how to connect to a volume."""
    file = tmp_path / "root.json"
    data = {
        "target_portal": "192.0.2.5:3260",
        "target_iqn": "iqn.2026-01.test:root",
        "target_lun": 1,
        "auth_method": "CHAP",
        "auth_username": "user",
        "auth_password": CHAP_SECRET,
    }
    info = {"driver_volume_type": "iscsi", "data": data}
    # Ironic knows a volume by this, on whichever node it is.
    file.write_text(json.dumps({"connection_info": info, "volume_id": node}))
    return str(file)


def volumes(operator: Operator, node: str) -> tuple[list[str], list[dict[str, Any]]]:
    """The connectors and the targets that Ironic has of a node."""
    connectors = operator.request("GET", f"/volume/connectors?node={node}&detail=true")
    targets = operator.request("GET", f"/volume/targets?node={node}&detail=true")
    return [one["connector_id"] for one in connectors["connectors"]], targets["targets"]


def test_it_is_built_on_the_node_whose_connector_was_told_and_leaves_nothing(
    service: ComputeProcess, operator: Operator, node: str, root: str
) -> None:
    before, left = operator.node(node), volumes(operator, node)
    assert left == ([f"iqn.2026-01.test:{node}"], [])
    connector = shown(service, "volume", "connector", "show", "--node", node)
    assert (connector["initiator"], connector["host"]) == (left[0][0], before["name"])
    create = ("server", "create", "--flavor", "san", "--node", node, "--boot-volume", root)
    server = shown(service, *create, "--wait", "db")
    assert (server["status"], server["image"]) == ("ACTIVE", "")
    assert server["volumes_attached"] == [{"id": node, "boot_index": 0}]

    there = operator.at_rest(node)
    assert (there["provision_state"], there["instance_uuid"]) == ("active", server["id"])
    assert "image_source" not in there["instance_info"]
    connectors, (target,) = volumes(operator, node)
    assert connectors == left[0]
    assert (target["boot_index"], target["volume_id"]) == (0, node)
    assert target["extra"] == {"instance_uuid": server["id"]}
    assert target["properties"]["target_iqn"] == "iqn.2026-01.test:root"
    assert target["properties"]["auth_password"] == "******"

    code, _, err = run(service, "server", "rebuild", "--wait", "db")
    assert code == 1
    assert "it boots from a volume" in err
    assert operator.node(node) == there
    code, _, err = run(service, "server", "delete", "--wait", "db")
    assert code == 0, err
    assert operator.wait_for_state(node, "available")["instance_uuid"] is None
    assert volumes(operator, node) == left
    assert "POST /volume/targets" in service.text()
    assert CHAP_SECRET not in service.text() + json.dumps(server) + err


def test_a_service_that_is_killed_in_its_build_goes_on_and_leaves_nothing(
    service: ComputeProcess, operator: Operator, node: str, root: str
) -> None:
    left = volumes(operator, node)
    shown(service, "server", "create", "--flavor", "san", "--boot-volume", root, "db")
    wait_for("the volume", lambda: volumes(operator, node)[1])
    service.kill()
    service.started()

    def status() -> str:
        return str(shown(service, "server", "show", "db")["status"])

    wait_for("it to be built", lambda: status() == "ACTIVE", SECONDS)
    connectors, (target,) = volumes(operator, node)
    assert (connectors, target["volume_id"]) == (left[0], node)
    code, _, err = run(service, "server", "delete", "--wait", "db")
    assert code == 0, err
    operator.wait_for_state(node, "available")
    assert volumes(operator, node) == left
