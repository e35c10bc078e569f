# SPDX-License-Identifier: Apache-2.0

"""``ironic-virt server list|show|delete|start|stop|reboot``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ironic_virt import exceptions
from ironic_virt.cmd import arguments, configured, output, server_view, waiting
from ironic_virt.compute.states import ALL_STATUSES
from ironic_virt.compute.verbs import BY_NAME

if TYPE_CHECKING:
    from ironic_virt.compute.api import Request, Requests


class List(output.Lister):
    """List servers, the newest first."""

    def columns(self, parsed_args: argparse.Namespace) -> Sequence[str]:
        """See :class:`output.Lister`."""
        return server_view.LONG_COLUMNS if parsed_args.long else server_view.LIST_COLUMNS

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser of this command's options."""
        parser = super().get_parser(prog_name)
        parser.add_argument("--name", metavar="<name>", help="Only those of this name.")
        parser.add_argument(
            "--status",
            metavar="<status>",
            type=str.upper,
            choices=ALL_STATUSES,
            help=f"Only those in this status: {', '.join(ALL_STATUSES)}.",
        )
        parser.add_argument("--host", metavar="<host>", help="Only those of this compute service.")
        parser.add_argument("--node", metavar="<uuid>", help="Only those on this node.")
        which = parser.add_mutually_exclusive_group()
        which.add_argument(
            "--deleted", action="store_true", help="Only those that are deleted: their history."
        )
        which.add_argument("--all", action="store_true", help="Those that are deleted, too.")
        parser.add_argument(
            "--limit", type=arguments.positive, metavar="<count>", help="So many at most."
        )
        parser.add_argument(
            "--marker",
            metavar="<server>",
            help="Only those that follow this one, by its name or ID: the next page after a"
            " --limit.",
        )
        parser.add_argument("--long", action="store_true", help="Show more of each.")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Any:
        """List servers."""
        deleted = None if parsed_args.all else parsed_args.deleted
        with self.records(parsed_args) as database:
            marker = parsed_args.marker
            if marker is not None:
                marker = database.instances.get(marker, deleted=True).uuid
            status = parsed_args.status
            found = database.instances.list(
                parsed_args.host,
                parsed_args.node,
                name=parsed_args.name,
                **({} if status is None else server_view.conditions(status)),
                deleted=deleted,
                marker=marker,
                limit=parsed_args.limit,
            )
        row = server_view.long_row if parsed_args.long else server_view.list_row
        return output.table(self.columns(parsed_args), map(row, found))


class Show(output.ShowOne):
    """Show a server; one that is deleted by its ID."""

    def columns(self, parsed_args: argparse.Namespace) -> Sequence[str]:
        """See :class:`output.ShowOne`."""
        return server_view.SHOW_COLUMNS

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser of this command's options."""
        parser = super().get_parser(prog_name)
        parser.add_argument("server", metavar="<server>", help="Its name or ID.")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Any:
        """Show a server."""
        with self.records(parsed_args) as database:
            instance = database.instances.get(parsed_args.server, deleted=True)
            fault = database.faults.latest(instance.uuid)
        return output.one(server_view.fields(instance, fault))


class Ask(configured.Configured):
    """A command that asks for something of servers, and may wait for it.

    :cvar verb: a row of :mod:`ironic_virt.compute.verbs`.
    """

    verb: str

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser of this command's options."""
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "servers", metavar="<server>", nargs="+", help="Its name or ID; or several."
        )
        waiting.add_options(parser, BY_NAME[self.verb].until)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Ask for it of every one that it can be asked of."""
        if parsed_args.timeout is not None and not parsed_args.wait:
            self.refuse("argument --timeout: it goes with --wait")
        errors = 0
        with self.configured(parsed_args) as (conf, database):
            from ironic_virt.compute.api import Requests

            requests = Requests(conf, database)
            asked = []
            for server in dict.fromkeys(parsed_args.servers):
                try:
                    verb = getattr(parsed_args, "verb", self.verb)
                    asked.append(requests.ask(verb, server))
                except exceptions.IronicVirtError as error:
                    self.app.LOG.error("%s", " ".join(str(error).split()))
                    errors += 1
            if parsed_args.wait and asked:
                errors += self._wait(requests, asked, parsed_args)
        return 1 if errors else 0

    def _wait(
        self, requests: Requests, asked: Sequence[Request], parsed_args: argparse.Namespace
    ) -> int:
        what = asked[0].instance.name if len(asked) == 1 else f"{len(asked)} servers"
        outcomes = waiting.wait(
            requests,
            asked,
            f"{BY_NAME[self.verb].doing} {what}",
            self.app.stderr,
            timeout=parsed_args.timeout,
            quiet=self.app.options.verbose_level == 0,
        )
        failed = [outcome for outcome in outcomes if outcome.error is not None]
        for outcome in failed:
            error = " ".join(str(outcome.error).split())
            self.app.LOG.error("Server %s: %s", outcome.instance.name, error)
        return len(failed)


class Delete(Ask):
    """Delete servers, whatever they are doing; their nodes are cleaned by Ironic.

    One that can't be deleted is in status ERROR afterwards, and can be deleted again.
    """

    verb = "delete"


class Start(Ask):
    """Power servers on."""

    verb = "start"


class Stop(Ask):
    """Power servers off."""

    verb = "stop"


class Reboot(Ask):
    """Reboot servers."""

    verb = "reboot"

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser of this command's options."""
        parser = super().get_parser(prog_name)
        kind = parser.add_mutually_exclusive_group()
        kind.add_argument(
            "--hard",
            action="store_const",
            const="hard_reboot",
            dest="verb",
            default="reboot",
            help="Don't ask the server's system first.",
        )
        kind.add_argument(
            "--soft",
            action="store_const",
            const="reboot",
            dest="verb",
            help="Ask the server's system to reboot (default).",
        )
        return parser
