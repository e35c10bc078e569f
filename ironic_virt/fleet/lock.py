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

from ironic_virt import exceptions
from ironic_virt.fleet import nova_conf

_STATEMENTS = {
    "mysql": ("SELECT GET_LOCK(:name, 0)", "SELECT IS_USED_LOCK(:name) = CONNECTION_ID()"),
    "postgresql": (
        "SELECT pg_try_advisory_lock(hashtext(:name))",
        "SELECT count(*) > 0 FROM pg_locks WHERE locktype = 'advisory' AND granted AND "
        "pid = pg_backend_pid() AND objid::bigint = hashtext(:name)::bigint & 4294967295",
    ),
}
"""By dialect: what takes the lock, and what asks whether this connection still holds it."""


class Locked(exceptions.IronicVirtError):
    """Somebody else is changing the deployment, or the lock can't be held."""


@contextlib.contextmanager
def held() -> Iterator[Callable[[], None]]:
    """Hold the lock during the block; yield a check that raises :class:`Locked` if it was lost.

    A database without such locks is used by a single process, and needs none.
    """
    with nova_conf.asking():
        engine = api.get_engine()
    dialect = {"mariadb": "mysql"}.get(engine.dialect.name, engine.dialect.name)
    if dialect not in _STATEMENTS:
        yield lambda: None
        return
    take, ask = map(sa.text, _STATEMENTS[dialect])
    database = hashlib.sha256(str(engine.url.database).encode()).hexdigest()[:16]
    name = {"name": f"ironic-virt-fleet-{database}"}
    with contextlib.ExitStack() as stack:
        with nova_conf.asking():
            connection = stack.enter_context(engine.connect())
            session = connection.execution_options(isolation_level="AUTOCOMMIT")
            is_taken = session.execute(take, name).scalar()
        if not is_taken:
            raise Locked("another ironic-virt-fleet is changing this deployment; try again later")

        def check() -> None:
            with contextlib.suppress(*nova_conf.DATABASE_ERRORS):
                if session.execute(ask, name).scalar():
                    return
            raise Locked("the lock in Nova's API database was lost; run the command again")

        # The pool would keep a connection that is only closed, and so the lock.
        stack.callback(connection.invalidate)
        yield check
