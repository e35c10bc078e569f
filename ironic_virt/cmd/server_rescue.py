# SPDX-License-Identifier: Apache-2.0

"""``ironic-virt server rescue|unrescue``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ironic_virt.cmd import output, password_arguments, server, server_view, waiting
from ironic_virt.compute import passwords
from ironic_virt.compute.errors import RequestTimeout

if TYPE_CHECKING:
    from ironic_virt.compute.requests import Outcome, Request, Requests

PASSWORD_COLUMN = "adminPass"


class Rescue(output.ShowOne):
    """Rescue a server: boot its node into a system from which its disk can be mended.

    Which system that is, Ironic decides. Nothing is written onto the disk. While a
    server is in status RESCUE it can be unrescued or deleted, and nothing else. If the
    rescue fails, the server is brought back to its own system; if that fails too, it is
    in status ERROR, and its fault says what to do.
    """

    _errors: list[str]

    def get_epilog(self) -> str:
        """Return examples."""
        return """\
examples:
  ironic-virt server rescue --wait web -f value -c adminPass
  ironic-virt server rescue --wait web --password-file ~/rescue-password

exit codes:
  0 asked for, or with --wait: the rescue system is there; 1 it can't be asked for, or
  has failed; 2 asked for wrongly
"""

    def columns(self, parsed_args: argparse.Namespace) -> Sequence[str]:
        """See :class:`output.ShowOne`."""
        return (*server_view.SHOW_COLUMNS, PASSWORD_COLUMN)

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser of this command's options."""
        parser = super().get_parser(prog_name)
        parser.add_argument("server", metavar="<server>", help="Its name or ID.")
        password_arguments.add_options(parser)
        waiting.add_options(parser, "the rescue system is there")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Any:
        """Rescue a server."""
        if parsed_args.timeout is not None and not parsed_args.wait:
            self.refuse("argument --timeout: it goes with --wait")
        password = password_arguments.given(parsed_args)
        made_up = passwords.generate() if password is None else None
        with self.configured(parsed_args) as (conf, database):
            from ironic_virt.compute.requests import Requests

            requests = Requests(conf, database)
            asked = requests.rescue(parsed_args.server, password or made_up or "")
            if parsed_args.wait:
                outcome = self._wait(requests, asked, parsed_args, made_up)
                self._errors += [outcome.error] if outcome.error is not None else []
            instance = database.instances.get(asked.instance.uuid, deleted=True)
            shown = server_view.fields(instance, database.faults.latest(instance.uuid))
            return output.one({**shown, PASSWORD_COLUMN: None if self._errors else made_up})

    def _wait(
        self,
        requests: Requests,
        asked: Request,
        parsed_args: argparse.Namespace,
        made_up: str | None,
    ) -> Outcome:
        try:
            (outcome,) = waiting.wait(
                requests,
                [asked],
                f"Rescuing {asked.instance.name}",
                self.app.stderr,
                timeout=parsed_args.timeout,
                quiet=self.app.options.verbose_level == 0,
            )
        except (RequestTimeout, KeyboardInterrupt):
            if made_up is not None:
                # It still holds, and nobody else knows it.
                self.app.stderr.write(f"The password is {made_up}\n")
            raise
        return outcome

    def run(self, parsed_args: argparse.Namespace) -> int:
        """See :class:`cliff.command.Command`."""
        self._errors = []
        code = super().run(parsed_args)
        for error in self._errors:
            self.app.LOG.error("Server %s: %s", parsed_args.server, " ".join(error.split()))
        return code or (1 if self._errors else 0)


class Unrescue(server.Ask):
    """Unrescue servers: boot their own systems again.

    One whose unrescue has failed is in status ERROR, and can be unrescued again.
    """

    doing = "Unrescuing"
    until = "they run their own systems"

    def ask(self, requests: Requests, server: str, parsed_args: argparse.Namespace) -> Request:
        """Ask for it."""
        return requests.unrescue(server)
