# SPDX-License-Identifier: Apache-2.0

"""How ``ironic-virt-compute`` starts, and how it says why it doesn't."""

import socket
import subprocess
from typing import Any

import pytest
import sqlalchemy as sa

from ironic_virt.compute.db import Database
from tests import programs
from tests.functional.compute.processes import ComputeProcess


@pytest.fixture
def service(database_url, fake_ironic_server, tmp_path) -> ComputeProcess:
    """A service; a test that uses ``db``, too, gives it a database with tables."""
    return ComputeProcess(tmp_path, "compute1", database_url, fake_ironic_server.url)


def refused(service: ComputeProcess, code: int, **sections: Any) -> str:
    """Run one to its end, which is this; returns the only line that says what is wrong."""
    service.configure(**sections)
    result = run("--config-file", str(service.config))
    (line,) = errors(result)
    assert result.returncode == code, line
    return line


def run(*argv: str) -> subprocess.CompletedProcess[str]:
    """Run the command to its end."""
    return programs.run(programs.COMPUTE, *argv)


def errors(result: subprocess.CompletedProcess[str]) -> list[str]:
    """The lines that say what is wrong."""
    assert "Traceback" not in result.stderr, result.stderr
    return [
        line
        for line in result.stderr.splitlines()
        if " ERROR " in line or line.startswith("ironic-virt-compute:")
    ]


def test_help_and_version_are_given() -> None:
    helped = run("--help")
    assert helped.returncode == 0
    assert "--config-file" in helped.stdout
    version = run("--version")
    assert version.returncode == 0
    assert version.stdout.startswith("ironic-virt-compute ")


def test_the_environments_file_is_read_unless_another_is_named(monkeypatch, tmp_path) -> None:
    named, other = tmp_path / "named.conf", tmp_path / "other.conf"
    for file in (named, other):
        file.write_text(f"[ironic]\nnode_selection = {file.stem}\n")
    monkeypatch.setenv("IRONIC_VIRT_CONFIG_FILE", str(named))
    assert "'named'" in errors(run())[0]
    assert "'other'" in errors(run("--config-file", str(other)))[0]
    named.unlink()
    result = run()
    assert (result.returncode, errors(result)) == (
        2,
        [f"ironic-virt-compute: {named}: No such file or directory"],
    )


@pytest.mark.parametrize(
    ("sections", "code", "said"),
    [
        ({"ironic": {"deploy_timeout": "soon"}}, 2, "[ironic] deploy_timeout"),
        ({"DEFAULT": {"report_interval": 60}}, 2, "[DEFAULT] report_interval"),
        (
            {"DEFAULT": {"compute_driver": "libvirt"}},
            2,
            "libvirt is not installed; there are: ironic",
        ),
        ({"scheduler": {"enabled_filters": "Nonsense"}}, 2, "Nonsense"),
        ({"database": {"connection": "oracle://x/y"}}, 2, "[database] connection"),
        (
            {"database": {"connection": "mysql+pymysql://root@127.0.0.1:1/x"}},
            1,
            "The database mysql+pymysql://root@127.0.0.1:1/x can't be used",
        ),
        (
            {"ironic": {"endpoint_override": "http://127.0.0.1:1", "api_max_retries": 0}},
            1,
            "Ironic: ",
        ),
        ({"ironic": {"conductor_group": "g", "peer_list": "other"}}, 2, "peer_list"),
        ({"ironic": {"shard_keyy": "a"}}, 2, "did you mean shard_key?"),
        ({"DEFAULT": {"log_file": "/nonexistent/log"}}, 2, "/nonexistent"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else None,
)
def test_what_keeps_it_from_starting_is_said_in_one_line(db, service, sections, code, said):
    assert said in refused(service, code, **sections)


def test_what_has_no_effect_is_said_in_the_log(db, service, tmp_path) -> None:
    log = tmp_path / "log"
    # It ends by itself.
    wrong = {"deploy_timeot": "7", "conductor_group": "g", "peer_list": "other"}
    service.configure(DEFAULT={"log_file": log, "hsot": "compute2"}, ironic=wrong)
    run("--config-file", str(service.config))
    lines = [line for line in log.read_text().splitlines() if " WARNING " in line]
    assert len(lines) == 2
    assert "[ironic] deploy_timeot" in lines[0]
    assert "did you mean deploy_timeout?" in lines[0]
    assert "[DEFAULT] hsot" in lines[1]
    assert "did you mean host?" in lines[1]


def test_tables_of_another_version_are_refused_with_what_to_do(db, service, tmp_path) -> None:
    with db.engine.begin() as connection:
        connection.execute(sa.text("UPDATE schema_version SET version = 9"))
    assert "upgrade this package" in refused(service, 1)
    # With a log file the reason is on standard error as well.
    log = tmp_path / "compute.log"
    assert refused(service, 1, DEFAULT={"log_file": log}).count("upgrade this package") == 1
    assert log.read_text().count("upgrade this package") == 1


def test_a_port_that_is_taken_is_said(db: Database, service: ComputeProcess) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        line = refused(service, 2, ironic={"metrics_port": port})
    assert "[ironic] metrics_port" in line
    assert str(port) in line
    assert db.services.list() == [], "it never was a service"
