# SPDX-License-Identifier: Apache-2.0

"""``ironic-virt service list|set|delete``: the compute services."""

from __future__ import annotations

import argparse
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from ironic_virt.cmd import arguments, configured, output
from ironic_virt.cmd.commands import argument, one_of
from ironic_virt.cmd.output import Cells, Words, time_of

if TYPE_CHECKING:
    from ironic_virt.compute.db.records import ComputeService


def _group(service: ComputeService) -> Words:
    group = service.conductor_group
    return Words(group, "any" if group is None else group or "(default)")


def _shard(service: ComputeService) -> Words:
    return Words(service.shard_key, "any" if service.shard_key is None else service.shard_key)


_COLUMNS: Cells = {
    "ID": attrgetter("uuid"),
    "Host": attrgetter("host"),
    "Conductor Group": _group,
    "Shard": _shard,
    "Status": lambda service: "disabled" if service.disabled else "enabled",
    # The database's clock decides, see List.
    "State": lambda _service: None,
    "Updated At": time_of("last_seen_at"),
}
_LONG_COLUMNS: Cells = {
    **_COLUMNS,
    "Disabled Reason": attrgetter("disabled_reason"),
    "Forced Down": attrgetter("forced_down"),
    "Version": attrgetter("version"),
}


class List(output.Lister):
    """List compute services."""

    columns = _COLUMNS
    long_columns = _LONG_COLUMNS
    takes = (argument("--host", metavar="<host>", help="Only this one."),)

    def take_action(self, parsed_args: argparse.Namespace) -> Any:
        """List services."""
        with self.records(parsed_args) as database:
            found = [
                service
                for service in database.services.list()
                if parsed_args.host in (None, service.host)
            ]
            up = {service.host for service in found if database.services.is_up(service)}
        columns = {
            **self.columns_of(parsed_args),
            "State": lambda service: "up" if service.host in up else "down",
        }
        return output.table(columns, found)


class Set(configured.Configured):
    """Say which compute service gets new servers, and which is down.

    Force one down only when its process is gone for good or its host is fenced: its
    nodes can be moved to another service then.
    """

    takes = (
        argument("host", metavar="<host>", help="The service's name."),
        one_of(
            argument("--enable", action="store_true", help="It gets new servers, as is usual."),
            argument(
                "--disable", action="store_true", help="Maintenance: it gets no new servers."
            ),
        ),
        argument(
            "--disable-reason",
            metavar="<reason>",
            type=arguments.name,
            help="Why, for those who wonder; with --disable.",
        ),
        one_of(
            argument("--up", action="store_true", help="It isn't forced down any more."),
            argument("--down", action="store_true", help="It is down, whatever it reports."),
        ),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Change a service."""
        changes = (parsed_args.enable, parsed_args.disable, parsed_args.up, parsed_args.down)
        if not any(changes):
            self.refuse("nothing to set: say --enable, --disable, --up or --down")
        if parsed_args.disable_reason is not None and not parsed_args.disable:
            self.refuse("argument --disable-reason: it goes with --disable")
        with self.records(parsed_args) as database:
            database.services.update(
                parsed_args.host,
                disabled=_choice(parsed_args.disable, parsed_args.enable),
                disabled_reason=parsed_args.disable_reason,
                forced_down=_choice(parsed_args.down, parsed_args.up),
            )


class Delete(configured.Configured):
    """Delete compute services that have neither nodes nor servers."""

    takes = (
        argument("hosts", metavar="<host>", nargs="+", help="The service's name; or several."),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Delete services."""
        with self.records(parsed_args) as database:
            for host in dict.fromkeys(parsed_args.hosts):
                with self.failing():
                    database.services.delete(host)


def _choice(yes: bool, no: bool) -> bool | None:
    return True if yes else False if no else None
