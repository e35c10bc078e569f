# SPDX-License-Identifier: Apache-2.0

"""What alembic runs around the revisions: it is handed a connection and keeps to it.

The caller has begun the transaction and holds the lock.
"""

from alembic import context

from ironic_virt.compute.db import models

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=models.METADATA,
    # SQLite can't alter a table: it is copied.
    render_as_batch=True,
)
context.run_migrations()
