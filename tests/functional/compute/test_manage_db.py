# SPDX-License-Identifier: Apache-2.0

"""``ironic-virt-manage db``, as an operator types it."""

from __future__ import annotations

import datetime
import json
from pathlib import Path

import pytest
from oslo_config import cfg

from ironic_virt import virt
from ironic_virt.cmd import manage
from ironic_virt.compute.db import Database
from ironic_virt.compute.db.records import FaultReport
from ironic_virt.compute.states import TaskState
from tests import root_logger
from tests.functional.compute.stage import Clock, free_node, new_instance, register


@pytest.fixture
def config(database_conf: cfg.ConfigOpts) -> str:
    """The file that names the database."""
    return str(Path(database_conf.config_file[0]))


def run(*argv: str) -> int:
    with root_logger.kept():
        try:
            return manage.main(argv)
        except SystemExit as end:
            return int(end.code or 0)


def test_the_tables_are_made_and_their_version_is_told(
    config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    told = []
    for command in ("version", "sync", "sync", "version"):
        assert run("--config-file", config, "db", command, "-f", "json") == 0
        out, err = capsys.readouterr()
        assert err == ""
        told.append(json.loads(out))
    needed = told[0]["needed"]
    assert [each["version"] for each in told] == ["none", needed, needed, needed]
    assert [each["before"] for each in told[1:3]] == ["none", needed]


def test_a_server_that_is_down_is_one_line_without_the_password(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "x.conf"
    # Nothing listens on port 1.
    config.write_text("[database]\nconnection = mysql+pymysql://u:secret@127.0.0.1:1/x\n")
    for command in ("sync", "version"):
        assert run("--config-file", str(config), "db", command) == 1
        out, err = capsys.readouterr()
        assert out == ""
        assert err.count("\n") == 1
        assert "mysql+pymysql://u:***@127.0.0.1:1/x can't be used" in err
        assert "secret" not in err


def test_help_lists_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--help") == 0
    out = capsys.readouterr().out
    assert out.startswith("usage: ironic-virt-manage ")
    for command in ("db purge", "db sync", "db version"):
        assert command in out
    assert "server create" not in out


def test_a_wrong_command_is_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("db", "snyc") == 2
    assert "did you mean db" in capsys.readouterr().err


@pytest.mark.parametrize("size", [1, 500])
def test_what_was_deleted_long_ago_is_purged_in_chunks(
    db: Database, clock: Clock, size: int
) -> None:
    register(db, "one")
    old, young, alive = (
        db.instances.create_building(new_instance(), free_node(db, "one")) for _ in range(3)
    )
    db.flavors.create(virt.Flavor("gone"))
    db.flavors.delete("gone")
    for instance in (old, young):
        db.instances.request(instance.uuid, TaskState.DELETING)
        db.instances.fail(instance.uuid, TaskState.DELETING, FaultReport("no"))
        db.instances.request(instance.uuid, TaskState.DELETING)
        db.instances.deleted(instance.uuid)
        clock.advance(3600)
    before = clock.now - datetime.timedelta(seconds=5400)
    assert db.purge(before, size) == {
        "servers": 1,
        "compute nodes": 0,
        "services": 0,
        "flavors": 1,
        "actions": 3,
        "faults": 1,
    }
    assert set(db.purge(before, size).values()) == {0}
    assert {one.uuid for one in db.instances.list(deleted=None)} == {young.uuid, alive.uuid}
    assert db.actions.list(old.uuid) == db.faults.list(old.uuid) == []
    assert len(db.actions.list(young.uuid)) == 3


def test_a_purge_is_a_table(config: str, db: Database, capsys: pytest.CaptureFixture[str]) -> None:
    command = ("--config-file", config, "db", "purge")
    assert run(*command, "--before", "2026-01-31", "-f", "json") == 0
    rows = json.loads(capsys.readouterr().out)
    assert {row["Kind"] for row in rows} > {"servers", "actions", "faults"}
    for wrong in ((), ("--before", "soon")):
        assert run(*command, *wrong) == 2


def test_of_a_deleted_instance_no_secret_is_kept(db: Database) -> None:
    register(db, "one")
    made = db.instances.create_building(new_instance(), free_node(db, "one"))
    assert made.user_data is not None
    assert made.public_key is not None
    db.instances.request(made.uuid, TaskState.DELETING)
    db.instances.deleted(made.uuid)
    left = db.instances.get(made.uuid, deleted=True)
    assert (left.user_data, left.public_key, left.arguments) == (None, None, {})
    assert left.key_name == "mine"
