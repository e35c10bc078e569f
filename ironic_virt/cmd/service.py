# SPDX-License-Identifier: Apache-2.0

"""``ironic-virt service list|set|delete``: the compute services."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ironic_virt import exceptions
from ironic_virt.cmd import arguments, configured, output

if TYPE_CHECKING:
    from ironic_virt.compute.db.records import ComputeService

_COLUMNS = ("ID", "Host", "Conductor Group", "Shard", "Status", "State", "Updated At")
_LONG_COLUMNS = (*_COLUMNS, "Disabled Reason", "Forced Down", "Version")


class List(output.Lister):
    """List compute services."""

    def columns(self, parsed_args: argparse.Namespace) -> Sequence[str]:
        """See :class:`output.Lister`."""
        return _LONG_COLUMNS if parsed_args.long else _COLUMNS

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser of this command's options."""
        parser = super().get_parser(prog_name)
        parser.add_argument("--host", metavar="<host>", help="Only this one.")
        parser.add_argument("--long", action="store_true", help="Show more of each.")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Any:
        """List services."""
        columns = self.columns(parsed_args)
        with self.records(parsed_args) as database:
            rows = [
                _row(service, database.services.is_up(service))[: len(columns)]
                for service in database.services.list()
                if parsed_args.host in (None, service.host)
            ]
        return output.table(columns, rows)


class Set(configured.Configured):
    """Say which compute service gets new servers, and which is down.

    Force one down only when its process is gone for good or its host is fenced: its
    nodes can be moved to another service then.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser of this command's options."""
        parser = super().get_parser(prog_name)
        parser.add_argument("host", metavar="<host>", help="The service's name.")
        enabled = parser.add_mutually_exclusive_group()
        enabled.add_argument(
            "--enable", action="store_true", help="It gets new servers, as is usual."
        )
        enabled.add_argument(
            "--disable", action="store_true", help="Maintenance: it gets no new servers."
        )
        parser.add_argument(
            "--disable-reason",
            metavar="<reason>",
            type=arguments.name,
            help="Why, for those who wonder; with --disable.",
        )
        up = parser.add_mutually_exclusive_group()
        up.add_argument("--up", action="store_true", help="It isn't forced down any more.")
        up.add_argument("--down", action="store_true", help="It is down, whatever it reports.")
        return parser

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

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser of this command's options."""
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "hosts", metavar="<host>", nargs="+", help="The service's name; or several."
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Delete services."""
        code = 0
        with self.records(parsed_args) as database:
            for host in dict.fromkeys(parsed_args.hosts):
                try:
                    database.services.delete(host)
                except exceptions.IronicVirtError as error:
                    self.app.LOG.error("%s", error)
                    code = 1
        return code


def _choice(yes: bool, no: bool) -> bool | None:
    return True if yes else False if no else None


def _row(service: ComputeService, is_up: bool) -> tuple[Any, ...]:
    group, shard = service.conductor_group, service.shard_key
    return (
        service.uuid,
        service.host,
        output.Words(group, "any" if group is None else group or "(default)"),
        output.Words(shard, "any" if shard is None else shard),
        "disabled" if service.disabled else "enabled",
        "up" if is_up else "down",
        output.when(service.last_seen_at),
        service.disabled_reason,
        service.forced_down,
        service.version,
    )
