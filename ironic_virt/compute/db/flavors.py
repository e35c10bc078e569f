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
from ironic_virt.compute.db import models, records
from ironic_virt.compute.db.transactions import Part

_COLUMNS = models.columns(models.flavors, virt.Flavor)


class Flavors(Part):
    """The records of flavors."""

    def create(self, flavor: virt.Flavor) -> virt.Flavor:
        """Keep a flavor.

        :raises FlavorExists: there is one of this name.
        """
        try:
            self._transactions.write(
                lambda connection: connection.execute(
                    sa.insert(models.flavors).values(
                        **records.plain(flavor), created_at=self._transactions.now()
                    )
                )
            )
        except db_exception.DBDuplicateEntry as exc:
            raise errors.FlavorExists(flavor.name) from exc
        return flavor

    def list(self) -> Sequence[virt.Flavor]:
        """All flavors, by name."""
        statement = sa.select(*_COLUMNS).order_by(models.flavors.c.name)
        return [virt.Flavor(*row) for row in self._rows(statement)]

    def get(self, name: str) -> virt.Flavor:
        """One flavor.

        :raises FlavorNotFound: there is none of this name.
        """
        statement = sa.select(*_COLUMNS).where(models.flavors.c.name == name)
        rows = self._rows(statement)
        if not rows:
            raise errors.FlavorNotFound(name)
        return virt.Flavor(*rows[0])

    def delete(self, name: str) -> None:
        """Delete a flavor; instances of it are left alone.

        :raises FlavorNotFound: there is none of this name.
        """
        deleted = self._transactions.write(
            lambda connection: (
                connection.execute(
                    sa.delete(models.flavors).where(models.flavors.c.name == name)
                ).rowcount
            )
        )
        if not deleted:
            raise errors.FlavorNotFound(name)
