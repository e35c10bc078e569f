# SPDX-License-Identifier: Apache-2.0

"""``ironic-virt-compute`` as real processes: signals, crashes, and each other."""

import signal
from collections.abc import Iterator

import pytest
import requests

from ironic_virt.compute.states import TaskState
from ironic_virt.testing.fake_ironic import Durations, FakeIronicServer
from tests import log_watch
from tests.functional.compute.commands import Commands
from tests.functional.compute.processes import (
    GOLD,
    built,
    create,
    deployments,
    wait_for,
    wait_for_nodes,
    wait_until,
)
from tests.ports import reserved_port
from tests.records import instance_of

PASSWORD = log_watch.secret("rescue-password")


def wait_for_deployment(server: FakeIronicServer, node: str) -> None:
    wait_for(f"{node} to be deployed", lambda: node in deployments(server))


@pytest.fixture
def metrics_port() -> Iterator[int]:
    with reserved_port() as port:
        yield port


# -- ends -------------------------------------------------------------------------


def test_sigterm_leaves_waiting_actions_to_the_next_process(serve, db, server, ironic_clock):
    service, nodes = serve(2, DEFAULT={"graceful_shutdown_timeout": 3600})
    first, second = nodes
    ironic_clock.stop()
    waiting = create(db, first)
    wait_for_deployment(server, first)
    service.signal(signal.SIGTERM)
    assert service.wait() == 0
    assert db.services.get("compute1").last_seen_at is None, "it is down, and says so"
    too_late = create(db, second)
    assert server.fake.node(first)["provision_state"] == "deploying"
    assert db.instances.get(waiting).task_state == "spawning"
    service.started()
    ironic_clock.go_on()
    for uuid in (waiting, too_late):
        wait_until(db, uuid, "active")
        assert instance_of(db, uuid).fault is None
    assert deployments(server) == nodes


def test_a_second_sigterm_ends_what_a_request_holds_up(serve, db, server) -> None:
    service, nodes = serve(DEFAULT={"graceful_shutdown_timeout": 3600})
    hanging = server.fake.faults.hang("PATCH", "/nodes/")
    uuid = create(db, nodes[0])
    wait_for("the request", lambda: hanging.hits)
    service.signal(signal.SIGTERM)
    service.wait_for_text("Shutting down")
    service.signal(signal.SIGTERM)
    assert service.wait() == 143
    assert db.instances.get(uuid).task_state == "spawning"


def test_sigterm_ends_a_start_that_waits_for_ironic(compute, db, server) -> None:
    server.fake.faults.status(503, count=None)
    service = compute().start()
    wait_for("the first question", lambda: server.fake.requests.matching("GET", "^/$"))
    service.signal(signal.SIGTERM)
    assert service.wait() == 0
    assert db.services.list() == [], "it never was a service"


@pytest.mark.parametrize(
    "durations", [Durations(deploy=0.1, rescue=0.1, unrescue=0.1, undeploy=0.1, clean=0.2)]
)
def test_a_power_cut_in_a_rescue_or_delete_costs_only_time(serve, db, server, ironic_clock):
    service, nodes = serve(DEFAULT={"debug": True})
    uuid = built(db, nodes[0])
    for task, verb, becomes in (
        (TaskState.RESCUING, "rescue", "rescued"),
        (TaskState.UNRESCUING, "unrescue", "active"),
        (TaskState.DELETING, "deleted", "deleted"),
    ):
        arguments = {"password": PASSWORD} if task is TaskState.RESCUING else None
        ironic_clock.stop()
        db.instances.request(uuid, task, arguments)
        wait_for(verb, lambda verb=verb: deployments(server, verb))  # type: ignore[misc]
        service.kill()
        assert db.instances.get(uuid).task_state == task
        service.started()
        ironic_clock.go_on()
        wait_until(db, uuid, becomes)
        assert instance_of(db, uuid).arguments == {}
        if verb != "rescue":
            assert deployments(server, verb) == nodes
    assert {
        entry.body.get("rescue_password")
        for entry in server.fake.requests.matching("PUT", "/states/provision$")
        if entry.body["target"] == "rescue"
    } == {PASSWORD}
    assert instance_of(db, uuid).fault is None
    assert PASSWORD not in service.text()
    wait_for("the node to be free", lambda: db.compute_nodes.get(nodes[0]).available)


def test_diagnostics_and_a_console_while_the_service_is_down(
    serve, db, server, capsys, monkeypatch
) -> None:
    fields = {
        "properties": {"cpus": 8, "memory_mb": 16384, "local_gb": 100, "cpu_arch": "x86_64"},
        "console_interface": "ipmitool-socat",
        "driver_info": {"ipmi_address": "192.0.2.7", "ipmi_terminal_port": 10023},
        "shard": "a",
    }
    service, (node,) = serve(fields=fields, ironic={"shard_key": "a"})
    uuid = built(db, node, display_name="web")
    run = Commands(service.config, capsys, monkeypatch)
    told = run.json("server", "diagnostics", "show", "web")
    (nic,) = told.pop("nic_details")
    uptime = told.pop("uptime")
    assert uptime is None or uptime >= 0
    assert told == {
        "config_drive": True,
        "driver": "ironic",
        "hypervisor": "ironic",
        "memory_details": {"maximum": 16384},
        "num_cpus": 8,
        "num_nics": 1,
        "state": "running",
    }
    drawn = run.ok("server", "diagnostics", "show", uuid)
    assert f"| nic_details    | {nic['mac_address']} " in drawn
    assert "| memory_details | 16384 MiB " in drawn
    # Ironic's own words, and whose node it is about.
    server.fake.faults.status(403, "GET", "/ports", body="not for you", count=None)
    result = run("server", "diagnostics", "show", "web")
    assert (result.code, result.out) == (1, "")
    assert node in result.err
    assert "not for you" in result.err
    server.fake.faults.clear()
    service.kill()
    # The file of another service serves, too.
    service.configure(ironic={"shard_key": "b"})
    told = run.json("server", "console", "url", "show", uuid)
    assert told["url"] == "tcp://127.0.0.1:10023"
    assert server.fake.node(node)["console_enabled"]
    result = run("server", "console", "url", "show", "--vnc", uuid)
    assert (result.code, result.out) == (1, "")
    assert "is of type 'socat', and 'vnc' is wanted" in result.err
    assert uuid in result.err


# -- what happens meanwhile -------------------------------------------------------


def test_sighup_changes_the_conductor_group_if_the_file_is_valid(serve, db, server) -> None:
    two = server.fake.add_node(conductor_group="two", **GOLD)
    group = {"conductor_group": "one"}
    service, (one, other) = serve(2, fields=group, ironic=group)
    service.config.write_text("[ironic\n")
    service.signal(signal.SIGHUP)
    service.wait_for_text("can't all be used")
    built(db, other)
    service.configure(ironic={"conductor_group": "two"})
    service.signal(signal.SIGHUP)
    wait_for_nodes(db, "compute1", [one, other, two])
    wait_for("the former node to be withdrawn", lambda: not db.compute_nodes.get(one).available)
    assert db.compute_nodes.get(two).available
    built(db, two)
    wait_for("the report", lambda: db.services.get("compute1").conductor_group == "two")
    assert service.running
    assert service.text().count(" is up") == 1


def test_metrics_are_offered(serve, db, server, metrics_port) -> None:
    service, nodes = serve(3, ironic={"api_max_retries": 1, "metrics_port": metrics_port})
    built(db, nodes[0])
    gold = 'ironic_virt_pool_nodes{pool="",resource_class="gold",traits="",use="'

    def shown() -> str:
        return requests.get(f"http://127.0.0.1:{metrics_port}/metrics", timeout=10).text

    wait_for(
        "the metrics",
        lambda: f'{gold}used"}} 1.0' in shown() and f'{gold}free"}} 2.0' in shown(),
    )
    deploy = 'code="202",method="PUT",path="/nodes/{id}/states/provision"'
    assert f"ironic_virt_ironic_requests_total{{{deploy}}} 1.0" in shown()
    assert "ironic_virt_inventory_age_seconds" in shown()
    page = f"http://127.0.0.1:{metrics_port}"
    assert requests.get(f"{page}/", timeout=10).status_code == 404
    assert requests.get(f"{page}/healthz", timeout=10).text == "ok\n"
    server.fake.faults.status(503, count=None)

    def unhealthy() -> str:
        answer = requests.get(f"{page}/healthz", timeout=10)
        return answer.text if answer.status_code == 503 else ""

    assert "Ironic could not be asked" in wait_for("the trouble", unhealthy)
    server.fake.faults.clear()
    wait_for("its end", lambda: requests.get(f"{page}/healthz", timeout=10).ok)
    service.signal(signal.SIGTERM)
    assert service.wait() == 0
