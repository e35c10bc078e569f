# SPDX-License-Identifier: Apache-2.0

"""Which instance has a port, by the records.

Ironic takes a port for a node that another node has already, which then loses its network.
So the records are asked first.  They have no key for it: of two requests at the same time
both may pass.
"""

from __future__ import annotations

import sqlalchemy as sa

from ironic_virt.compute.db import models, types
from ironic_virt.compute.db.instance_rows import LIVE

_INSTANCE = models.Instance


def holder(connection: sa.Connection, port: str, besides: str | None = None) -> str | None:
    """The uuid of an instance that has a port, or is being given it; ``None``: none has.

    Looks through all instances that have a host.

    :param besides: the uuid of an instance that doesn't count.
    """
    text = f'"id":{types.encode(port)}'
    columns = (_INSTANCE.ports, _INSTANCE.interface)
    named = [sa.type_coerce(column, sa.Text).contains(text, autoescape=True) for column in columns]
    statement = sa.select(_INSTANCE.uuid).where(LIVE, _INSTANCE.host.is_not(None), sa.or_(*named))
    if besides is not None:
        statement = statement.where(_INSTANCE.uuid != besides)
    return connection.scalar(statement.limit(1))
