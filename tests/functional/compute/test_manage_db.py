# SPDX-License-Identifier: Apache-2.0

"""``ironic-virt-manage db``, as an operator types it."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest
from oslo_config import cfg

from ironic_virt.cmd import manage


@pytest.fixture
def config(database_conf: cfg.ConfigOpts) -> str:
    """The file that names the database."""
    return str(Path(database_conf.config_file[0]))


def run(*argv: str) -> int:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    try:
        return manage.main(argv)
    except SystemExit as end:
        return int(end.code or 0)
    finally:
        root.handlers[:], root.level = handlers, level


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
    assert "db sync" in out
    assert "db version" in out
    assert "server" not in out


def test_a_wrong_command_is_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("db", "snyc") == 2
    assert "did you mean db sync" in capsys.readouterr().err
