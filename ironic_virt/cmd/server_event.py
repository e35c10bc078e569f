# SPDX-License-Identifier: Apache-2.0

"""``ironic-virt server event list|show``: what was asked of a server, and how it ended."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from ironic_virt.cmd import output
from ironic_virt.cmd.commands import SERVER, Row, argument
from ironic_virt.cmd.configured import Configured
from ironic_virt.cmd.output import time_of
from ironic_virt.cmd.server_view import EVENT_COLUMNS, LONG_EVENT_COLUMNS, event_result
from ironic_virt.compute.errors import RecordsError

if TYPE_CHECKING:
    from ironic_virt.compute.db.records import Action, Instance


_SHOW_COLUMNS: output.Cells = {
    "action": attrgetter("action"),
    "finish_time": time_of("finish_time"),
    "message": attrgetter("message"),
    "project_id": attrgetter("project_id"),
    "request_id": attrgetter("request_id"),
    "result": event_result,
    "server_id": attrgetter("instance_uuid"),
    "start_time": time_of("start_time"),
    "user_id": attrgetter("user_id"),
}


class _Events(Configured):
    takes: Sequence[Row] = (SERVER,)

    def found(self, parsed_args: argparse.Namespace) -> tuple[Instance, Sequence[Action]]:
        """The server, and what was asked of it."""
        with self.records(parsed_args) as database:
            instance = database.instances.get(parsed_args.server, deleted=True)
            return instance, database.actions.list(instance.uuid)


class List(_Events, output.Lister):
    """List what was asked of a server, the newest first; of a deleted one by its ID."""

    columns = EVENT_COLUMNS
    long_columns = LONG_EVENT_COLUMNS

    def take_action(self, parsed_args: argparse.Namespace) -> Any:
        """List events."""
        _, actions = self.found(parsed_args)
        return output.table(self.columns_of(parsed_args), reversed(actions))


class Show(_Events, output.ShowOne):
    """Show something that was asked of a server, and how it ended."""

    columns = _SHOW_COLUMNS
    takes = (argument("request", metavar="<request>", help="The request's ID."),)

    def take_action(self, parsed_args: argparse.Namespace) -> Any:
        """Show an event."""
        instance, actions = self.found(parsed_args)
        for action in actions:
            if action.request_id == parsed_args.request:
                return output.one(self.columns, action)
        raise RecordsError(
            f"Server {instance.name} has no request {parsed_args.request!r}; "
            f"'ironic-virt server event list {instance.uuid}' lists them"
        )
