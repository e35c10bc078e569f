# SPDX-License-Identifier: Apache-2.0

"""What ``ironic-virt server`` asks of a server, carried out on the real Ironic."""

import json
from collections.abc import Iterator

import pytest

from tests.functional.compute.processes import ComputeProcess, create, wait_for
from tests.integration.commands import SECONDS, compute_service, done, records_of, run, shown
from tests.integration.services import SEEDS
from tests.integration.stage import Stage


@pytest.fixture
def node(stage: Stage) -> str:
    """A node in its own shard."""
    fields = {"console_interface": "fake-graphical"}
    return stage.node(shard=f"actions-{next(SEEDS)}", resource_class="gold", fields=fields)


@pytest.fixture
def service(stage: Stage, node: str) -> Iterator[ComputeProcess]:
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


def test_a_server_is_sent_an_nmi(stage, service, server, node) -> None:

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
