# SPDX-License-Identifier: Apache-2.0

"""Where a password comes from: the command line, a prompt, a file, or nowhere yet."""

from __future__ import annotations

import argparse
import getpass
import sys
from collections.abc import Callable
from typing import TextIO

from ironic_virt.cmd import files
from ironic_virt.cmd.commands import argument, one_of
from ironic_virt.compute import passwords
from ironic_virt.compute.errors import InvalidRequest

OPTIONS = one_of(
    argument(
        "--password",
        metavar="<password>",
        help="The password; all users of this computer can read it off the list of processes"
        " (default: one is made up, and shown).",
    ),
    argument("--password-prompt", action="store_true", help="Ask for the password."),
    argument(
        "--password-file",
        metavar="<file>",
        help="Read the password from the first line of this file; '-' is standard input.",
    ),
)


def given(
    parsed_args: argparse.Namespace,
    stdin: TextIO | None = None,
    ask: Callable[[str], str] = getpass.getpass,
) -> str | None:
    """The password that the user gives; ``None``: one has to be made up.

    :param stdin: the process's own by default.
    :param ask: asks for one without showing it.
    :raises InvalidRequest: it can't be read, or is not a password.
    """
    if parsed_args.password is not None:
        return passwords.checked(parsed_args.password)
    stdin = stdin or sys.stdin
    if parsed_args.password_file is not None:
        return passwords.checked(_read(parsed_args.password_file, stdin))
    if parsed_args.password_prompt:
        return _asked(stdin, ask)
    return None


def _read(file: str, stdin: TextIO) -> str:
    # One character more than can be one, and the line's end.
    most = passwords.LONGEST + 3
    with files.opened(file, "--password-file", stdin) as stream:
        # Of a terminal or a pipe no more is waited for than this line.
        line = stream.readline(most)
    return line.removesuffix("\n").removesuffix("\r")


def _asked(stdin: TextIO, ask: Callable[[str], str]) -> str:
    if not stdin.isatty():
        raise InvalidRequest("--password-prompt: there is no terminal to ask on")
    try:
        password = passwords.checked(ask("Password: "))
        again = ask("Again: ")
    except EOFError as error:
        raise InvalidRequest("--password-prompt: no password was given") from error
    if password != again:
        raise InvalidRequest("--password-prompt: these were two passwords")
    return password
