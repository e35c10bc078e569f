# SPDX-License-Identifier: Apache-2.0

"""The launcher brings up a whole Ironic, and leaves nothing behind."""

from pathlib import Path

import pytest
import requests

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


def test_a_dead_conductors_nodes_are_taken_over_or_released(ironic_environment):
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

        def nodes_of(conductor):
            nodes = get(ironic, f"/v1/nodes?conductor={conductor.host}")["nodes"]
            return {node["uuid"] for node in nodes}

        def deploy(nodes, conductor):
            for node in nodes:
                url = f"{ironic.url}/v1/nodes/{node}/states/provision"
                requests.put(url, json={"target": "active"}, timeout=SECONDS).raise_for_status()
            wait_for("locks", lambda: nodes_in("deploying", conductor.host) == nodes, SECONDS)

        nodes = nodes_of(first)
        deploy(nodes, first)
        first.kill()
        assert not first.running
        wait_for("a takeover", lambda: nodes_in("deploy failed", None) == nodes, SECONDS)
        # The API keeps another hash ring, which can list the dead conductor after the other one
        # has taken its nodes over.
        wait_for("the API's ring", lambda: len(nodes_of(second)) == 8, SECONDS)
        nodes = nodes_of(second)
        deploy(nodes, second)
        second.kill()
        second.start()
        wait_for("the start", second.is_up, SECONDS)
        assert nodes_in("deploy failed", None) == nodes


def test_a_failed_start_shows_why_and_leaves_nothing(ironic_environment, tmp_path, monkeypatch):
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
