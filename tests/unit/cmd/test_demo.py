# SPDX-License-Identifier: Apache-2.0

"""The command line of ``ironic-virt demo``."""

import pytest

from ironic_virt.cmd import shell
from ironic_virt.cmd.demo import run as demo
from ironic_virt.cmd.demo.commands import DemoFailed


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[demo.Settings]:
    """What the demo would have been run with."""
    settings: list[demo.Settings] = []

    monkeypatch.setattr(demo, "run", lambda told, *_ironic: settings.append(told))
    return settings


def run(*argv: str) -> int | str:
    """The exit code of ``ironic-virt demo``, however it ends."""
    try:
        return shell.Shell().run(["demo", *argv])
    except SystemExit as end:
        return end.code or 0


def test_what_is_not_said_has_a_default(asked: list[demo.Settings]) -> None:
    assert run() == 0
    assert asked == [demo.Settings()]
    assert demo.Settings() == demo.Settings(nodes=5, instances=3)


def test_all_that_is_said_arrives(asked: list[demo.Settings]) -> None:
    options = "--nodes 9 --servers 8 --deploy-time 1.5 --node-selection ironic"
    assert run(*options.split()) == 0
    assert asked == [demo.Settings(9, 8, 1.5, demo.IRONIC)]


@pytest.mark.parametrize(
    ("argv", "complaint"),
    [
        (["--nodes", "0"], "argument --nodes: '0' is not a number from 1"),
        (["--nodes", "many"], "argument --nodes: 'many' is not a number from 1"),
        (["--servers", "-1"], "argument --servers: '-1' is not a number from 1"),
        (["--nodes", "2"], "argument --servers: 3 don't fit on 2 nodes (--nodes)"),
        (["--servers", "6"], "argument --servers: 6 don't fit on 5 nodes (--nodes)"),
        (["--deploy-time", "-1"], "--deploy-time: '-1' is not a number of seconds, 0 to 3600"),
        (["--deploy-time", "nan"], "--deploy-time: 'nan' is not a number of seconds, 0 to 3600"),
        (["now"], "unrecognized arguments: now"),
    ],
)
def test_a_wrong_command_line_is_2_and_one_clear_line(
    asked: list[demo.Settings],
    capsys: pytest.CaptureFixture[str],
    argv: list[str],
    complaint: str,
) -> None:
    assert run(*argv) == 2
    assert asked == []
    out, err = capsys.readouterr()
    assert out == ""
    assert complaint in err
    assert len(err.splitlines()) == 1


def test_a_failure_is_1_and_one_clear_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> None:
        raise DemoFailed("Ironic did not start. The end of its log:\nno space left")

    monkeypatch.setattr(demo, "run", fail)
    assert run() == 1
    assert capsys.readouterr() == ("", "Ironic did not start. The end of its log: no space left\n")


def test_help_has_examples_one_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--help") == 0
    lines = capsys.readouterr().out.splitlines()
    assert sum(line.startswith("  ironic-virt demo") for line in lines) >= 3
