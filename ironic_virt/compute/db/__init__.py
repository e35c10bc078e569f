# SPDX-License-Identifier: Apache-2.0

"""The records of the reference compute service, on SQLite, MariaDB, MySQL or PostgreSQL.

:class:`~ironic_virt.compute.db.database.Database` is the way in; what comes out are
the frozen values of :mod:`~ironic_virt.compute.db.records`.
"""

from ironic_virt.compute.db.database import Database

__all__ = ["Database"]
