# SPDX-License-Identifier: Apache-2.0

"""Servers of a Nova whose services are separate processes, on the real Ironic."""

import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from tests.nova_deployment.deployment import SHARDS, Deployment
from tests.nova_deployment.processes import wait_for

# Some wait for twenty deployments at a time, and for what Nova does only now and then.  More than
# their waits together: what those have seen says more than where a thread is.
pytestmark = pytest.mark.timeout(2400)

SERVERS = 20
# Nova tears them down one after the other.
FEW = 4
VICTIM = "compute-a"


def test_nova_compute_says_that_it_loaded_the_wheels_driver(deployment, tmp_path) -> None:
    code = "import ironic_virt, nova.virt.ironic_virt as door; print(ironic_virt.__file__)\n"
    code += "print(door.__file__)"
    told = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    ).stdout.split()
    environment = Path(sys.prefix)
    for file in told:
        assert Path(file).is_relative_to(environment / "lib"), told
    version = metadata.version("ironic-virt")
    for program in deployment.computes.values():
        # An older oslo.log ends each line with an escape sequence.
        line = rf"Loaded the driver of ironic_virt {re.escape(version)}(\x1b\[00m)?\n"
        assert re.search(line, program.text())


def test_each_compute_has_the_nodes_of_its_shard(deployment: Deployment) -> None:
    expected = {host: set(deployment.nodes[shard]) for host, shard in SHARDS.items()}
    assert deployment.user.compute_nodes() == expected


def test_twenty_servers_at_once_live_and_leave_nothing_behind(deployment: Deployment) -> None:
    user, step = deployment.user, deployment.steps.step
    with step(f"boot {SERVERS} servers at once"):
        user.boot(SERVERS)
        servers = user.wait_for_servers(
            "all servers built", lambda server: server.status in ("ACTIVE", "ERROR")
        )
    assert {server.status for server in servers} == {"ACTIVE"}, servers
    assert len({server.node for server in servers}) == len(servers) == SERVERS
    assert {server.host for server in servers} == set(SHARDS)
    nodes = deployment.operator.nodes()
    assert {
        server.uuid: (server.node, "active", {server.uuid: server.node}) for server in servers
    } == {
        node["instance_uuid"]: (
            uuid,
            node["provision_state"],
            dict.fromkeys(deployment.operator.allocations(uuid), uuid),
        )
        for uuid, node in nodes.items()
        if node["instance_uuid"]
    }

    with step("reboot them hard"):
        user.hard_reboot(servers)
        servers = user.wait_for_servers("all servers rebooted", lambda server: server.idle)
    assert {server.status for server in servers} == {"ACTIVE"}, servers
    assert {server.uuid: user.results(server, "reboot") for server in servers} == {
        server.uuid: ["Success"] for server in servers
    }

    with step("delete them, nodes cleaned"):
        user.delete(servers)
        wait_for("all servers gone", lambda: not user.servers())
        deployment.wait_for_no_leaks()
    # Its questions came to the conductor as messages.
    for compute in deployment.computes.values():
        assert "[nova-not-asked]" not in compute.text()


def test_a_compute_killed_in_mid_deploy_leaves_nothing_behind(deployment: Deployment) -> None:
    user, operator, compute = deployment.user, deployment.operator, deployment.computes[VICTIM]
    starts = compute.text().count("Loaded the driver")
    user.boot(SERVERS)
    deploying = deployment.kill_in_mid_deploy(VICTIM)
    held = {uuid: operator.nodes()[uuid]["instance_uuid"] for uuid in deploying}
    with deployment.steps.step("start the killed compute anew"):
        compute.start()
        servers = user.wait_for_servers(
            "each server built or given up", lambda server: server.status in ("ACTIVE", "ERROR")
        )
    assert compute.text().count("Loaded the driver") == starts + 1
    status = {server.uuid: server.status for server in servers}
    nodes = operator.nodes()
    # The node stays with its server until that is deleted.
    assert {uuid: nodes[uuid]["instance_uuid"] for uuid in deploying} == held
    # The other compute has not noticed.
    assert {server.status for server in servers if server.host != VICTIM and server.host} == {
        "ACTIVE"
    }
    finished = {uuid: status[uuid] for uuid in held.values()}
    assert set(finished.values()) == {"ACTIVE"}, compute.trouble()
    for server in servers:
        if server.uuid in finished:
            assert set(user.results(server, "create")) == {"Success"}

    with deployment.steps.step("delete all, nodes cleaned"):
        user.delete(servers)
        wait_for("all servers gone", lambda: not user.servers())
        deployment.wait_for_no_leaks()
    # Nothing is wrong with any node: all of them can be used again.
    deployment.wait_until_nodes_are_free()


def test_a_compute_stopped_in_order_harms_no_work_under_way(deployment: Deployment) -> None:
    user, operator, compute = deployment.user, deployment.operator, deployment.computes[VICTIM]
    user.boot(FEW, host=VICTIM)
    rebooted = user.wait_for_servers("all servers built", lambda server: server.idle)
    assert {server.status for server in rebooted} == {"ACTIVE"}, rebooted
    user.boot(FEW, host=VICTIM)
    deploying = deployment.wait_for_deployments(VICTIM)
    user.hard_reboot(rebooted)
    deployment.wait_for_reboots(server.node for server in rebooted)
    held = {uuid: operator.nodes()[uuid]["instance_uuid"] for uuid in deploying}
    with deployment.steps.step("stop a compute in mid deploy and start it"):
        compute.stop()
        compute.start()
        user.wait_for_servers("nothing under way", lambda server: server.idle)
    servers = {server.uuid: server for server in user.servers()}
    assert {servers[one.uuid].status for one in rebooted} == {"ACTIVE"}, compute.trouble()

    def deployed() -> bool:
        nodes = operator.nodes()
        assert {uuid: nodes[uuid]["instance_uuid"] for uuid in deploying} == held
        return all(nodes[uuid]["provision_state"] == "active" for uuid in deploying)

    # Also those that Nova may have given up.
    wait_for("deployments that go on in Ironic", deployed)
    user.delete(user.servers())
    wait_for("all servers gone", lambda: not user.servers())
    deployment.wait_for_no_leaks()


def test_servers_deleted_during_an_outage_are_torn_down_later(deployment: Deployment) -> None:
    user, operator, compute = deployment.user, deployment.operator, deployment.computes[VICTIM]
    user.boot(FEW, host=VICTIM)
    held = deployment.kill_in_mid_deploy(VICTIM)
    user.set_down(VICTIM, True)
    user.delete(user.servers())
    wait_for("all servers gone", lambda: not user.servers())
    nodes = operator.nodes()
    # Nova has forgotten them, and Ironic doesn't know.
    assert all(nodes[uuid]["instance_uuid"] for uuid in held)
    with deployment.steps.step("tear down what was deleted meanwhile"):
        compute.start()
        user.set_down(VICTIM, False)
        deployment.wait_for_no_leaks()
