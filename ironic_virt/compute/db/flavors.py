# SPDX-License-Identifier: Apache-2.0

"""Flavors: what instances can be asked for by name.

An instance keeps a copy of its flavor, so a flavor can be deleted at any time.
"""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa
from oslo_db import exception as db_exception

from ironic_virt import virt
from ironic_virt.compute import errors
from ironic_virt.compute.db import records, tables
from ironic_virt.compute.db.database import Part, writes

_COLUMNS = tables.columns(tables.flavors, virt.Flavor)


class Flavors(Part):
    """The records of flavors."""

    @writes
    def create(self, connection: sa.Connection, flavor: virt.Flavor) -> None:
        """Keep a flavor.

        :raises FlavorExists: there is one of this name.
        """
        try:
            connection.execute(sa.insert(tables.flavors).values(records.fields(flavor)))
        except db_exception.DBDuplicateEntry as exc:
            raise errors.FlavorExists(flavor.name) from exc

    def list(self) -> Sequence[virt.Flavor]:
        """All flavors, by name."""
        statement = sa.select(*_COLUMNS).order_by(tables.flavors.c.name)
        return [virt.Flavor(*row) for row in self._rows(statement)]

    def get(self, name: str) -> virt.Flavor:
        """One flavor.

        :raises FlavorNotFound: there is none of this name.
        """
        for row in self._rows(sa.select(*_COLUMNS).where(tables.flavors.c.name == name)):
            return virt.Flavor(*row)
        raise errors.FlavorNotFound(name)

    @writes
    def delete(self, connection: sa.Connection, name: str) -> None:
        """Delete a flavor; instances of it are left alone.

        :raises FlavorNotFound: there is none of this name.
        """
        deleted = sa.delete(tables.flavors).where(tables.flavors.c.name == name)
        if not connection.execute(deleted).rowcount:
            raise errors.FlavorNotFound(name)
