# SPDX-License-Identifier: Apache-2.0

"""What the commands for fleets share: exit codes, and how they say how far they are."""

from __future__ import annotations

import io

import pytest

from ironic_virt.cmd import fleet


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    "arguments",
    [
        ["chck"],
        ["check", "--nope"],
        ["check", "--service-conf", "one"],
        ["check", "--code", "nothing-like-it"],
        ["check", "--apply"],
        ["plan", "shards"],
        ["plan", "shards", "--serves", "one"],
        ["plan", "shards", "--serves", "one=rack", "--accept", "nothing-like-it"],
        ["plan", "move", "--from", "one"],
        ["check", "--column", "nope"],
        [],
    ],
)
def test_a_wrong_command_line_ends_with_1(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        raise SystemExit(fleet.main(arguments))
    assert ended.value.code == 1
    assert capsys.readouterr().err.startswith("ironic-virt-fleet")


def test_without_nova_it_says_where_to_run_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(fleet, "_is_nova_installed", lambda: False)
    assert fleet.main(["check"]) == 1
    assert "where nova-manage runs" in capsys.readouterr().err


def test_help_has_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        raise SystemExit(fleet.main(["check", "--help"]))
    assert ended.value.code in (0, None)
    assert "ironic-virt-fleet check --service-conf" in capsys.readouterr().out


def test_progress_is_said_at_times_and_on_a_terminal_in_place() -> None:
    now = [0.0]
    lines, terminal = io.StringIO(), _Terminal()
    said = [fleet.Progress(stream, lambda: now[0]) for stream in (lines, terminal)]
    for done in range(1, 31):
        now[0] += 1.0
        for one in said:
            one("Placement: allocations", done, 30)
    assert lines.getvalue().splitlines() == [
        f"Placement: allocations: {done} of 30" for done in (10, 20, 30)
    ]
    assert terminal.getvalue().count("\r") == 30
    assert terminal.getvalue().endswith("\n")


def test_progress_of_what_is_done_at_once_says_nothing() -> None:
    stream = _Terminal()
    said = fleet.Progress(stream, lambda: 0.0)
    said("Ironic: nodes", 3, 3)
    assert stream.getvalue() == ""
