# SPDX-License-Identifier: Apache-2.0

"""``ironic-virt server list|show|delete|start|stop|reboot``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from ironic_virt.cmd import output, server_view
from ironic_virt.cmd.commands import LIMIT, SERVER, Row, argument, one_of
from ironic_virt.cmd.waiting import Asking
from ironic_virt.compute.states import ALL_STATUSES


class List(output.Lister):
    """List servers, the newest first."""

    columns = server_view.LIST_COLUMNS
    long_columns = server_view.LONG_COLUMNS
    takes = (
        argument("--name", metavar="<name>", help="Only those of this name."),
        argument(
            "--status",
            metavar="<status>",
            type=str.upper,
            choices=ALL_STATUSES,
            help=f"Only those in this status: {', '.join(ALL_STATUSES)}.",
        ),
        argument("--host", metavar="<host>", help="Only those of this compute service."),
        argument("--node", metavar="<uuid>", help="Only those on this node."),
        LIMIT,
    )

    def take_action(self, parsed_args: argparse.Namespace) -> Any:
        """List servers."""
        with self.records(parsed_args) as database:
            status = parsed_args.status
            found = database.instances.list(
                parsed_args.host,
                parsed_args.node,
                name=parsed_args.name,
                **({} if status is None else server_view.conditions(status)),
                limit=parsed_args.limit,
            )
        return output.table(self.columns_of(parsed_args), found)


class Show(output.ShowOne):
    """Show a server."""

    columns = server_view.SHOW_COLUMNS
    takes = (SERVER,)

    def take_action(self, parsed_args: argparse.Namespace) -> Any:
        """Show a server."""
        with self.records(parsed_args) as database:
            return server_view.one(database.instances.get(parsed_args.server))


class Ask(Asking):
    """A command that asks for something of servers, and may wait for it."""

    takes: Sequence[Row] = (
        argument("servers", metavar="<server>", nargs="+", help="Its name or ID; or several."),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Ask for it of every one that it can be asked of."""
        verb = getattr(parsed_args, "verb", self.verb)
        with self.requests(parsed_args) as (requests, _):
            asked = []
            for server in dict.fromkeys(parsed_args.servers):
                with self.failing():
                    asked.append(requests.ask(verb, server))
            if asked:
                self.follow(requests, asked, parsed_args)


class AskOne(Asking, output.ShowOne):
    """A command that asks for something of a server, and may wait for it."""

    columns = server_view.SHOW_COLUMNS
    takes: Sequence[Row] = (SERVER,)

    def arguments(self, parsed_args: argparse.Namespace) -> dict[str, Any]:
        """The verb's arguments."""
        return {}

    def take_action(self, parsed_args: argparse.Namespace) -> Any:
        """Ask, and wait."""
        asked = self.arguments(parsed_args)
        with self.requests(parsed_args) as (requests, _):
            request = requests.ask(self.verb, parsed_args.server, **asked)
            (server,) = self.follow(requests, [request], parsed_args)
            return server_view.one(server, **self.more())

    def more(self) -> dict[str, Any]:
        """Fields that are shown beside those of the server."""
        return {}


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
    takes = (
        one_of(
            argument(
                "--hard",
                action="store_const",
                const="hard_reboot",
                dest="verb",
                default="reboot",
                help="Don't ask the server's system first.",
            ),
            argument(
                "--soft",
                action="store_const",
                const="reboot",
                dest="verb",
                help="Ask the server's system to reboot (default).",
            ),
        ),
    )
