# SPDX-License-Identifier: Apache-2.0

"""What the commands share that ask a server's compute service something, and show the answer."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, TypeVar

from ironic_virt.cmd import arguments, output

if TYPE_CHECKING:
    from ironic_virt.compute.questions import Kind

T = TypeVar("T")

_SECONDS = 60.0


def add_timeout(parser: argparse.ArgumentParser) -> None:
    """Add ``--timeout``."""
    parser.add_argument(
        "--timeout",
        type=arguments.seconds,
        default=_SECONDS,
        metavar="SECONDS",
        help=f"How long to wait for an answer (default: {_SECONDS:g}).",
    )


class Answered(output.ShowOne):
    """A command that shows what the service that has a server says of it."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser of this command's options."""
        parser = super().get_parser(prog_name)
        parser.add_argument("server", metavar="<server>", help="Its name or ID.")
        add_timeout(parser)
        return parser

    def answer(self, parsed_args: argparse.Namespace, kind: Kind[T]) -> T:
        """Ask, and wait for the answer.

        :raises NoAnswer: there is none.
        """
        with self.records(parsed_args) as database:
            from ironic_virt.compute import questions

            return questions.ask(database, parsed_args.server, kind, timeout=parsed_args.timeout)
