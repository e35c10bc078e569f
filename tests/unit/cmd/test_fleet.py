# SPDX-License-Identifier: Apache-2.0

"""The commands for fleets: which nodes they take, what they ask, exit codes and progress."""

import io
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest

from ironic_virt import exceptions
from ironic_virt.cmd import fleet, fleet_apply, fleet_plan
from ironic_virt.fleet.plans import strategies
from ironic_virt.fleet.plans.apply import Effect, Report
from tests.unit.fleet import deployments


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_without_nova_it_says_where_to_run_it(monkeypatch, capsys, tmp_path) -> None:
    monkeypatch.setattr(fleet, "_is_nova_installed", lambda: False)
    # Cron jobs may have no standard input.
    monkeypatch.setattr(sys, "stdin", None)
    move = ["plan", "move", "--to=b", "--nodes-from=-", "--serves=b=b", f"--output={tmp_path}/p"]
    for words in (["check"], move):
        assert fleet.main(words) == 1
        assert "where nova-manage runs" in capsys.readouterr().err


def test_progress_is_said_at_times() -> None:
    now, lines = [0.0], io.StringIO()
    show = fleet.Progress(lines, lambda: now[0])
    for done in range(1, 16):
        now[0] += 1.0
        show("allocations", done, 30)
    shown = [f"allocations: {done} of 30" for done in (5, 10, 15)]
    assert lines.getvalue().splitlines() == shown


def command(kind: Any, *argv: str) -> tuple[Any, Any]:
    """A command with its parsed arguments; ``app.stderr`` has what it says."""
    options = SimpleNamespace(verbose_level=1, config_files=[], config_dirs=[])
    made = kind(mock.Mock(options=options, stderr=io.StringIO()), None)
    return made, made.get_parser("ironic-virt-fleet x").parse_args(argv)


def test_nodes_to_move_are_chosen_by_name_service_shard_or_file(tmp_path, capsys) -> None:
    deployment = deployments.fleet({"compute-a": 3, "compute-b": 1})
    first, second, third, _ = deployment.nodes
    listed = tmp_path / "nodes"
    listed.write_text(f"{first}\n{third}\n")
    other = tmp_path / "other"
    other.write_text(second)
    for words, nodes in (
        ((first,), {first}),
        (("--from", "compute-a"), {first, second, third}),
        (("--from", "compute-a", "--number", "2"), {first, third}),
        (("--from", "compute-a", "--from", "compute-b"), {first, second, third}),
        (("--shard", "Compute-A", "--shard", "compute-b"), {first, second, third}),
        ((second, "--nodes-from", str(listed)), {first, second, third}),
        (("--nodes-from", str(listed), "--nodes-from", str(other)), {first, second, third}),
    ):
        move, args = command(fleet_plan.Move, "--to", "compute-b", *words)
        move.check(args)
        plan = move.plan(deployment, args, accepted=(), new=False)
        assert {change.node for change in plan.changes} == nodes, words
    unknown = deployments.changed(deployment, records=deployment.records[1:])
    more = deployments.with_node(unknown, third, instance_uuid="strange")
    move, args = command(fleet_plan.Move, "--to", "compute-b", first, second, third)
    move.check(args)
    assert len(move.plan(more, args, accepted=(), new=False).changes) == 1
    assert [line[-36:] for line in move.app.stderr.getvalue().splitlines()] == [first, third]
    for words, name in (
        (("--from", "compute-typo", "--from", "compute-a"), "compute-typo"),
        (("--shard", "compute-a", "--shard", "typo"), "typo"),
        ((), "the command line"),
    ):
        move, args = command(fleet_plan.Move, "--to", "compute-b", *words)
        move.check(args)
        with pytest.raises(SystemExit):
            move.plan(deployment, args, accepted=(), new=False)
        assert f"no node is chosen: {name} has none" in capsys.readouterr().err


def test_a_plan_takes_no_name_that_was_used(tmp_path: Path, monkeypatch, capsys) -> None:
    path, journal = tmp_path / "a plan.yaml", tmp_path / "a plan.yaml.journal"
    reader = SimpleNamespace(read=lambda: deployments.fleet({"compute-a": 2, "compute-b": 1}))
    monkeypatch.setattr(fleet_plan.Drain, "reader", lambda *_: reader)
    words = "compute-a", "--serves=compute-a=x", "--output", str(path)
    drain, args = command(fleet_plan.Drain, *words)
    drain.act(args)
    assert f"run: ironic-virt-fleet apply '{path}'" in drain.app.stderr.getvalue()
    for taken in (path, journal):
        with pytest.raises(SystemExit):
            drain.act(args)
        assert f"{taken} already exists; give another name" in capsys.readouterr().err
        taken.rename(journal)


def test_a_stopped_run_had_something_to_do() -> None:
    apply, _ = command(fleet_apply.Apply, "plan.yaml")
    assert apply.collected([], str) == []
    with pytest.raises(ZeroDivisionError):
        apply.collected((1 // 0 for _ in "x"), str)
    for gone in (exceptions.IronicUnreachable("gone"), OSError(28, "No space left on device")):
        run = mock.Mock(side_effect=[Report("a", Effect.DONE), gone])
        assert [report.change for report in apply.collected(map(run, "ab"), str)] == ["a"]
        assert (apply.code, apply.is_stopped) == (1, True)
    stopped = "Stopped before the end. Run the command again to continue."
    said = ["nothing to do", stopped, *[stopped, "1 a: 1 done"] * 2]
    assert apply.app.stderr.getvalue().splitlines() == said


def test_who_has_dumped_nothing_changes_nothing(monkeypatch, capsys) -> None:
    apply, _ = command(fleet_apply.Apply, "plan.yaml")
    monkeypatch.setattr(sys, "stdin", _Terminal("y\n"))
    apply._ask_for_dumps()
    for stdin in (_Terminal("\n"), io.StringIO("y\n")):
        monkeypatch.setattr(sys, "stdin", stdin)
        with pytest.raises(SystemExit):
            apply._ask_for_dumps()
        assert "--yes" in capsys.readouterr().err


def test_a_finding_on_what_was_changed_is_exit_code_2() -> None:
    sound = deployments.fleet({"compute-a": 2, "compute-b": 1})
    plan = strategies.drain(sound, "compute-a", ["compute-b"])
    reports = [Report(change, Effect.DONE) for change in plan.changes]
    unsound = deployments.with_node(sound, plan.changes[0].node, maintenance=True)
    read = mock.Mock(side_effect=[sound, unsound, exceptions.IronicUnreachable("away")])
    for code, is_found in ((0, False), (2, True), (1, False)):
        apply, _ = command(fleet_apply.Apply, "plan.yaml")
        apply._check_afterwards(plan, reports, SimpleNamespace(read=read))
        assert apply.code == code
        assert ("offered-unavailable" in apply.app.stderr.getvalue()) is is_found
