# SPDX-License-Identifier: Apache-2.0

"""One operator at a time: a lock of the deployment, held in the server of Nova's API database.

The server lets go of it with the connection, so that nothing is left of a process that died.
In a Galera cluster it holds where all connections go to one server, as Nova's own do.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterator

import sqlalchemy as sa
from nova.db.api import api
from sqlalchemy import exc as sa_exceptions

from ironic_virt import exceptions

_STATEMENTS = {
    "mysql": ("SELECT GET_LOCK(:name, 0)", "SELECT IS_USED_LOCK(:name) = CONNECTION_ID()"),
    "postgresql": (
        "SELECT pg_try_advisory_lock(hashtext(:name))",
        "SELECT count(*) > 0 FROM pg_locks WHERE locktype = 'advisory' AND granted AND "
        "pid = pg_backend_pid() AND objid::bigint = hashtext(:name)::bigint & 4294967295",
    ),
}
"""By dialect: what takes it, and what says whether this connection still has it."""


class Locked(exceptions.IronicVirtError):
    """Somebody else changes the deployment, or the lock was lost."""


@contextlib.contextmanager
def held() -> Iterator[Callable[[], None]]:
    """Hold the lock during the block.

    A database without such locks, which is one of a single process, has none.

    :returns: what raises :class:`Locked` if it was lost.
    :raises Locked: somebody else has it.
    """
    engine = api.get_engine()
    dialect = {"mariadb": "mysql"}.get(engine.dialect.name, engine.dialect.name)
    if dialect not in _STATEMENTS:
        yield lambda: None
        return
    take, ask = map(sa.text, _STATEMENTS[dialect])
    database = hashlib.sha256(str(engine.url.database).encode()).hexdigest()[:16]
    name = {"name": f"ironic-virt-fleet-{database}"}
    with engine.connect() as connection:
        session = connection.execution_options(isolation_level="AUTOCOMMIT")
        if not session.execute(take, name).scalar():
            raise Locked("another ironic-virt-fleet is changing this deployment; try again later")

        def check() -> None:
            try:
                is_held = session.execute(ask, name).scalar()
            except sa_exceptions.SQLAlchemyError:
                is_held = False
            if not is_held:
                raise Locked("the lock in Nova's API database was lost; start it again to go on")

        try:
            yield check
        finally:
            # Closed and not given back to the pool, which would keep the lock.
            connection.invalidate()
