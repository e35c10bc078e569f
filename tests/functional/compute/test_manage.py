# SPDX-License-Identifier: Apache-2.0

"""``ironic-virt-manage``, as an operator types it."""

from pathlib import Path

import pytest

from ironic_virt.cmd import manage
from tests.functional.compute.commands import Commands

MOVE = "ironic-compute-node-move"


@pytest.fixture
def run(database_conf, capsys, monkeypatch) -> Commands:
    """The command, with the file that names the database."""
    return Commands(Path(database_conf.config_file[0]), capsys, monkeypatch, manage.main)


def test_a_server_that_is_down_is_one_line_without_the_password(run, tmp_path) -> None:
    config = tmp_path / "x.conf"
    # Nothing listens on port 1.
    config.write_text("[database]\nconnection = mysql+pymysql://u:secret@127.0.0.1:1/x\n")
    result = run("--config-file", str(config), MOVE, "--shard", "a", "--service", "one")
    assert (result.code, result.out, result.err.count("\n")) == (1, "", 1)
    assert "mysql+pymysql://u:***@127.0.0.1:1/x can't be used" in result.err
    assert "secret" not in result.err


def test_help_lists_the_commands_and_a_wrong_one_is_2(run: Commands) -> None:
    out = run.ok("--help")
    assert out.startswith("usage: ironic-virt-manage ")
    assert MOVE in out
    assert "server create" not in out
    wrong = run("ironic-compute-node-mvoe")
    assert wrong.code == 2
    assert f"did you mean {MOVE}?" in wrong.err
