# SPDX-License-Identifier: Apache-2.0

"""``ironic-virt-manage`` as an operator types it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from ironic_virt.cmd import manage
from ironic_virt.compute.db import Database
from ironic_virt.conf import database as options
from ironic_virt.testing.fake_ironic import FakeIronicServer
from tests.functional.compute import stage
from tests.functional.compute.commands import Commands

STRANGER = "6d2b4f02-0000-4000-8000-00000000beef"
MOVE = "ironic-compute-node-move"


@pytest.fixture
def ironic(fake_ironic_server: FakeIronicServer) -> FakeIronicServer:
    return fake_ironic_server


@pytest.fixture
def config(tmp_path: Path, database_url: str, ironic: FakeIronicServer) -> Path:
    path = tmp_path / "ironic-virt.conf"
    path.write_text(
        f"[DEFAULT]\nstate_path = {tmp_path}\n"
        f"[database]\nconnection = {database_url}\nsqlite_synchronous = false\n"
        f"[ironic]\nauth_type = none\nendpoint_override = {ironic.url}\napi_max_retries = 0\n"
    )
    return path


@pytest.fixture
def command(config, capsys, monkeypatch) -> Commands:
    return Commands(config, capsys, monkeypatch, main=manage.main)


@pytest.fixture
def records(command: Commands, config: Path) -> Iterator[Database]:
    """Two services, ``old`` forced down and ``new`` up."""
    db = Database(options.load([str(config)])).open(make=True)
    stage.register(db, "old")
    stage.register(db, "new")
    db.services.update("old", forced_down=True)
    with db.engine.begin() as connection:
        connection.execute(sa.text("UPDATE services SET last_seen_at = NULL WHERE host = 'old'"))
    yield db
    db.close()


def nodes(ironic: FakeIronicServer, records: Database, count: int, **fields: str) -> list[str]:
    uuids = ironic.fake.add_nodes(count, resource_class="gold", **fields)
    records.compute_nodes.save("old", [stage.report(uuid=uuid) for uuid in uuids])
    return sorted(uuids)


def test_help_lists_the_commands_and_a_wrong_one_is_2(command: Commands) -> None:
    out = command.ok("--help")
    assert out.startswith("usage: ironic-virt-manage ")
    assert MOVE in out
    assert "server create" not in out
    wrong = command("ironic-compute-node-mvoe")
    assert wrong.code == 2
    assert f"did you mean {MOVE}?" in wrong.err


# -- moves --------------------------------------------------------------------


def test_without_tables_a_command_says_what_makes_them(command: Commands) -> None:
    result = command(MOVE, STRANGER, "--service", "new")
    assert result.code == 2
    assert "start 'ironic-virt-compute', which makes them" in result.err
    assert result.err.count("\n") == 1


def test_several_nodes_move_and_the_report_has_a_row_for_each(command, records, ironic) -> None:
    uuids = nodes(ironic, records, 3)
    argv = (MOVE, *uuids, uuids[0], "--service", "new", "-f", "json")
    dry = command(*argv, "--dry-run")
    assert (dry.code, [row["Outcome"] for row in dry.json]) == (0, ["would move"] * 3)
    assert set(records.compute_nodes.owners(uuids).values()) == {"old"}
    result = command(*argv)
    assert result.code == 0
    assert [(row["Node"], row["Outcome"], row["From"], row["To"]) for row in result.json] == [
        (uuid, "moved", "old", "new") for uuid in uuids
    ]
    assert result.err == "3 nodes: 3 moved\n"
    assert set(records.compute_nodes.owners(uuids).values()) == {"new"}


def test_an_outage_stops_a_run_and_the_same_words_repeat_it(command, records, ironic) -> None:
    uuids = nodes(ironic, records, 3)
    argv = (MOVE, *uuids, "--service", "new")
    ironic.fake.faults.reset("GET", f"/v1/nodes/{uuids[1]}")
    result = command(*argv, "-f", "json")
    assert (result.code, [row["Outcome"] for row in result.json]) == (1, ["moved"])
    assert "Stopped after 1 of 3 nodes" in result.err
    ironic.fake.faults.reset()
    assert command(MOVE, uuids[1], "--service", "new", "--without-ironic").code == 0
    ironic.fake.faults.clear()
    result = command(*argv)
    assert (result.code, result.err) == (0, "3 nodes: 2 already there, 1 moved\n")


def test_a_whole_shard_moves(command, records, ironic) -> None:
    inside, outside = nodes(ironic, records, 3, shard="a"), nodes(ironic, records, 1, shard="b")
    (unrecorded,) = ironic.fake.add_nodes(1, shard="a")
    result = command(MOVE, "--shard", "a", "--service", "new", "-f", "json")
    assert result.code == 0
    outcomes = {row["Node"]: row["Outcome"] for row in result.json}
    assert outcomes == {**dict.fromkeys(inside, "moved"), unrecorded: "no record"}
    assert records.compute_nodes.owners(outside) == {outside[0]: "old"}


def test_all_nodes_of_a_service_move_at_once(command, records, ironic) -> None:
    uuids = nodes(ironic, records, 30)
    stage.register(records, "old")
    argv = (MOVE, "--from-service", "old", "--service", "new")
    refused = command(*argv, "-f", "json")
    assert refused.code == 1
    assert {row["Guard"] for row in refused.json} == {"source"}
    assert {row["From"] for row in refused.json} == {"old"}
    assert "--force" in refused.json[0]["Reason"]
    result = command(*argv, "--force")
    assert (result.code, result.err) == (0, "30 nodes: 30 moved\n")
    assert set(records.compute_nodes.owners(uuids).values()) == {"new"}


@pytest.mark.parametrize(
    ("argv", "code", "said"),
    [
        ((), 2, "--service"),
        (("--service", "new"), 2, "which nodes?"),
        ((STRANGER, "--shard", "a", "--service", "new"), 2, "which nodes?"),
        (("node-1", "--service", "new"), 2, "'node-1' is not a UUID"),
        (("--shard", "a", "--without-ironic", "--service", "new"), 2, "--without-ironic"),
        ((STRANGER, "--service", "new", "-c", "Color"), 2, "the columns are"),
        ((STRANGER, "--from-service", "old", "--service", "new"), 2, "which nodes?"),
        (("--from-service", "nowhere", "--service", "new"), 1, "no compute service 'nowhere'"),
        (("--shard", "empty", "--service", "new"), 1, "no nodes in shard 'empty'"),
    ],
)
def test_what_is_asked_for_wrongly_is_told_on_one_line(command, records, argv, code, said) -> None:
    result = command(MOVE, *argv)
    assert result.code == code
    assert said in result.err
    assert result.err.count("\n") == 1
    assert "Traceback" not in result.err


def test_a_node_without_a_record_is_an_error_when_it_was_named(command, records) -> None:
    result = command(MOVE, STRANGER, "--service", "new", "-f", "json")
    assert result.code == 1
    assert result.json[0]["Outcome"] == "no record"
    assert STRANGER in result.json[0]["Reason"]
