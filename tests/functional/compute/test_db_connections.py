# SPDX-License-Identifier: Apache-2.0

"""Connections that the database ends."""

from typing import Any

import pytest
import sqlalchemy as sa

from tests import databases


def test_a_connection_lost_after_its_transaction_is_no_error(db, database_server, caplog) -> None:
    if database_server.kind == databases.SQLITE:
        pytest.skip("nobody ends connections to a file")
    ended = []

    def end(connection: Any, _record: object, _state: object) -> None:
        if not ended:
            if database_server.kind == databases.MARIADB:
                statement = f"KILL {connection.thread_id()}"
            else:
                statement = f"SELECT pg_terminate_backend({connection.info.backend_pid})"
            ended.append(statement)
            databases.execute(database_server.url, statement)

    engine = db.engine
    sa.event.listen(engine, "reset", end)
    assert db.instances.list() == []
    assert ended
    assert db.instances.list() == []
    assert [one.getMessage() for one in caplog.records if one.levelname == "ERROR"] == []
