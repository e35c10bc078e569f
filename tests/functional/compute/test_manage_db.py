# SPDX-License-Identifier: Apache-2.0

"""``ironic-virt-manage db``, as an operator types it."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest
from oslo_config import cfg

from ironic_virt import virt
from ironic_virt.cmd import manage
from ironic_virt.compute.db import Database
from ironic_virt.compute.db.records import FaultReport
from ironic_virt.compute.states import TaskState
from tests.functional.compute.commands import Commands
from tests.functional.compute.stage import Clock, free_node, new_instance, register


@pytest.fixture
def run(
    database_conf: cfg.ConfigOpts,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Commands:
    """The command, with the file that names the database."""
    return Commands(Path(database_conf.config_file[0]), capsys, monkeypatch, manage.main)


def test_the_tables_are_made_and_their_version_is_told(run: Commands) -> None:
    told = [run.json("db", command) for command in ("version", "sync", "sync", "version")]
    needed = told[0]["needed"]
    assert [each["version"] for each in told] == ["none", needed, needed, needed]
    assert [each["before"] for each in told[1:3]] == ["none", needed]


@pytest.mark.parametrize("command", ["sync", "version"])
def test_a_server_that_is_down_is_one_line_without_the_password(
    run: Commands, tmp_path: Path, command: str
) -> None:
    config = tmp_path / "x.conf"
    # Nothing listens on port 1.
    config.write_text("[database]\nconnection = mysql+pymysql://u:secret@127.0.0.1:1/x\n")
    result = run("--config-file", str(config), "db", command)
    assert (result.code, result.out, result.err.count("\n")) == (1, "", 1)
    assert "mysql+pymysql://u:***@127.0.0.1:1/x can't be used" in result.err
    assert "secret" not in result.err


def test_help_lists_the_commands_and_a_wrong_one_is_2(run: Commands) -> None:
    out = run.ok("--help")
    assert out.startswith("usage: ironic-virt-manage ")
    assert [word for word in ("db purge", "db sync", "db version") if word not in out] == []
    assert "server create" not in out
    wrong = run("db", "snyc")
    assert wrong.code == 2
    assert "did you mean db" in wrong.err


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


def test_a_purge_is_a_table(run: Commands, db: Database) -> None:
    rows = run.json("db", "purge", "--before", "2026-01-31")
    assert {row["Kind"] for row in rows} > {"servers", "actions", "faults"}
    for wrong in ((), ("--before", "soon")):
        assert run("db", "purge", *wrong).code == 2


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
