# SPDX-License-Identifier: Apache-2.0

"""Kinds of arguments that several commands take, and what is said of a wrong command line."""

from __future__ import annotations

import argparse
import contextlib
import difflib
import itertools
import re
import sys
import textwrap
import uuid
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from ironic_virt.compute.networks import Network
from ironic_virt.exit_codes import ExitCode

_AS_IT_STANDS = re.compile(r"^ +(ironic-virt|openstack)|^ .*\S   *\S", re.MULTILINE)
"""Commands, with the lines that they go on to, and columns."""


class Help(argparse.RawDescriptionHelpFormatter):
    """Fills the paragraphs of descriptions to the terminal's width."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        filled = []
        lines_of_text = text.splitlines()
        margins = [
            # What a command goes on with is no sentence of what follows it.
            (_margin(line), before.endswith("\\"))
            for before, line in zip(["", *lines_of_text], lines_of_text, strict=False)
        ]
        pairs = zip(margins, lines_of_text, strict=True)
        for (margin, goes_on), group in itertools.groupby(pairs, lambda pair: pair[0]):
            lines = [line for _, line in group]
            if not goes_on and margin is not None and not _AS_IT_STANDS.search("\n".join(lines)):
                lines = textwrap.wrap(
                    " ".join(line.strip() for line in lines),
                    width,
                    initial_indent=indent + margin,
                    subsequent_indent=indent + margin,
                    break_on_hyphens=False,
                )
            filled += lines
        return "\n".join(filled)


def _margin(line: str) -> str | None:
    """What stands before a line; ``None``: it is empty."""
    return line[: -len(line.lstrip())] if line.strip() else None


@contextlib.contextmanager
def complaining(argv: Sequence[str] | None, code: int = ExitCode.REFUSED) -> Iterator[None]:
    """Have parsers complain in one line, without the usage, and name the nearest option.

    It holds for all parsers of the process, also for those that libraries make.

    :param argv: the command line; ``None``: that of the process.
    :param code: the exit code that they end with.
    """
    words = list(sys.argv[1:] if argv is None else argv)

    def error(parser: argparse.ArgumentParser, message: str) -> NoReturn:
        told = unknown_option(parser, words) or message
        parser.exit(code, f"{parser.prog}: {told} ('{parser.prog} --help' tells more)\n")

    before = argparse.ArgumentParser.error
    argparse.ArgumentParser.error = error  # type: ignore[assignment, method-assign]
    try:
        yield
    finally:
        argparse.ArgumentParser.error = before  # type: ignore[method-assign]


def unknown_option(parser: argparse.ArgumentParser, argv: Sequence[str]) -> str | None:
    """What is to be said of the first option in ``argv`` that a parser does not have.

    :returns: ``None``: it has all of them.
    """
    known = list(parser._option_string_actions)
    for word in argv:
        name = word.partition("=")[0]
        if name == "--":
            break
        if name.startswith("--") and not any(one.startswith(name) for one in known):
            near = difflib.get_close_matches(name, known, 1, cutoff=0.75)
            return f"unknown option '{name}'" + (f"; did you mean {near[0]}?" if near else "")
    return None


class KeyValue(argparse.Action):
    """``KEY=VALUE``, as often as wanted, into a dict."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        """See :class:`argparse.Action`."""
        key, equals, value = str(values).partition("=")
        if not key or not equals:
            raise argparse.ArgumentError(self, f"{values!r} is not KEY=VALUE")
        before: dict[str, str] = getattr(namespace, self.dest) or {}
        setattr(namespace, self.dest, {**before, key: value})


def count(text: str) -> int:
    """A whole number from 0."""
    return _number(text, 0)


def positive(text: str) -> int:
    """A whole number from 1."""
    return _number(text, 1)


def seconds(text: str) -> float:
    """A number of seconds above 0."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds")
    return value


def node_uuid(text: str) -> str:
    """A node's UUID, in the form in which Ironic writes it."""
    try:
        return str(uuid.UUID(text))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no UUID") from None


def network(text: str) -> Network:
    """``address=192.0.2.10/24,gateway=192.0.2.1,dns=192.0.2.53``; several ``dns`` may be."""
    said: dict[str, list[str]] = {"address": [], "gateway": [], "dns": []}
    try:
        for part in text.split(","):
            key, _, value = part.partition("=")
            said[key].append(value)
        if len(said["address"]) == 1 and len(said["gateway"]) <= 1:
            return Network(said["address"][0], next(iter(said["gateway"]), None), (*said["dns"],))
        reason = "it takes one address, and one gateway at most"
    except KeyError as error:
        reason = f"{error.args[0]!r} is none of {', '.join(said)}"
    except ValueError as error:
        reason = str(error)
    raise argparse.ArgumentTypeError(f"{text!r}: {reason}")


def name(text: str) -> str:
    """A name that a record can have."""
    if not text.strip() or len(text) > 255 or not text.isprintable():
        raise argparse.ArgumentTypeError(f"{text!r} is no name of 1 to 255 printable characters")
    return text


def _number(text: str, least: int) -> int:
    # The records' numbers have 32 bits.
    digits = text.isascii() and text.isdecimal() and len(text) <= 10
    if not digits or not least <= int(text) < 2**31:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from {least} to {2**31 - 1}")
    return int(text)
