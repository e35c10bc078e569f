# SPDX-License-Identifier: Apache-2.0

"""``ironic-virt-manage db``: the tables of the records and their version."""

from __future__ import annotations

import argparse
from typing import Any

from ironic_virt.cmd import arguments, output
from ironic_virt.cmd.commands import argument

_NONE = "none"


class Sync(output.ShowOne):
    """Create the database's tables, or upgrade them to this version's.

    To be run once before the first start, and after each upgrade of the package with the compute
    services stopped. Run again, it changes nothing. The database itself must exist; that of an
    SQLite file is made.
    """

    columns = output.in_order("database", "before", "version")

    def take_action(self, parsed_args: argparse.Namespace) -> Any:
        """Do it."""
        with self.unopened(parsed_args) as (_, database):
            before, version = database.sync()
            values = (database.url, before or _NONE, version)
        return output.one(self.columns, values)


class Version(output.ShowOne):
    """Show which version the database's tables have, and which one is needed."""

    columns = output.in_order("database", "version", "needed")

    def take_action(self, parsed_args: argparse.Namespace) -> Any:
        """Do it."""
        with self.unopened(parsed_args) as (_, database):
            values = (database.url, database.version() or _NONE, database.needed_version)
        return output.one(self.columns, values)


class Purge(output.Lister):
    """Delete the history of servers, nodes, services and flavors that were deleted long ago.

    A few hundred rows go in one transaction, so services and commands go on meanwhile. If it
    is interrupted, start it again.
    """

    epilog = """\
examples:
  ironic-virt-manage db purge --before 2026-01-31
  ironic-virt-manage db purge --before 2026-01-31T12:00:00+01:00 -f json
"""

    columns = output.in_order("Kind", "Deleted Rows")
    takes = (
        argument(
            "--before",
            required=True,
            type=arguments.time,
            metavar="<time>",
            help="Only what was deleted before this date or time, in ISO 8601; UTC unless it"
            " says otherwise.",
        ),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> Any:
        """Do it."""
        with self.records(parsed_args) as database:
            counts = database.purge(parsed_args.before)
        return output.table(self.columns, counts.items())
