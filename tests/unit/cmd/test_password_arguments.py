# SPDX-License-Identifier: Apache-2.0

"""Where a password comes from."""

from __future__ import annotations

import argparse
import io
from pathlib import Path

import pytest

from ironic_virt.cmd import password_arguments
from ironic_virt.compute.errors import InvalidRequest

PASSWORD = "correct horse"


class Terminal(io.StringIO):
    """Standard input of a user who sits there."""

    def isatty(self) -> bool:
        return True


def parsed(*argv: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    password_arguments.OPTIONS(parser)
    return parser.parse_args(argv)


def given(*argv: str, stdin: str = "", typed: list[str] | None = None) -> str | None:
    terminal = io.StringIO(stdin) if typed is None else Terminal()

    def ask(_prompt: str) -> str:
        assert typed is not None
        if not typed:
            raise EOFError
        return typed.pop(0)

    return password_arguments.given(parsed(*argv), terminal, ask)


def test_without_an_option_one_is_to_be_made_up() -> None:
    assert given() is None


def test_it_comes_from_where_the_option_says(tmp_path: Path) -> None:
    (tmp_path / "file").write_text(f"{PASSWORD}\r\nand more\n")
    assert given("--password", PASSWORD) == PASSWORD
    assert given("--password-file", str(tmp_path / "file")) == PASSWORD
    assert given("--password-file", "-", stdin=f"{PASSWORD}\n") == PASSWORD
    assert given("--password-prompt", typed=[PASSWORD, PASSWORD]) == PASSWORD


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        (None, "there is no terminal"),
        ([], "no password was given"),
        ([PASSWORD], "no password was given"),
        ([PASSWORD, "other"], "these were two passwords"),
        ([""], "the password is empty"),
    ],
)
def test_a_prompt_that_leads_nowhere_says_why(typed: list[str] | None, says: str) -> None:
    with pytest.raises(InvalidRequest, match=says) as caught:
        given("--password-prompt", typed=typed)
    assert PASSWORD not in str(caught.value)


def test_a_file_that_has_none_says_so(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    (tmp_path / "empty").write_text("\n")
    for name, says in (
        ("none", "No such file"),
        ("binary", "no text in UTF-8"),
        ("empty", "is empty"),
    ):
        with pytest.raises(InvalidRequest, match=says):
            given("--password-file", str(tmp_path / name))


def test_there_is_one_source() -> None:
    with pytest.raises(SystemExit):
        parsed("--password", PASSWORD, "--password-prompt")
