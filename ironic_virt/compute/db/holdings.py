# SPDX-License-Identifier: Apache-2.0

"""Which instance has a port, or a volume, by the records.

Ironic takes a port for a node that another node has already, which then loses its network,
and a volume that another node has already, whose content is then lost.  So the records have
a row for each that an instance has or is being given, and a unique key over them: of two
requests at the same time one is refused.  The rows are written in the transactions that
change instances.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable

import sqlalchemy as sa
from sqlalchemy import orm

from ironic_virt.compute.db import models


class Holdings:
    """Things of a kind, of which each is one instance's at most.

    :param key: the column with their ids.
    :param owner: the one with the uuids of the instances.
    """

    def __init__(
        self, key: orm.InstrumentedAttribute[str], owner: orm.InstrumentedAttribute[str]
    ) -> None:
        self._key = key
        self._owner = owner

    def holder(
        self, connection: sa.Connection, ident: str, besides: str | None = None
    ) -> str | None:
        """The uuid of the instance that has one, or is being given it; ``None``: none has.

        :param besides: the uuid of an instance that doesn't count.
        """
        statement = sa.select(self._owner).where(self._key == ident)
        if besides is not None:
            statement = statement.where(self._owner != besides)
        return connection.scalar(statement)

    def take(
        self,
        connection: sa.Connection,
        instance: str,
        idents: Iterable[str],
        now: datetime.datetime,
    ) -> None:
        """Give an instance what none has; what it has stays its own.

        :raises DBDuplicateEntry: another instance has one of them.
        """
        for ident in idents:
            if self.holder(connection, ident) != instance:
                connection.execute(
                    sa.insert(self._key.class_).values(
                        {self._key: ident, self._owner: instance, "created_at": now}
                    )
                )

    def release(self, connection: sa.Connection, instance: str, keep: Iterable[str] = ()) -> None:
        """Take what an instance has away from it.

        :param keep: the ids of those that it keeps.
        """
        connection.execute(
            sa.delete(self._key.class_).where(
                self._owner == instance, self._key.not_in(list(keep))
            )
        )


ports = Holdings(models.InstancePort.port_id, models.InstancePort.instance_uuid)
volumes = Holdings(models.InstanceVolume.volume_id, models.InstanceVolume.instance_uuid)
