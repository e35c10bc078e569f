# SPDX-License-Identifier: Apache-2.0

"""The launcher brings up a whole Ironic, and leaves nothing behind."""

from pathlib import Path

import pytest
import requests

from tests.integration.services import SECONDS
from tools import real_ironic
from tools.real_ironic import database as databases


def get(ironic, path, version="latest"):
    answer = requests.get(
        f"{ironic.url}{path}", headers={"X-OpenStack-Ironic-API-Version": version}, timeout=SECONDS
    )
    answer.raise_for_status()
    return answer.json()


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
