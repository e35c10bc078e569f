# SPDX-License-Identifier: Apache-2.0

"""``ironic-virt server event list|show``: what was asked of a server, and how it ended."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from ironic_virt.cmd import output
from ironic_virt.cmd.server_view import EVENT_COLUMNS, LONG_EVENT_COLUMNS, event_result, event_row
from ironic_virt.compute.errors import RecordsError

SHOW_COLUMNS = (
    *("action", "finish_time", "message", "project_id", "request_id", "result"),
    *("server_id", "start_time", "user_id"),
)


class List(output.Lister):
    """List what was asked of a server, the newest first; of a deleted one by its ID."""

    def columns(self, parsed_args: argparse.Namespace) -> Sequence[str]:
        """See :class:`output.Lister`."""
        return LONG_EVENT_COLUMNS if parsed_args.long else EVENT_COLUMNS

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser of this command's options."""
        parser = super().get_parser(prog_name)
        parser.add_argument("server", metavar="<server>", help="Its name or ID.")
        parser.add_argument("--long", action="store_true", help="Show more of each.")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Any:
        """List events."""
        with self.records(parsed_args) as database:
            instance = database.instances.get(parsed_args.server, deleted=True)
            actions = database.actions.list(instance.uuid)
        columns = self.columns(parsed_args)
        rows = [event_row(action)[: len(columns)] for action in reversed(actions)]
        return output.table(columns, rows)


class Show(output.ShowOne):
    """Show something that was asked of a server, and how it ended."""

    def columns(self, parsed_args: argparse.Namespace) -> Sequence[str]:
        """See :class:`output.ShowOne`."""
        return SHOW_COLUMNS

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser of this command's options."""
        parser = super().get_parser(prog_name)
        parser.add_argument("server", metavar="<server>", help="Its name or ID.")
        parser.add_argument("request", metavar="<request>", help="The request's ID.")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Any:
        """Show an event."""
        with self.records(parsed_args) as database:
            instance = database.instances.get(parsed_args.server, deleted=True)
            actions = database.actions.list(instance.uuid)
        for action in actions:
            if action.request_id == parsed_args.request:
                values = (
                    *(action.action, output.when(action.finish_time), action.message),
                    *(action.project_id, action.request_id, event_result(action)),
                    *(action.instance_uuid, output.when(action.start_time), action.user_id),
                )
                return output.one(dict(zip(SHOW_COLUMNS, values, strict=True)))
        raise RecordsError(
            f"Server {instance.name} has no request {parsed_args.request!r}; "
            f"'ironic-virt server event list {instance.uuid}' lists them"
        )
