# SPDX-License-Identifier: Apache-2.0

"""Kinds of arguments that several commands take, and errors for a wrong command line."""

from __future__ import annotations

import argparse
import contextlib
import difflib
import itertools
import pathlib
import sys
import textwrap
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NoReturn, TextIO

from ironic_virt.compute.errors import InvalidRequest
from ironic_virt.compute.networks import Network
from ironic_virt.exit_codes import ExitCode

STDIN = "-"
LARGEST_FILE = 1024 * 1024
"""Bytes; a larger file was hardly meant."""


class Help(argparse.RawDescriptionHelpFormatter):
    """Fills the paragraphs of descriptions to the terminal's width, but for indented lines."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "\n\n".join(
            part if "\n " in f"\n{part}" else textwrap.fill(part, width, break_on_hyphens=False)
            for part in text.strip().split("\n\n")
        )


@contextlib.contextmanager
def complaining(argv: Sequence[str] | None, code: int = ExitCode.REFUSED) -> Iterator[None]:
    """Have parsers complain in one line, without the usage, and name the nearest option.

    It holds for all parsers of the process, also for those that libraries make.

    :param argv: the command line; ``None``: that of the process.
    :param code: the exit code that they end with.
    """
    words = list(sys.argv[1:] if argv is None else argv)

    def error(parser: argparse.ArgumentParser, message: str) -> NoReturn:
        reason = _unknown_option(parser._option_string_actions, words) or message
        parser.exit(code, f"{parser.prog}: {reason} (see '{parser.prog} --help')\n")

    before = argparse.ArgumentParser.error
    argparse.ArgumentParser.error = error  # type: ignore[assignment, method-assign]
    try:
        yield
    finally:
        argparse.ArgumentParser.error = before  # type: ignore[method-assign]


def _unknown_option(known: Collection[str], words: Sequence[str]) -> str | None:
    """Return a message about the first unknown option; ``None``: all are known."""
    for word in itertools.takewhile(lambda word: word != "--", words):
        name = word.partition("=")[0]
        if name.startswith("--") and not any(option.startswith(name) for option in known):
            near = difflib.get_close_matches(name, known, 1, cutoff=0.75)
            return f"unknown option '{name}'" + (f"; did you mean {near[0]}?" if near else "")
    return None


# -- files that options name --------------------------------------------------


@contextlib.contextmanager
def opened(file: str, option: str, stdin: TextIO) -> Iterator[TextIO]:
    """A file to be read as text.

    :param option: the option that names it, for errors.
    :param stdin: what :data:`STDIN` is.
    :raises InvalidRequest: it can't be read, or is not UTF-8 text.
    """
    own = contextlib.nullcontext(stdin)
    try:
        with own if file == STDIN else pathlib.Path(file).open(encoding="utf-8") as stream:
            yield stream
    except OSError as error:
        raise InvalidRequest(f"{option} {file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"{option} {file}: not UTF-8 text") from error


def content(file: str, option: str) -> str | bytes:
    """The content of a file: text if it is UTF-8 text, else bytes.

    :raises InvalidRequest: it can't be read, or is larger than :data:`LARGEST_FILE`.
    """
    # Read the bytes below the text stream, because the file need not be text.
    with opened(file, option, sys.stdin) as stream:
        content = stream.buffer.read(LARGEST_FILE + 1)
    if len(content) > LARGEST_FILE:
        raise InvalidRequest(f"{option} {file}: the file has more than {LARGEST_FILE} bytes")
    try:
        return content.decode()
    except UnicodeDecodeError:
        return content


# -- kinds of values ----------------------------------------------------------


class KeyValue(argparse.Action):
    """``KEY=VALUE``, as often as wanted, into a dict."""

    def __call__(
        self, parser: Any, namespace: Any, values: Any, option_string: str | None = None
    ) -> None:
        """Add ``KEY=VALUE`` to the namespace's dict."""
        key, equals, value = str(values).partition("=")
        if not key or not equals:
            raise argparse.ArgumentError(self, f"{values!r} is not KEY=VALUE")
        if values.encode(errors="ignore").decode() != values:
            raise argparse.ArgumentError(self, f"{values!r} is not UTF-8")
        before: dict[str, str] = getattr(namespace, self.dest) or {}
        setattr(namespace, self.dest, {**before, key: value})


def count(text: str) -> int:
    """A whole number from 0."""
    return _parse_number(text, 0)


def positive(text: str) -> int:
    """A whole number from 1."""
    return _parse_number(text, 1)


def seconds(text: str) -> float:
    """A number of seconds above 0."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return value


def node_uuid(text: str) -> str:
    """A node's UUID, in the form in which Ironic writes it."""
    try:
        return str(uuid.UUID(text))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a UUID") from None


def network(text: str) -> Network:
    """``address=192.0.2.10/24,gateway=192.0.2.1,dns=192.0.2.53``; ``dns`` may be repeated."""
    values: dict[str, list[str]] = {"address": [], "gateway": [], "dns": []}
    try:
        for part in text.split(","):
            key, _, value = part.partition("=")
            values[key].append(value)
        if len(values["address"]) == 1 and len(values["gateway"]) <= 1:
            gateway = next(iter(values["gateway"]), None)
            return Network(values["address"][0], gateway, tuple(values["dns"]))
        reason = "it takes one address, and at most one gateway"
    except KeyError as error:
        reason = f"{error.args[0]!r} is none of {', '.join(values)}"
    except ValueError as error:
        reason = str(error)
    raise argparse.ArgumentTypeError(f"{text!r}: {reason}")


def name(text: str) -> str:
    """A name that a record can have."""
    if not text.strip() or len(text) > 255 or not text.isprintable():
        raise argparse.ArgumentTypeError(
            f"{text!r}: a name must have 1 to 255 printable characters"
        )
    return text


def _parse_number(text: str, least: int) -> int:
    # The records' numbers have 32 bits.
    digits = text.isascii() and text.isdecimal() and len(text) <= 10
    if not digits or not least <= int(text) < 2**31:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from {least} to {2**31 - 1}")
    return int(text)


_NAMES = "server server-name flavor-name flavor host name class trait vif-id reason key"
KINDS: Mapping[str, Callable[[str], Any] | type[argparse.Action]] = {
    **{f"<{metavar}>": name for metavar in _NAMES.split()},
    **dict.fromkeys(("<count>", "<number>"), positive),
    **dict.fromkeys(("<size-mb>", "<size-gb>", "<vcpus>"), count),
    **dict.fromkeys(("<node>", "<node-uuid>", "<uuid>"), node_uuid),
    "<key=value>": KeyValue,
    "SECONDS": seconds,
}
"""By an argument's metavar, what converts its text; other arguments are texts."""
