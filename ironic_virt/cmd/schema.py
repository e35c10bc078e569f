# SPDX-License-Identifier: Apache-2.0

"""``ironic-virt-manage db``: the tables of the records and their version."""

from __future__ import annotations

import argparse
from typing import Any

from ironic_virt.cmd import output

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
