# SPDX-License-Identifier: Apache-2.0

"""The cells of Nova's test support, without the lock in which its threads wait for each other.

Its fixture keeps in a global which cell's database untargeted code gets, and guards that
by a lock for readers and writers.  A thread that has targeted a cell is a reader and wants
to write to the database.  Another one writes to it, and in the midst of that wants to be a
reader, which it may not: a third one waits to target another cell, a writer, and goes
first.  Nothing ends that, and no deadline either, since the API's threads are caught too.

Untargeted code belongs to nova-compute, and all our nova-computes are in one cell.  So the choice
of its database needs no global, and no lock.
"""

import contextlib
from collections.abc import Iterator
from typing import Any
from unittest import mock

from nova.tests import fixtures as nova_fixtures


@contextlib.contextmanager
def _target_cell(cells: Any, context: Any, cell_mapping: Any) -> Iterator[Any]:
    with cells._real_target_cell(context, cell_mapping) as targeted:
        yield targeted


def _context_manager(cells: Any, context: Any) -> Any:
    return getattr(context, "db_connection", None) or cells._default_ctxt_mgr


def without_a_lock() -> contextlib.AbstractContextManager[Any]:
    """Has cells that are made within not wait for each other."""
    return mock.patch.multiple(
        nova_fixtures.CellDatabases,
        _wrap_target_cell=_target_cell,
        _wrap_get_context_manager=_context_manager,
    )
