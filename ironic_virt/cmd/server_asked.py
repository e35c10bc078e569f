# SPDX-License-Identifier: Apache-2.0

"""What the commands share that ask for something of one server, and show it then."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from ironic_virt.cmd import output, server_view
from ironic_virt.cmd.commands import SERVER, Row
from ironic_virt.cmd.waiting import Asking


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
        with self.requests(parsed_args) as (requests, database):
            request = requests.ask(self.verb, parsed_args.server, **asked)
            if parsed_args.wait:
                self.wait(requests, [request], parsed_args)
            server = database.instances.get(request.instance.uuid, deleted=True)
            return server_view.one(database, server, **self.more())

    def more(self) -> dict[str, Any]:
        """Fields that are shown beside those of the server."""
        return {}
