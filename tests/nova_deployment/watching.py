# SPDX-License-Identifier: Apache-2.0

"""A reader that looks each second whether every server is there, and has one owner.

It reads the databases of Nova and Placement, each in one transaction, and Ironic.
"""

import threading
from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any, Self

import sqlalchemy as sa

from tests.nova_deployment.deployment import Deployment

_SECOND = 1.0
_RECORDS = "SELECT hypervisor_hostname, uuid, host FROM compute_nodes WHERE deleted = 0"
_SERVERS = "SELECT uuid, host, node, vm_state FROM instances WHERE deleted = 0"
_ALLOCATIONS = (
    "SELECT a.consumer_id, p.name, a.used FROM allocations a "
    "JOIN resource_providers p ON p.id = a.resource_provider_id"
)
State = frozenset[tuple[str, ...]]


class Reader:
    """A context manager that looks in a thread, and fails in the end if anything was wrong.

    :param servers: the uuids of those that must be there all the while.
    :ivar looks: how often it has looked.
    """

    def __init__(self, deployment: Deployment, servers: Collection[str]) -> None:
        self._operator = deployment.operator
        self._nova = sa.create_engine(deployment.databases["cell1"])
        self._placement = sa.create_engine(deployment.databases["placement"])
        self._servers = frozenset(servers)
        self._carried = self._carriers()
        assert self._carried.keys() == self._servers
        self._stop = threading.Event()
        self._wrong: list[BaseException] = []
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.looks = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: Any) -> None:
        self._stop.set()
        self._thread.join()
        if self._wrong:
            raise self._wrong[0]
        self.look()
        self._nova.dispose()
        self._placement.dispose()

    def look(self) -> State:
        """Read the state now: shards, records, servers' places and allocations.

        :raises AssertionError: a server is lost, or has no owner, or two.
        """
        with self._nova.begin() as connection:
            # The first statement fixes what all of a transaction see.
            servers = _rows(connection, _SERVERS)
            records = _rows(connection, _RECORDS)
        with self._placement.begin() as connection:
            allocations = _rows(connection, _ALLOCATIONS)
        assert set(Counter(uuid for _, uuid, _ in records).values()) <= {1}, records
        owners = Counter(name for name, _, _ in records)
        assert set(owners.values()) <= {1}, owners
        hosts = {name: host for name, _, host in records}
        found = {uuid: (host, node, state) for uuid, host, node, state in servers}
        held = Counter(server for server, _, _ in allocations)
        for server in self._servers:
            assert server in found, f"server {server} is lost"
            host, node, state = found[server]
            assert state == "active", (server, state)
            assert hosts.get(node) == host, (server, found[server], hosts.get(node))
            assert held[server] == 1, (server, allocations)
        nodes = self._operator.nodes()
        assert self._carriers(nodes) == self._carried
        self.looks += 1
        return frozenset(
            [
                *(("server", *row[:3]) for row in servers),
                *(("record", *row) for row in records),
                *(("allocation", *map(str, row)) for row in allocations),
                *(("shard", uuid, str(node["shard"])) for uuid, node in nodes.items()),
            ]
        )

    def hosts(self) -> dict[str, str]:
        """The host of each record, by its name."""
        with self._nova.begin() as connection:
            return {name: host for name, _, host in _rows(connection, _RECORDS)}

    def _carriers(self, nodes: dict[str, Any] | None = None) -> dict[str, tuple[str, ...]]:
        """The node that carries each server, and whether that is on."""
        nodes = self._operator.nodes() if nodes is None else nodes
        return {
            server: (uuid, node["provision_state"])
            for uuid, node in nodes.items()
            if (server := node["instance_uuid"]) in self._servers
        }

    def _watch(self) -> None:
        while not self._stop.wait(_SECOND):
            try:
                self.look()
            except BaseException as error:
                self._wrong.append(error)
                return


def _rows(connection: sa.Connection, statement: str) -> Sequence[Any]:
    return connection.execute(sa.text(statement)).all()
