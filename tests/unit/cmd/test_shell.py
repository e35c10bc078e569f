# SPDX-License-Identifier: Apache-2.0

"""How ``ironic-virt`` starts and how it ends, with any command."""

import argparse
import logging
import pathlib
import signal
import subprocess
import sys
import tomllib
from typing import ClassVar

import pytest
from cliff import command

from ironic_virt import exceptions
from ironic_virt.cmd import shell

PROJECT = pathlib.Path(__file__).parents[3] / "pyproject.toml"
SCRIPTS = {
    name: target.partition(":")[2]
    for name, target in tomllib.loads(PROJECT.read_text())["project"]["scripts"].items()
}


class Raise(command.Command):
    """Fail with the error that an argument names."""

    ERRORS: ClassVar[dict[str, BaseException]] = {
        "ours": exceptions.InvalidConfiguration("[ironic] shard_key", "is\n too long"),
        "foreign": KeyError("uuid"),
        "interrupt": KeyboardInterrupt(),
        "pipe": BrokenPipeError(),
    }

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("kind", choices=["nothing", *self.ERRORS])
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        logging.getLogger("ironic_virt.example").info("asked for %s", parsed_args.kind)
        if parsed_args.kind in self.ERRORS:
            raise self.ERRORS[parsed_args.kind]


def run(*argv: str) -> int | str:
    """The exit code of a run, however it ends."""
    # Made here: it takes the standard streams of the moment.
    application = shell.Shell()
    application.command_manager.add_command("thing raise", Raise)
    try:
        return application.run(list(argv))
    except SystemExit as end:
        return end.code or 0


def test_an_error_of_ours_is_its_own_text_on_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    # As an unusable configuration always ends.
    assert run("thing", "raise", "ours") == 2
    expected = "Invalid configuration: [ironic] shard_key: is too long\n"
    assert capsys.readouterr() == ("", expected)


def test_an_unforeseen_error_is_one_line_with_its_kind(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("thing", "raise", "foreign") == 1
    assert capsys.readouterr() == ("", "KeyError: 'uuid'\n")


def test_debug_shows_the_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--debug", "thing", "raise", "foreign") == 1
    assert "Traceback (most recent call last)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("kind", "code", "said"),
    [
        ("interrupt", 130, "ironic-virt: interrupted\n"),
        ("pipe", 141, ""),
    ],
)
def test_an_interrupt_and_a_closed_output_end_as_in_shells(capsys, kind, code, said) -> None:
    assert run("thing", "raise", kind) == code
    assert capsys.readouterr() == ("", said)


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)
def test_ctrl_c_while_a_script_is_imported_shows_no_traceback(script: str) -> None:
    begin = (
        "import importlib, os, signal, sys\n"
        "from ironic_virt.cmd import scripts\n"
        # A shell's job in the background ignores it.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "found = importlib.import_module\n"
        "def interrupted(name):\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    return found(name)\n"
        "importlib.import_module = interrupted\n"
        f"sys.exit(scripts.{script}())\n"
    )
    done = subprocess.run([sys.executable, "-c", begin], capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, b"", b"")


@pytest.mark.parametrize(
    ("argv", "complaint"),
    [
        ([], "which command?"),
        (["-v"], "which command?"),
        (["--nonsense"], "unknown option '--nonsense'"),
        (["thing"], "did you mean thing raise?"),
        (["help", "xyz"], "no command 'xyz'"),
        (["thing", "rise", "it"], "no command 'thing rise'; did you mean thing raise?"),
        (["xyz"], "no command 'xyz'; 'ironic-virt --help' lists them"),
        (["thing", "raise"], "arguments are required: kind"),
        (["--debug", "thing", "raise"], "arguments are required: kind"),
        (["thing", "raise", "nothing", "--nonsense"], "raise: unknown option '--nonsense'"),
        (["thing", "raise", "anything"], "invalid choice: 'anything'"),
        (["--log-file", "/nowhere/at/all", "thing", "raise", "nothing"], "No such file"),
    ],
)
def test_a_wrong_command_line_is_2_and_says_what_is_wrong(capsys, argv, complaint) -> None:
    assert run(*argv) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert complaint in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize("argv", [["help", "thing", "raise"], ["thing", "raise", "--help"]])
def test_a_command_has_help(capsys: pytest.CaptureFixture[str], argv: list[str]) -> None:
    assert run(*argv) == 0
    out = capsys.readouterr().out
    assert out.startswith("usage: ironic-virt thing raise")
    assert "Fail with the error that an argument names." in out


@pytest.mark.parametrize(("option", "shown"), [("-v", True), ("-q", False)])
def test_verbosity_decides_which_log_lines_are_shown(capsys, option, shown) -> None:
    assert run(option, "thing", "raise", "nothing") == 0
    assert ("asked for nothing" in capsys.readouterr().err) is shown


def test_a_log_file_gets_what_the_console_does_not(capsys, tmp_path) -> None:
    log = tmp_path / "log"
    assert run("--log-file", str(log), "thing", "raise", "nothing") == 0
    assert "asked for nothing" in log.read_text()
    assert capsys.readouterr().err == ""


def test_what_a_library_says_again_is_shown_with_debug_only(capsys) -> None:
    def shown(*options: str) -> str:
        assert run(*options, "thing", "raise", "nothing") == 0
        logging.getLogger("oslo_db.sqlalchemy.exc_filters").error("said again")
        logging.getLogger().handlers.clear()
        return capsys.readouterr().err

    assert shown() == ""
    assert "said again" in shown("--debug")


@pytest.mark.parametrize(
    ("closed", "argv", "code"), [("stdout", ["help", "node", "list"], 0), ("stderr", ["xyz"], 2)]
)
def test_a_stream_that_is_closed_is_no_error(monkeypatch, closed, argv, code) -> None:
    monkeypatch.setattr(sys, closed, None)
    assert shell.main(argv) == code


def test_an_interrupt_before_there_is_a_command_is_one_too(monkeypatch) -> None:
    def interrupted(_self: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(shell.Shell, "__init__", interrupted)
    assert shell.main([]) == 130
