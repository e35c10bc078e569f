# SPDX-License-Identifier: Apache-2.0

"""The launcher brings up a whole Ironic, and leaves nothing behind."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
import requests

from tests import signals
from tests.functional.compute.processes import wait_for
from tests.integration.services import SECONDS
from tools import real_ironic
from tools.real_ironic import database as databases


def get(ironic, path, version="latest"):
    answer = requests.get(
        f"{ironic.url}{path}", headers={"X-OpenStack-Ironic-API-Version": version}, timeout=SECONDS
    )
    answer.raise_for_status()
    return answer.json()


def test_it_serves_fake_hardware_at_the_newest_version(ironic):
    assert ironic.version == real_ironic.IRONIC_VERSION
    assert get(ironic, "/v1/")["version"]["version"] == "1.115"
    (conductor,) = get(ironic, "/v1/conductors")["conductors"]
    # On SQLite a conductor sends no heartbeats: after a minute it counts as dead, and works on.
    assert conductor["hostname"] == "conductor-1"


def test_created_nodes_can_be_deployed_to_at_once(ironic):
    template = real_ironic.NodeTemplate(
        resource_class="gold", traits=["CUSTOM_GPU"], shard="s1", ports=2
    )
    uuids = real_ironic.create_nodes(ironic, 3, template, name="ready-{}", seed=1)
    for number, uuid in enumerate(uuids):
        node = get(ironic, f"/v1/nodes/{uuid}")
        assert node["name"] == f"ready-{number}"
        assert (node["provision_state"], node["power_state"]) == ("available", "power off")
        assert node["reservation"] is None
        assert (node["resource_class"], node["shard"]) == ("gold", "s1")
        assert node["traits"] == ["CUSTOM_GPU"]
        assert node["properties"]["memory_mb"] == 16384
        assert len(get(ironic, f"/v1/nodes/{uuid}/ports")["ports"]) == 2


@pytest.mark.parametrize("which", ["ironic", "ironic_on_mariadb"])
def test_clones_are_like_their_source_but_for_the_differences(which, request):
    ironic = request.getfixturevalue(which)
    template = real_ironic.NodeTemplate(resource_class="cloned", traits=["CUSTOM_A", "CUSTOM_B"])
    (source,) = real_ironic.create_nodes(ironic, 1, template, name="source", seed=2)
    clones = real_ironic.clone_nodes(
        ironic,
        source,
        200,
        differences=lambda number: {"shard": "even" if number % 2 == 0 else "odd"},
    )
    listed = get(ironic, "/v1/nodes?resource_class=cloned&shard=even&detail=true")["nodes"]
    assert {node["uuid"] for node in listed} == set(clones[::2])
    assert all(node["traits"] == ["CUSTOM_A", "CUSTOM_B"] for node in listed)
    assert all(node["provision_state"] == "available" for node in listed)
    assert all(node["power_state"] == "power off" for node in listed)


def test_a_vif_is_attached_to_a_port_of_the_node(ironic):
    (node,) = real_ironic.create_nodes(ironic, 1, name="with-vif", seed=3)
    vif = "6b9dc1b3-1b7e-44a5-9d44-61bd6ec4f2f0"
    url = f"{ironic.url}/v1/nodes/{node}/vifs"
    headers = {"X-OpenStack-Ironic-API-Version": "1.28"}
    assert (
        requests.post(url, json={"id": vif}, headers=headers, timeout=SECONDS).status_code == 204
    )
    assert get(ironic, f"/v1/nodes/{node}/vifs", "1.28") == {"vifs": [{"id": vif}]}
    assert (
        requests.post(url, json={"id": vif}, headers=headers, timeout=SECONDS).status_code == 409
    )


def test_hardware_can_be_held_and_the_newest_api_version_limited(ironic_environment):
    options = real_ironic.Options(delays={"power": real_ironic.HELD}, max_api_version="1.51")
    with real_ironic.RealIronic(options, environment=ironic_environment) as ironic:
        assert get(ironic, "/v1/", "1.51")["version"]["version"] == "1.51"
        newer = {"X-OpenStack-Ironic-API-Version": "1.52"}
        answer = requests.get(f"{ironic.url}/v1/nodes", headers=newer, timeout=SECONDS)
        assert answer.status_code == 406

        (node,) = real_ironic.create_nodes(ironic, 1)
        url = f"{ironic.url}/v1/nodes/{node}/states"

        def states():
            found = get(ironic, f"/v1/nodes/{node}/states")
            return found["power_state"], found["target_power_state"]

        with ironic.held_hardware() as is_reached:
            assert not is_reached()
            answer = requests.put(f"{url}/power", json={"target": "power on"}, timeout=SECONDS)
            assert answer.status_code == 202
            wait_for("the hardware to be told", is_reached, SECONDS)
            assert states() == ("power off", "power on")
        wait_for("it to be done", lambda: states() == ("power on", None), SECONDS)


def test_what_a_dead_conductor_has_is_taken_over_or_released_when_it_starts(ironic_environment):
    options = real_ironic.Options(conductors=2, delays={"deploy": "600"})
    with real_ironic.RealIronic(
        options, database=real_ironic.MARIADB, environment=ironic_environment
    ) as ironic:
        first, second = ironic.conductors
        real_ironic.create_nodes(ironic, 8)

        def nodes_in(state, lock):
            wanted = {"provision_state": state, "reservation": lock}
            nodes = get(ironic, "/v1/nodes?detail=true")["nodes"]
            return {one["uuid"] for one in nodes if wanted.items() <= one.items()}

        def deploy(conductor):
            nodes = get(ironic, f"/v1/nodes?conductor={conductor.host}")["nodes"]
            nodes = {node["uuid"] for node in nodes}
            for node in nodes:
                url = f"{ironic.url}/v1/nodes/{node}/states/provision"
                requests.put(url, json={"target": "active"}, timeout=SECONDS).raise_for_status()
            wait_for("locks", lambda: nodes_in("deploying", conductor.host) == nodes, SECONDS)
            return nodes

        nodes = deploy(first)
        first.kill()
        assert not first.running
        wait_for("a takeover", lambda: nodes_in("deploy failed", None) == nodes, SECONDS)
        nodes = deploy(second)
        assert len(nodes) == 8
        second.kill()
        second.start()
        wait_for("the start", second.is_up, SECONDS)
        assert nodes_in("deploy failed", None) == nodes


def test_when_it_does_not_start_the_error_shows_why_and_nothing_stays(
    ironic_environment, tmp_path, monkeypatch
):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    options = real_ironic.Options(overrides={"DEFAULT": {"enabled_power_interfaces": "steam"}})
    with (
        pytest.raises(real_ironic.StartError, match=r"power.*entrypoint: steam"),
        real_ironic.RealIronic(options, environment=ironic_environment),
    ):
        pass
    assert list(tmp_path.iterdir()) == []


def test_stopping_it_leaves_neither_server_nor_files(ironic_environment, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    ironic = real_ironic.RealIronic(environment=ironic_environment)

    def be_interrupted():
        with ironic:
            assert get(ironic, "/v1/nodes") == {"nodes": []}
            assert list(tmp_path.iterdir()) != []
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        be_interrupted()
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(requests.ConnectionError):
        requests.get(ironic.url, timeout=SECONDS)


def test_a_mariadb_is_started_when_none_lets_us_in(ironic_environment, monkeypatch):
    if databases.find_program("mariadb-install-db") is None:
        pytest.skip("no MariaDB server is installed on this host")
    nobody = "mysql+pymysql://root@127.0.0.1:1/"
    monkeypatch.setattr(databases, "_USUAL_SERVERS", (nobody,))
    with databases.database("mariadb", ironic_environment, Path("/"), variables={}) as url:
        assert "unix_socket=/tmp/ironic-virt-mariadb-" in url
        socket = Path(url.partition("unix_socket=")[2])
        assert socket.exists()
    assert not socket.parent.exists()


def test_in_the_foreground_it_ends_in_order_on_ctrl_c(ironic_environment):
    with signals.heard(signal.SIGINT):
        process = subprocess.Popen(
            [sys.executable, "-u", "-m", "tools.real_ironic", "--nodes", "2"],
            stdout=subprocess.PIPE,
            text=True,
        )
    with process:
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            lines.append(line)
            if line.startswith("2 nodes"):
                process.send_signal(signal.SIGINT)
        assert lines[-1] == "Stopped.\n"
    assert process.returncode == 0
