# SPDX-License-Identifier: Apache-2.0

"""``ironic-virt service list|set|delete``: the compute services."""

from __future__ import annotations

import argparse
from typing import Any

from ironic_virt.cmd import configured, output
from ironic_virt.cmd.commands import argument, flag, one_of, row
from ironic_virt.cmd.output import Words


def _show_any(value: str | None, empty: str) -> Words:
    return Words(value, "any" if value is None else value or empty)


_COLUMNS = {
    **output.named(
        *("Host", "Conductor Group", "Shard", "Status"),
        # By the database's clock: ``shown`` replaces it.
        *("State", "Updated At=last_seen_at"),
    ),
    "Conductor Group": lambda service: _show_any(service.conductor_group, "(default)"),
    "Shard": lambda service: _show_any(service.shard_key, ""),
    "Status": lambda service: "disabled" if service.disabled else "enabled",
}
_LONG_COLUMNS = {**_COLUMNS, **output.named("Disabled Reason", "Forced Down", "Version")}


class List(output.Lister):
    """List compute services."""

    columns = _COLUMNS
    long_columns = _LONG_COLUMNS
    takes = (argument("--host <host>", "Only the service of this host."),)

    def shown(self, result: Any, args: argparse.Namespace) -> Any:
        up = {service.host for service in result if self.db.services.is_up(service)}
        state = {"State": lambda service: "up" if service.host in up else "down"}
        return output.table({**self.columns_of(args), **state}, result)

    def act(self, args: argparse.Namespace) -> Any:
        services = self.db.services.list()
        return [service for service in services if args.host in (None, service.host)]


class Set(configured.Configured):
    """Enable or disable a compute service, or force it down.

    Force it down only when its process is gone for good or its host is fenced: its nodes can
    then be moved to another service.
    """

    takes = (
        argument("host <host>", "Host of the service."),
        one_of(
            flag("--enable", "Schedule new servers to it (the usual state)."),
            flag("--disable", "Schedule no new servers to it, for maintenance."),
        ),
        argument(
            "--disable-reason <reason>",
            "With --disable: the reason, for other operators.",
            needs="disable",
        ),
        one_of(
            flag("--up", "No longer force it down."),
            flag("--down", "Force it down: it counts as down even if it reports."),
        ),
    )

    def check(self, args: argparse.Namespace) -> None:
        if not (args.enable or args.disable or args.up or args.down):
            self.refuse("nothing to set: use --enable, --disable, --up or --down")

    def act(self, args: argparse.Namespace) -> None:
        self.db.services.update(
            args.host,
            disabled=args.disable if args.disable or args.enable else None,
            disabled_reason=args.disable_reason,
            forced_down=args.down if args.down or args.up else None,
        )


Delete = row(
    *(configured.Each, "Delete compute services that have neither nodes nor servers."),
    argument("names <host>", "Host of a service; may be repeated.", nargs="+"),
    do=lambda command, name: command.db.services.delete(name),
)
