# SPDX-License-Identifier: Apache-2.0

"""The records of the reference compute service, behind one object."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable

from oslo_config import cfg

from ironic_virt.compute.db import schema
from ironic_virt.compute.db.candidates import Candidates
from ironic_virt.compute.db.compute_nodes import ComputeNodes
from ironic_virt.compute.db.engine import is_missing, make_directory
from ironic_virt.compute.db.flavors import Flavors
from ironic_virt.compute.db.instance_outcomes import InstanceOutcomes
from ironic_virt.compute.db.instance_requests import InstanceRequests
from ironic_virt.compute.db.instance_rows import InstanceRows
from ironic_virt.compute.db.moves import Moves
from ironic_virt.compute.db.pools import Pools
from ironic_virt.compute.db.services import Services
from ironic_virt.compute.db.transactions import Transactions
from ironic_virt.conf import database


class Instances(InstanceRows, InstanceRequests, InstanceOutcomes):
    """The records of instances: reading, requesting, and writing what became of a request."""


class Database:
    """The records; every method of its parts is one short transaction of its own.

    Safe to use from any thread.  Making one connects to nothing: :meth:`open`
    does, and sees that the tables are right.

    :param conf: with ``[DEFAULT]`` of a service and ``[database]`` registered
        (:func:`ironic_virt.conf.load_records`).
    :param patient: opening it waits for a database that is down; ``False``: one try,
        for a command that somebody waits for.
    :param clock: the time that is written into records, aware; by default the database's.
    :param sleep: pauses between tries, in seconds.
    :raises InvalidConfiguration: ``[database] connection`` can't be used.
    :ivar is_new: :meth:`open` has made the tables, which were not there.
    """

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        *,
        patient: bool = True,
        clock: Callable[[], datetime.datetime] | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        transactions = Transactions(conf, patient=patient, clock=clock, sleep=sleep)
        self._transactions = transactions
        self._is_embedded = database.is_embedded(conf)
        self.is_new = False
        self.services = Services(transactions)
        self.compute_nodes = ComputeNodes(transactions)
        self.pools = Pools(transactions)
        self.candidates = Candidates(transactions)
        self.instances = Instances(transactions)
        self.flavors = Flavors(transactions)
        self.moves = Moves(transactions)

    @property
    def url(self) -> str:
        """Where the records are, for people: the URL without its password."""
        return self._transactions.url

    def now(self) -> datetime.datetime:
        """The time that would be written into a record now."""
        return self._transactions.now()

    def open(self, *, make: bool | None = None) -> Database:
        """Reach the database and see that its tables are this version's.

        :param make: make them if there are none; by default those of the embedded database only.
        :returns: itself.
        :raises DatabaseUnreachable: it can't be reached.
        :raises SchemaMismatch: its tables are another version's, or there are none.
        """
        engine = self._transactions.engine
        if self._is_embedded if make is None else make:
            if self._is_embedded:
                make_directory(engine)
            self._transactions.reach()
            self.is_new = schema.make(self._transactions)
        elif is_missing(engine):
            raise schema.mismatch(self._transactions, None)
        else:
            self._transactions.reach()
            schema.check(self._transactions)
        return self

    def close(self) -> None:
        """Close the connections."""
        self._transactions.dispose()
