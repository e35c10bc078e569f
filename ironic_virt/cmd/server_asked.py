# SPDX-License-Identifier: Apache-2.0

"""What the commands share that ask for something of one server, and show it then."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ironic_virt.cmd import output, server_view, waiting
from ironic_virt.compute.verbs import BY_NAME

if TYPE_CHECKING:
    from ironic_virt.compute.api import Outcome, Request, Requests


class AskOne(output.ShowOne):
    """A command that asks for something of a server, and may wait for it.

    :cvar verb: a row of :mod:`ironic_virt.compute.verbs`.
    """

    verb: str
    errors: Sequence[str] = ()

    def arguments(self, parsed_args: argparse.Namespace) -> dict[str, Any]:
        """The verb's arguments."""
        return {}

    def columns(self, parsed_args: argparse.Namespace) -> Sequence[str]:
        """See :class:`output.ShowOne`."""
        return server_view.SHOW_COLUMNS

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser of this command's options."""
        parser = super().get_parser(prog_name)
        parser.add_argument("server", metavar="<server>", help="Its name or ID.")
        waiting.add_options(parser, BY_NAME[self.verb].until)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Any:
        """Ask, and wait."""
        return output.one(self.asked(parsed_args))

    def asked(self, parsed_args: argparse.Namespace) -> dict[str, Any]:
        """Ask, and wait if that is wanted.

        :returns: the server's fields then.
        """
        if parsed_args.timeout is not None and not parsed_args.wait:
            self.refuse("argument --timeout: it goes with --wait")
        with self.configured(parsed_args) as (conf, database):
            from ironic_virt.compute.api import Requests

            requests = Requests(conf, database)
            asked = self.arguments(parsed_args)
            request = requests.ask(self.verb, parsed_args.server, **asked)
            if parsed_args.wait:
                outcome = self.wait(requests, request, parsed_args)
                self.errors = [] if outcome.error is None else [outcome.error]
            instance = database.instances.get(request.instance.uuid, deleted=True)
            return server_view.fields(instance, database.faults.latest(instance.uuid))

    def wait(
        self, requests: Requests, request: Request, parsed_args: argparse.Namespace
    ) -> Outcome:
        """Wait until it has ended."""
        (outcome,) = waiting.wait(
            requests,
            [request],
            f"{BY_NAME[self.verb].doing} {request.instance.name}",
            self.app.stderr,
            timeout=parsed_args.timeout,
            quiet=self.app.options.verbose_level == 0,
        )
        return outcome

    def run(self, parsed_args: argparse.Namespace) -> int:
        """See :class:`cliff.command.Command`."""
        code = super().run(parsed_args)
        for error in self.errors:
            self.app.LOG.error("Server %s: %s", parsed_args.server, " ".join(error.split()))
        return code or (1 if self.errors else 0)
